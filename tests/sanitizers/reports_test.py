"""What a sanitizer reports of a process leaves a file, with the options of scripts/test: a test that expects the process
to fail sees neither its stderr nor another exit code.

    reports_test.py COMPILER HELPERS

HELPERS is the folder of sanitizer_helpers.so.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = pathlib.Path(__file__).resolve().parent / "planted.cpp"
OPTIONS = """
set -euo pipefail
root=$1
source "$root/scripts/sanitizers/options.sh"
export_sanitizer_options "$2" "$3" "$4"
shift 4
"$@" || true
"""
COMPILER, HELPERS = sys.argv[1:3]


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        for preset, sanitizers in (("asan", "address,undefined"), ("tsan", "thread")):
            subprocess.run([COMPILER, "-std=c++20", "-O1", "-g1", f"-fsanitize={sanitizers}", SOURCE,
                            "-o", cls.folder / preset], check=True)  # fmt: skip

    def reports(self, preset, mistake):
        """Texts of the files that a process with this mistake leaves."""
        with tempfile.TemporaryDirectory() as reports:
            subprocess.run(["bash", "-c", OPTIONS, "bash", ROOT, preset, reports, HELPERS, self.folder / preset, mistake],
                           check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)  # fmt: skip
            return [file.read_text(errors="replace") for file in sorted(pathlib.Path(reports).iterdir())]

    def expect(self, preset, mistake, text):
        found = self.reports(preset, mistake)
        self.assertEqual(len(found), 1, found)
        self.assertIn(text, found[0])

    def test_undefined_behaviour(self):
        self.expect("asan", "overflow", "signed-integer-overflow")

    def test_a_write_out_of_bounds(self):
        # UBSan sees it first where both are there.
        self.assertTrue(any("planted.cpp" in text for text in self.reports("asan", "bounds")))

    def test_a_leak(self):
        self.expect("asan", "leak", "LeakSanitizer")

    def test_a_race(self):
        self.expect("tsan", "race", "data race")

    def test_a_process_without_mistakes_leaves_nothing(self):
        self.assertEqual(self.reports("asan", "none") + self.reports("tsan", "none"), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
