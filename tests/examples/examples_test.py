"""The programs of examples/, run by the commands in their first lines, with the demo model.

    examples_test.py PROGRAMS MODEL MPIRUN LOCKSTEP        PROGRAMS: the folder of example_*; MPIRUN: Open MPI's, or ""
"""
import pathlib
import re
import subprocess
import sys
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "examples"
MOST_LINES = 20
PROMPT = "Once upon a time"


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def example(name):
    return PROGRAMS / f"example_{name}"


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.expected = run(LOCKSTEP, "generate", "--launch", "threads", "--tp", 1, "--model", MODEL, "--prompt", PROMPT,
                           "--max-new-tokens", 24).strip()

    def test_are_short_and_include_only_the_library(self):
        for source in sorted(SOURCES.glob("*.cpp")):
            lines = source.read_text().splitlines()
            code = [line for line in lines if not re.fullmatch(r"\s*(//.*|#include.*|using namespace.*)?", line)]
            self.assertLessEqual(len(code), MOST_LINES, source.name)
            self.assertFalse([line for line in lines if line.startswith('#include "')], source.name)

    def test_01_generate(self):
        self.assertEqual(run(example("01_generate"), MODEL).strip(), self.expected)

    def test_02_mpi(self):
        if not MPIRUN:
            self.skipTest("no mpirun of Open MPI")
        said = run(MPIRUN, "--oversubscribe", "-n", 4, example("02_mpi"), MODEL)
        self.assertEqual(said.count(self.expected), 2)  # of two groups

    def test_03_streaming(self):
        said = run(example("03_streaming"), MODEL)
        for prompt in ("One", "Two"):
            self.assertGreater(len(re.findall(f"^{prompt}: ", said, re.MULTILINE)), 10)

    def test_04_scoring(self):
        self.assertRegex(run(example("04_scoring"), MODEL), r"^perplexity [1-9]\d?\.\d{3}\n$")

    def test_05_processor(self):
        said = run(example("05_processor"), MODEL)
        self.assertRegex(said, r"[A-Za-z]{2}")
        self.assertNotRegex(said, r"\d")

    def test_06_two_models(self):
        if not MPIRUN:
            self.skipTest("no mpirun of Open MPI")
        said = run(MPIRUN, "-n", 2, example("06_two_models"), MODEL, MODEL)
        topic, story = said.split(" | ")
        self.assertTrue(topic.strip() and story.strip(), said)


if __name__ == "__main__":
    PROGRAMS, MODEL, MPIRUN, LOCKSTEP = sys.argv[1:5]
    PROGRAMS, MODEL, LOCKSTEP = (pathlib.Path(word).resolve() for word in (PROGRAMS, MODEL, LOCKSTEP))
    unittest.main("__main__", argv=sys.argv[:1], verbosity=2)
