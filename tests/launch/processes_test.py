"""Ranks as processes that lockstep starts itself: the tokens of one rank, and the end of all after any."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

import launches


def ranks_of(folder):
    """The processes whose command names `folder`, by their LOCKSTEP_RANK; None: the one that was started by hand."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or str(folder).encode() not in (entry / "cmdline").read_bytes():
                continue
            variables = dict(word.partition("=")[::2] for word in (entry / "environ").read_text().split("\0"))
            if "State:\tZ" not in (entry / "status").read_text():
                found[variables.get("LOCKSTEP_RANK")] = int(entry.name)
        except OSError:
            continue
    return found


def until(condition, what):
    end = time.monotonic() + launches.DEADLINE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {launches.DEADLINE:g} s for {what}")
        time.sleep(0.01)


class Processes(launches.Launches):
    def words(self, name, ranks, *more):
        return [launches.PROGRAM, *self.arguments(name, "--launch", "processes", "--tp", ranks, *more)]

    def run_ranks(self, name, ranks, *more, environment=None):
        records = self.make_records(name)
        done = self.run_command(self.words(name, ranks, "--exit-record", records, *more), environment)
        until(lambda: not ranks_of(records), "the end of all processes")
        return done, records

    def make_records(self, name):
        records = self.folder / f"{name}-records"
        records.mkdir()
        return records

    def record(self, records, rank):
        return json.loads((records / f"rank-{rank}.json").read_text())

    def test_every_degree_gives_the_tokens_of_one_rank(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                done, records = self.run_ranks(f"p{ranks}", ranks)
                self.expect_tokens(done, f"p{ranks}", ranks)
                self.assertEqual([self.record(records, rank)["code"] for rank in range(ranks)], [0] * ranks)

    def test_the_table_says_that_lockstep_started_the_ranks(self):
        done, _ = self.run_ranks("table", 2)
        self.expect_words(done, "2 ranks on 1 host, started by lockstep: processes", "0/2 cpu 1", "1/2 cpu 1")

    def test_a_killed_rank_ends_the_job_and_is_named(self):
        for phase in ("bootstrap", "load", "decode"):
            with self.subTest(phase=phase):
                done, records = self.run_ranks(f"killed-{phase}", 3, "--fault", f"rank=2,phase={phase},kind=kill")
                self.assertEqual(done.returncode, 5, done.stdout)
                self.expect_words(done, "rank 2")
                for rank in (0, 1):
                    self.assertEqual(self.record(records, rank)["lost_rank"], 2, done.stdout)

    def test_without_rank_0_the_others_end_too(self):
        done, records = self.run_ranks("first", 3, "--fault", "rank=0,phase=decode,kind=kill")
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stdout)

    def test_a_rank_that_fails_gives_its_own_reason(self):
        done, records = self.run_ranks("fails", 2, "--fault", "rank=1,phase=load,kind=fail")
        self.assertEqual(self.record(records, 1)["code"], self.record(records, 0)["code"], done.stdout)
        self.assertEqual(done.returncode, self.record(records, 1)["code"])
        self.assertEqual(done.returncode, 1, done.stdout)
        self.expect_words(done, "rank 1 failed in load, as --fault asked")
        self.assertNotIn("found its process ended", done.stdout)

    def test_a_frozen_rank_is_lost_after_its_silence(self):
        done, records = self.run_ranks("frozen", 2, "--silence-s", 1, "--fault", "rank=1,phase=decode,kind=stop")
        self.assertEqual(done.returncode, 5, done.stdout)
        self.assertEqual(self.record(records, 0)["lost_rank"], 1)

    def signal_beside_a_frozen_rank(self, name, number):
        """The exit code of rank 0, which gets the signal while rank 1 is frozen."""
        records = self.make_records(name)
        words = self.words(name, 2, "--exit-record", records, "--fault", "rank=1,phase=decode,kind=stop",
                           "--silence-s", 0)
        with subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=launches.environment()) as job:
            def is_frozen():
                pid = ranks_of(records).get("1")
                return pid and "State:\tT" in pathlib.Path(f"/proc/{pid}/status").read_text()
            until(is_frozen, "rank 1 to stop")
            job.send_signal(number)
            code = job.wait(launches.DEADLINE)
        until(lambda: not ranks_of(records), "the end of all processes")
        return code

    def test_an_interrupt_ends_even_a_frozen_rank(self):
        self.assertEqual(self.signal_beside_a_frozen_rank("interrupted", signal.SIGINT), 130)

    def test_a_frozen_rank_does_not_outlive_rank_0(self):
        self.assertEqual(self.signal_beside_a_frozen_rank("outlived", signal.SIGKILL), -signal.SIGKILL)

    def test_a_rank_cannot_be_made_by_hand(self):
        done = self.run_command(self.words("hand", 2), {"LOCKSTEP_RANK": "1", "LOCKSTEP_RANKS": "2"})
        self.expect_refusal(done, "LOCKSTEP_MEETING", "unset LOCKSTEP_RANK")

    def test_mpi_is_no_way_to_exchange_between_them(self):
        done, _ = self.run_ranks("messages", 2, "--communicator", "mpi")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.expect_words(done, "found mpi with ranks started without MPI", "expected auto or shm")

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_under_a_launcher_they_are_refused(self):
        crowded = ["--oversubscribe"] if len(os.sched_getaffinity(0)) < 2 else []
        done = self.run_command(["mpirun", "-n", 2, *crowded, *self.words("both", 2)])
        self.assertEqual(done.returncode, 4, done.stdout)
        self.expect_words(done, "found ranks that Open MPI's mpirun has started", "omit --launch processes")


if __name__ == "__main__":
    launches.start_tests()
