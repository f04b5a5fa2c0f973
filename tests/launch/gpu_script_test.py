"""scripts/gpu as on a borrowed machine: the archive, unpacked in a root folder that holds nothing else but a shell, tools
and the C library, over the stand-in of the CUDA driver.

    gpu_script_test.py PROJECT
"""
import pathlib
import subprocess
import sys
import unittest

import empty_root
import test_folder

SKIPPED = 77
PROJECT = None
DEADLINE = 1200.0  # seconds of a command: the stand-in is slower than a GPU


class GpuScript(test_folder.FolderTests):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run([PROJECT / "scripts/gpu", "pack"], check=True, timeout=DEADLINE)
        cls.archive = PROJECT / "build/gpu/lockstep-gpu.tar.xz"
        cls.root = empty_root.EmptyRoot(cls.folder)
        subprocess.run(["tar", "-xJf", cls.archive, "-C", cls.folder], check=True, timeout=DEADLINE)

    def run_there(self, command, driver=None):
        """The finished command and its report."""
        done = self.root.run(["/gpu/scripts/gpu", command],
                             {"RESULTS": "/tmp/results",
                              "LOCKSTEP_CUDA_DRIVER": driver or "/gpu/lib/libcuda_stand_in.so"}, DEADLINE)
        return done, (self.folder / "tmp/results" / f"report-{command}.txt").read_text()

    def test_the_archive_travels(self):
        self.assertLess(self.archive.stat().st_size, 60 << 20)

    def test_every_command_ends_well_over_the_stand_in(self):
        for command in ("env", "correct", "ranks", "speed", "cpu"):
            with self.subTest(command=command):
                done, report = self.run_there(command)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertIn("ok      ", report)
                self.assertIn("0 parts failed", report)
                self.assertTrue((self.folder / "tmp/results" / f"logs-{command}.tar.xz").exists())
        self.assertIn("TP 2", (self.folder / "tmp/results/report-cpu.txt").read_text())

    def test_a_part_that_fails_is_told_and_stops_nothing(self):
        done, report = self.run_there("env", driver="/nothing_stand_in.so")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("failed  kernels", report)
        self.assertIn("ok      program", report)


if __name__ == "__main__":
    PROJECT = pathlib.Path(sys.argv.pop(1)).resolve()
    if reason := empty_root.why_not():
        print(f"skipped: {reason}; needs root or user namespaces")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
