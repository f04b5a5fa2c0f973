"""Tests of the harness itself: exit codes, hanging jobs, remaining processes and files."""
import glob
import os
import subprocess
import sys
import time
import unittest

HARNESS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run_ranks.py")


def run_ranks(ranks, script, deadline=60, *options):
    command = [sys.executable, HARNESS, "--ranks", str(ranks), "--deadline", str(deadline), *options, "--", "sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=deadline + 60, check=False)


def is_running(pid):
    """An ended process may stay listed until its parent reads its code."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class RunRanks(unittest.TestCase):
    def test_is_quiet_when_all_is_well(self):
        done = run_ranks(2, "echo hello")
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_shows_every_ranks_output_when_one_fails(self):
        done = run_ranks(2, 'echo "I am $OMPI_COMM_WORLD_RANK"; exit 3')
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("found exit code 3, expected 0", done.stdout)
        self.assertIn("I am ", done.stdout)

    def test_accepts_the_code_that_is_expected(self):
        self.assertEqual(run_ranks(1, "exit 4", 60, "--expect-code", "4").returncode, 0)

    def test_skips_where_there_is_no_such_mpirun(self):
        done = run_ranks(1, "exit 3", 60, "--mpirun", "mpirun.nowhere")
        self.assertEqual(done.returncode, 77)
        self.assertIn("mpirun.nowhere is not there", done.stdout)

    def test_starts_more_ranks_than_cores(self):
        ranks = len(os.sched_getaffinity(0)) + 2
        done = run_ranks(ranks, "echo rank=$OMPI_COMM_WORLD_RANK", 60, "--show")
        self.assertEqual(done.returncode, 0, done.stdout)
        for rank in range(ranks):
            self.assertIn(f"rank={rank}\n", done.stdout)

    def test_ends_every_process_at_the_deadline(self):
        start = time.monotonic()
        done = run_ranks(2, 'echo "pid=$$"; sleep 1000', 5)
        self.assertEqual(done.returncode, 124)
        self.assertLess(time.monotonic() - start, 40)
        self.assertIn("the deadline of 5 s passed", done.stdout)
        pids = [line.partition("pid=")[2].strip() for line in done.stdout.splitlines() if "pid=" in line]
        self.assertEqual(len(pids), 2, done.stdout)
        for pid in pids:
            self.assertFalse(is_running(pid), pid)

    def test_sees_shared_memory_that_is_left_behind(self):
        done = run_ranks(1, "touch /dev/shm/lockstep-$$-left")
        self.assertEqual(done.returncode, 125)
        self.assertIn("shared memory was left behind", done.stdout)
        self.assertEqual(glob.glob("/dev/shm/lockstep-*-left"), [])


if __name__ == "__main__":
    unittest.main()
