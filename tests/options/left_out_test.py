"""A build without some of its options: the rest works, and using an omitted part is an error that names its option.

    left_out_test.py PROGRAM OFF…       OFF: neuron, cache, reference, measure, journal, server, mpi, isas; all that are off
"""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "launch"))
import test_folder  # noqa: E402
import tiny_model  # noqa: E402

MEASURING = ("bench", "sweep", "plan", "doctor")
UNSUPPORTED, UNAVAILABLE = 3, 4


def run(*words):
    """The finished program, stderr in stdout."""
    return subprocess.run([PROGRAM, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=120, check=False)


class LeftOut(test_folder.FolderTests):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = tiny_model.write(cls.folder / "model")
        (cls.folder / "prompts.json").write_text("[[5, 9, 23, 77, 3], [11, 4]]")
        (cls.folder / "jobs.jsonl").write_text('{"id": "a", "ids": [5, 9, 23]}\n')

    def generate(self, *more):
        return run("generate", "--model", self.model, "--max-new-tokens", 6, "--ignore-eos", "--no-do-sample",
                   "--launch", "threads", *more)

    def tokens(self, ranks, *more):
        """The tokens of the prompts, with threads."""
        answer = self.folder / f"answer-{ranks}.json"
        done = self.generate("--tp", ranks, "--ids-file", self.folder / "prompts.json", "--json", answer, *more)
        self.assertEqual(done.returncode, 0, done.stdout)
        return json.loads(answer.read_text())["sequences"]

    def refused(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stdout)
        for word in words:
            self.assertIn(word, done.stdout)

    def test_generates_with_threads(self):
        alone = self.tokens(1)
        self.assertEqual([len(row) for row in alone], [6, 6])
        self.assertEqual(self.tokens(2), alone)
        self.tokens(1, "--instruction-set", "portable")

    def test_the_version_names_the_options(self):
        version = run("--version").stdout
        for name, text in (("neuron", "neuron"), ("cache", "compile cache"), ("reference", "reference"),
                           ("measure", "measure"), ("journal", "journal"), ("server", "server")):
            self.assertIn(f"{text} {'OFF' if name in OFF else 'ON'}", version)
        self.assertEqual("mpi" in OFF, "MPI: none" in version)
        self.assertEqual("isas" in OFF, "avx2 avx512 avx512_bf16 amx" not in version)

    def test_batch_jobs_need_no_journal(self):
        output = self.folder / "output.jsonl"
        done = self.generate("--tp", 1, "--prompts-file", self.folder / "jobs.jsonl", "--output", output)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(len(output.read_text().splitlines()), 1)

    def test_measuring_commands(self):
        for command in MEASURING:
            for words in ([], ["--help"], ["--model", self.model, "generate", "-x"]):
                if "measure" in OFF:
                    self.refused(run(command, *words), UNSUPPORTED, f"{command}: ", "-DLOCKSTEP_WITH_MEASURE=ON")
            self.assertEqual("measure" in OFF, run(command, "--help").returncode != 0)
            self.assertIn(f"  {command} ", run("--help").stdout)

    def test_backends(self):
        for backend, options in (("neuron", ("neuron", "cache")), ("reference", ("reference",))):
            off = [option for option in options if option in OFF]
            if off:
                done = self.generate("--tp", 1, "--ids-file", self.folder / "prompts.json", "--backend", backend)
                self.refused(done, UNAVAILABLE, f"--backend {backend}", f"-DLOCKSTEP_WITH_{off[0].upper()}=ON")

    @unittest.skipUnless("journal" in sys.argv, "this build has it")
    def test_journals(self):
        journal = ("--prompts-file", self.folder / "jobs.jsonl", "--journal", self.folder / "journal")
        self.refused(self.generate(*journal), UNSUPPORTED, "--journal", "-DLOCKSTEP_WITH_JOURNAL=ON")
        done = run("supervise", "--", PROGRAM, "generate", "--model", self.model, *journal)
        self.refused(done, UNSUPPORTED, "-DLOCKSTEP_WITH_JOURNAL=ON")
        self.assertFalse((self.folder / "journal").exists())

    def test_the_engine_of_other_processes(self):
        done = run("engine", "--model", self.folder / "nowhere", "--socket", self.folder / "engine.sock")
        if "server" in OFF:
            self.refused(done, UNSUPPORTED, "engine: ", "-DLOCKSTEP_WITH_SERVER=ON")
        else:
            self.refused(done, 2, "config.json")

    @unittest.skipUnless("mpi" in sys.argv, "this build has it")
    def test_mpi(self):
        done = run("generate", "--model", self.model, "--tp", 2, "--ids-file", self.folder / "prompts.json")
        self.refused(done, UNAVAILABLE, "-DLOCKSTEP_WITH_MPI=ON", "--launch threads")

    @unittest.skipUnless("isas" in sys.argv, "this build has them")
    def test_instruction_sets(self):
        built = run("--version").stdout.partition("instruction sets: ")[2].split()
        for name in ("avx2", "avx512", "avx512_bf16", "amx"):
            if name not in built:
                done = self.generate("--tp", 1, "--ids-file", self.folder / "prompts.json", "--instruction-set", name)
                self.refused(done, UNSUPPORTED, f"--instruction-set {name}", "-DLOCKSTEP_CPU_ISAS=all")


if __name__ == "__main__":
    PROGRAM, *OFF = sys.argv[1:]
    unittest.main("__main__", argv=sys.argv[:1], verbosity=2)
