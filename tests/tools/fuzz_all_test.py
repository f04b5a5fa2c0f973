"""tools/fuzz_all.py with stand-ins for the fuzzers.

    fuzz_all_test.py
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "fuzz_all.py"
NAME = "connection_hello"

# Counts its runs; a run with folders is a search, one with a file alone repeats it.
STAND_IN = """\
    #!{python}
    import pathlib, sys
    own = pathlib.Path({folder!r})
    prefix = [word.partition("=")[2] for word in sys.argv if word.startswith("-artifact_prefix=")]
    runs = own / "runs"
    runs.write_text((runs.read_text() if runs.exists() else "") + ("s" if prefix else "f"))
    print("stat::number_of_executed_units: 50")
    """
BUSY = "import time\nwhile time.process_time() < 0.6: pass"


class FuzzAll(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, behaviour):
        path = self.folder / "bin" / f"{NAME}_fuzz"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(STAND_IN).format(python=sys.executable, folder=str(self.folder)) + behaviour)
        path.chmod(0o755)

    def search(self, *words):
        return subprocess.run([sys.executable, TOOL, "--build", self.folder, "--seconds", "1", *words, NAME],
                              capture_output=True, text=True, timeout=60, check=False)

    def runs(self):
        return (self.folder / "runs").read_text()

    def result(self):
        (result,) = json.loads((self.folder / "search/results.json").read_text())[NAME].values()
        return result

    def test_searches_until_the_seconds_are_used_and_not_again(self):
        self.program(BUSY)
        done = self.search()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], "1 fuzzers, 1 processor seconds each: nothing found")
        self.assertGreaterEqual(self.result()["seconds"], 0.5)
        self.assertEqual(self.result()["executions"], 50 * len(self.runs()))
        runs = self.runs()
        self.assertEqual(self.search().returncode, 0)
        self.assertEqual(self.runs(), runs)

    def test_keeps_what_is_found(self):
        self.program("pathlib.Path(prefix[0] + 'crash-1').write_text('x'); sys.exit(77)")
        for _ in range(2):  # the second without a run
            found = self.search()
            self.assertEqual(found.returncode, 1)
            self.assertIn("found crash-1", found.stdout)
            self.assertEqual(found.stdout.splitlines()[-1], "1 fuzzers, 1 processor seconds each: found 1 inputs")
        self.assertEqual(self.runs(), "s")
        self.assertEqual((self.folder / "search" / NAME / "crash-1").read_text(), "x")

    def test_reports_an_end_without_an_input(self):
        self.program("sys.exit(3)")
        self.assertIn("exit code 3", self.search().stdout)

    def test_drops_an_input_that_only_neighbours_made_slow(self):
        self.program("if prefix and runs.read_text() == 's': (pathlib.Path(prefix[0] + 'timeout-1').write_text('x'), "
                     f"sys.exit(70))\n{BUSY}")
        done = self.search()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertTrue(self.runs().startswith("sfs"), self.runs())
        self.assertFalse((self.folder / "search" / NAME / "timeout-1").exists())

    def test_does_not_take_its_own_end_for_a_finding(self):
        self.program("import os; os.kill(os.getpid(), 9)")
        self.assertIn("ended by a signal", self.search().stdout)
        self.assertFalse((self.folder / "search/results.json").exists())

    def test_names_programs_that_are_missing(self):
        missing = self.search()
        self.assertEqual(missing.returncode, 2)
        self.assertIn(f"no program for {NAME}", missing.stderr)


if __name__ == "__main__":
    unittest.main()
