"""The program under test, a model and the goldens, for the tests of this folder.

    some_test.py PROGRAM MODEL GOLDENS
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import jobs

PROGRAM = MODEL = GOLDENS = None
SKIPPED = 77  # exit code


def start_tests(fetched_by):
    """Runs the tests of the main module. Without the model they are skipped, naming the tool that fetches it."""
    global PROGRAM, MODEL, GOLDENS
    PROGRAM, MODEL, GOLDENS = sys.argv[1:4]
    if not pathlib.Path(MODEL, "config.json").exists():
        print(f"skipped: {MODEL} is not there; .venv/bin/python {fetched_by} fetches it")
        sys.exit(SKIPPED)
    unittest.main("__main__", argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)


def golden(name):
    return json.loads((pathlib.Path(GOLDENS) / f"{name}.json").read_text())


def run(*arguments, environment=None):
    """One process without mpirun: (code, stdout, stderr)."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, timeout=jobs.DEADLINE,
                          stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})}, check=False)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


class StepTensor:
    """The file of --output-logits or --output-scores: f32 [rows, steps, vocabulary]."""

    def __init__(self, path, name):
        self.data = path.read_bytes()
        self.begin = 8 + struct.unpack("<Q", self.data[:8])[0]
        self.shape = json.loads(self.data[8:self.begin])[name]["shape"]

    def at(self, row, step):
        _, steps, vocabulary = self.shape
        return struct.unpack_from(f"<{vocabulary}f", self.data, self.begin + 4 * vocabulary * (row * steps + step))


class Folder(unittest.TestCase):
    """A test with a temporary folder."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def ids_file(self, rows):
        handle, name = tempfile.mkstemp(prefix="rows-", suffix=".json", dir=self.folder)
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(rows, file)
        return pathlib.Path(name)

    def answer_of(self, *arguments, ranks=None, threads=None):
        """The --json of a run: under mpirun with `ranks`, or as `threads` ranks of one process."""
        out = self.folder / "answer.json"
        arguments = ["--model", MODEL, "--json", str(out), *map(str, arguments)]
        if threads is None:
            with jobs.Job(PROGRAM, ranks, arguments) as job:
                self.assertEqual(job.wait(), 0, job.text())
                self.assertEqual(job.left_behind(), ([], []))
                for rank in range(ranks):
                    self.assertEqual(job.record(rank)["code"], 0)
        else:
            code, _, stderr = run("generate", *arguments, "--launch", "threads", "--tp", threads)
            self.assertEqual(code, 0, stderr)
        answer = json.loads(out.read_text())
        self.assertEqual(answer["world_size"], ranks or threads)
        self.assertEqual(answer["graphs"]["expected"], answer["graphs"]["compiled"])
        self.assertEqual(answer["graphs"]["after_warmup"], 0)
        return answer

    def expect_refusal(self, code, *words, arguments, environment=None):
        """Expects that `lockstep generate` ends with `code`, prints `words` to stderr, and writes neither text nor
        file."""
        out = self.folder / "out.json"
        found, stdout, stderr = run("generate", *arguments, "--json", out, environment=environment)
        self.assertEqual(found, code, stderr)
        for word in words:
            self.assertIn(word, stderr)
        self.assertEqual(stdout, "")
        self.assertEqual([path.name for path in self.folder.iterdir() if "out" in path.name], [])
