"""scripts/gpu as on a borrowed machine: the archive, unpacked elsewhere, without this project's environment, over the
stand-in of the CUDA driver.

    gpu_script_test.py PROJECT
"""
import os
import pathlib
import subprocess
import sys
import unittest

import test_folder

PROJECT = None
DEADLINE = 600.0  # seconds of a command, as on that machine


class GpuScript(test_folder.FolderTests):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run([PROJECT / "scripts/gpu", "pack"], check=True, timeout=DEADLINE)
        cls.archive = PROJECT / "build/gpu/lockstep-gpu.tar.xz"
        subprocess.run(["tar", "-xJf", cls.archive, "-C", cls.folder], check=True, timeout=DEADLINE)

    def run_there(self, command, driver=None):
        """The finished command and its report."""
        results = self.folder / "results"
        done = subprocess.run([self.folder / "gpu/scripts/gpu", command], cwd=self.folder, timeout=DEADLINE, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "RESULTS": str(results),
                                   "LOCKSTEP_CUDA_DRIVER": str(driver or self.folder / "gpu/lib/libcuda_stand_in.so")})
        return done, (results / f"report-{command}.txt").read_text()

    def test_the_archive_travels(self):
        self.assertLess(self.archive.stat().st_size, 60 << 20)

    def test_every_command_ends_well_over_the_stand_in(self):
        for command in ("env", "speed"):
            with self.subTest(command=command):
                done, report = self.run_there(command)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertIn("ok      ", report)
                self.assertIn("0 parts failed", report)
                self.assertTrue((self.folder / "results" / f"logs-{command}.tar.xz").exists())

    def test_a_part_that_fails_is_told_and_stops_nothing(self):
        done, report = self.run_there("env", driver=self.folder / "nothing_stand_in.so")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("failed  kernels", report)
        self.assertIn("ok      program", report)


if __name__ == "__main__":
    PROJECT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
