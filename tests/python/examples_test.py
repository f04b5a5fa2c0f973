"""The programs of examples/python with the demo model: short, and right.

    examples_test.py MODEL
"""
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import launches

PROGRAMS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"
MOST_LINES = 25


def run(name, *launcher):
    done = subprocess.run([*launcher, sys.executable, PROGRAMS / name, MODEL], capture_output=True, text=True, timeout=120,
                          check=False, env={**os.environ, **launches.environment()})
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


class Programs(unittest.TestCase):
    def test_all_are_short_and_run_here(self):
        names = sorted(path.name for path in PROGRAMS.glob("*.py"))
        tested = sorted(f"{name.removeprefix('test_')}.py" for name in dir(self) if re.match(r"test_\d\d_", name))
        self.assertEqual(names, tested)
        for name in names:
            lines = [line for line in (PROGRAMS / name).read_text().splitlines() if line.strip()]
            self.assertLessEqual(len(lines), MOST_LINES, name)

    def test_01_generate(self):
        self.assertEqual([line[:16] for line in run("01_generate.py").splitlines() if line][0], "Once upon a time")

    def test_02_stream(self):
        self.assertEqual(len(run("02_stream.py").strip().splitlines()) >= 4, True)

    def test_03_processor(self):
        said = run("03_processor.py")
        self.assertRegex(said, r"[A-Za-z]{2}")
        self.assertNotRegex(said, r"\d")

    def test_04_constrained_json(self):
        self.assertRegex(run("04_constrained_json.py"), r"^\{'mood': '(happy|neutral|angry)', 'stars': [1-5]\}\n$")

    def test_05_score(self):
        likely, unlikely = re.findall(r"^ *(\d+\.\d\d)  ", run("05_score.py"), re.MULTILINE)
        self.assertLess(float(likely), float(unlikely))

    def test_06_degrees(self):
        said = run("06_degrees.py")
        self.assertEqual(re.findall(r"^tp=(\d) ", said, re.MULTILINE), ["1", "2", "3"])
        self.assertTrue(said.endswith("1 different answer\n"), said)

    def test_07_ranks(self):
        said = run("07_ranks.py", "mpirun", *launches.CROWDED, "-n", "2")
        self.assertEqual(len(re.findall(r"MiB of weights", said)), 2)
        self.assertEqual(said.splitlines()[-1], run("07_ranks.py").splitlines()[-1])


if __name__ == "__main__":
    MODEL = pathlib.Path(sys.argv[1]).resolve()
    unittest.main("__main__", argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
