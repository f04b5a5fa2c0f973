"""Runs of the program under any launcher, with a model and its expected tokens.

    some_test.py PROGRAM
"""
import json
import os
import subprocess
import sys
import unittest

import test_folder
import tiny_model
from waiting import DEADLINE

SKIPPED = 77
CROWDED = ("--oversubscribe",) if len(os.sched_getaffinity(0)) < 2 else ()  # words of mpirun for two ranks
PROMPTS = [[5, 9, 23, 77, 3], [11, 4]]

PROGRAM = None


def start_tests(why_not=None):
    """Runs the tests of the main module, or says why this machine cannot and leaves with the code for that."""
    global PROGRAM
    PROGRAM = sys.argv[1]
    if why_not:
        print(f"skipped: {why_not}; scripts/test --full installs what Debian has")
        sys.exit(SKIPPED)
    unittest.main("__main__", argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)


def environment():
    """Without what a launcher around these tests has set, but with the way in which mpirun reaches hosts."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("SLURM_", "OMPI_", "PMI")) or name == "OMPI_MCA_plm_rsh_agent"}
    return {**clean, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Launches(test_folder.FolderTests):
    """Tests with a model and the tokens that it must give."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder.chmod(0o755)
        cls.model = tiny_model.write(cls.folder / "model")
        (cls.folder / "prompts.json").write_text(json.dumps(PROMPTS))
        cls.expected = None
        done = cls.run_command([PROGRAM, *cls.arguments("one"), "--launch", "threads"])
        assert done.returncode == 0, done.stdout
        cls.expected = cls.answer("one")["sequences"]

    @classmethod
    def arguments(cls, name, *more, threads=1, deadline=60, tokens=12):
        """Of `lockstep`, whose answer will be called `name`."""
        return ["generate", "--model", str(cls.model), "--ids-file", str(cls.folder / "prompts.json"),
                "--max-new-tokens", str(tokens), "--ignore-eos", "--no-do-sample", "--threads", str(threads),
                "--deadline-s", str(deadline),
                "--json", str(cls.folder / f"{name}.json"), *map(str, more)]

    @classmethod
    def answer(cls, name):
        return json.loads((cls.folder / f"{name}.json").read_text())

    @staticmethod
    def run_command(command, more_environment=None, timeout=DEADLINE):
        """The finished process, stderr in stdout."""
        return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout, check=False,
                              env={**environment(), **(more_environment or {})})

    def expect_tokens(self, done, name, ranks):
        """The run ended well, with as many ranks and the tokens that one rank gives."""
        self.assertEqual(done.returncode, 0, done.stdout)
        answer = self.answer(name)
        self.assertEqual(answer["world_size"], ranks, done.stdout)
        self.assertEqual(answer["sequences"], self.expected, done.stdout)

    def expect_words(self, done, *words):
        for word in words:
            self.assertIn(word, " ".join(done.stdout.split()))

    def expect_refusal(self, done, *words):
        """The launch was refused with code 4, in these words."""
        self.assertEqual(done.returncode, 4, done.stdout)
        self.expect_words(done, *words)
