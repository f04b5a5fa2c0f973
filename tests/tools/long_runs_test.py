"""tools/long_runs.py with a build folder of three tests: it goes on where it was, and records only what is whole.

    long_runs_test.py
"""
import argparse
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import long_runs  # noqa: E402

# `mended` fails until its file is there; every run of a test adds a line to `notes`.
TESTS = """
add_test(good "sh" "-c" "echo good >> {folder}/notes")
add_test(mended "sh" "-c" "echo mended >> {folder}/notes; test -e {folder}/mend")
add_test(skips "sh" "-c" "echo skips >> {folder}/notes; exit 77")
set_tests_properties(skips PROPERTIES SKIP_RETURN_CODE 77)
add_test(slow_one "sh" "-c" "echo slow_one >> {folder}/notes")
set_tests_properties(slow_one PROPERTIES LABELS slow)
"""


class LongRuns(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "CTestTestfile.cmake").write_text(TESTS.format(folder=self.folder))
        self.file = self.folder / "long_runs" / "trial" / "results.jsonl"
        self.commit = "aaaa1111"
        for name, value in (("RECORD", self.folder / "record.json"), ("commit_of_tree", lambda: self.commit)):
            patch = unittest.mock.patch.object(long_runs, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def run_suite(self, *, times=1, keep=False, beside=0, note=None):
        """(exit code, what was printed)."""
        options = argparse.Namespace(name="trial", folder=self.folder, times=times, beside=beside, keep=keep, note=note,
                                     reports=self.folder / "reports", words=["-LE", "slow"])
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = long_runs.run_suite(options)
        return code, printed.getvalue()

    def notes(self):
        """The tests that ran since the last call."""
        file = self.folder / "notes"
        lines = sorted(file.read_text().split()) if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    def recorded(self):
        return json.loads(long_runs.RECORD.read_text())["trial"] if long_runs.RECORD.exists() else None

    def test_goes_on_where_it_was_and_records_a_whole_run_alone(self):
        code, printed = self.run_suite()
        self.assertEqual((code, self.notes()), (1, ["good", "mended", "skips"]))
        self.assertIn("mended: failed", printed)
        self.assertIn("3 tests: 1 passed, 1 failed, 1 skipped (skips)", printed)
        self.assertIsNone(self.recorded())
        (self.folder / "mend").touch()
        code, printed = self.run_suite()
        self.assertEqual((code, self.notes()), (0, ["mended"]))
        self.assertEqual(self.recorded()["summary"], "3 tests: 2 passed, 0 failed, 1 skipped (skips)")
        self.assertEqual(self.recorded()["commit"], "aaaa1111")

    def test_records_nothing_while_a_sanitizer_has_reported_a_process(self):
        (self.folder / "mend").touch()
        (self.folder / "reports").mkdir()
        report = self.folder / "reports" / "report.12"
        report.touch()
        code, printed = self.run_suite()
        self.assertEqual((code, self.recorded()), (1, None))
        self.assertIn("sanitizers reported 1 processes", printed)
        report.unlink()
        code, _ = self.run_suite(note="beside a fuzzer")
        self.assertEqual(code, 0)
        self.assertEqual(self.recorded()["summary"], "3 tests: 2 passed, 0 failed, 1 skipped (skips); beside a fuzzer")

    def test_a_failure_among_several_laps_stays_a_failure(self):
        code, _ = self.run_suite(times=2)
        self.assertEqual((code, self.notes()), (1, ["good", "good", "mended", "mended", "skips", "skips"]))
        (self.folder / "mend").touch()
        code, printed = self.run_suite(times=2)
        self.assertEqual((code, self.notes()), (1, []))
        self.assertIn("3 tests, 2 times: 2 passed, 2 failed, 2 skipped (skips)", printed)

    def test_what_failed_at_another_commit_runs_again_in_all_laps(self):
        self.assertEqual(self.run_suite(times=2)[0], 1)
        (self.folder / "mend").touch()
        self.notes()
        self.commit = "bbbb2222"
        code, printed = self.run_suite(times=2, keep=True)
        self.assertEqual((code, self.notes()), (0, ["mended", "mended"]))
        self.assertIn("3 tests, 2 times: 4 passed, 0 failed, 2 skipped (skips); at commits aaaa1111, bbbb2222", printed)
        self.assertEqual(self.run_suite(times=2, keep=True)[0], 0)
        self.assertEqual(self.notes(), [])

    def test_results_of_another_commit_count_where_asked(self):
        (self.folder / "mend").touch()
        self.assertEqual(self.run_suite()[0], 0)
        self.notes()
        self.commit = "bbbb2222"
        self.assertEqual((self.run_suite(keep=True)[0], self.notes()), (0, []))
        self.assertEqual((self.run_suite()[0], self.notes()), (0, ["good", "mended", "skips"]))

    def test_loops_run_beside_the_tests_and_end(self):
        (self.folder / "mend").touch()
        self.assertEqual(self.run_suite(beside=1)[0], 0)
        self.assertEqual(self.recorded()["summary"], "3 tests beside 1 busy loops: 2 passed, 0 failed, 1 skipped (skips)")
        with long_runs.busy_loops(2) as loops:
            self.assertEqual([loop.poll() for loop in loops], [None, None])
        self.assertNotIn(None, [loop.poll() for loop in loops])


if __name__ == "__main__":
    unittest.main()
