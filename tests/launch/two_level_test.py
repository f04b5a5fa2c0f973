"""Communicators over real hosts (namespaces): the conformance suite, and whole answers that are the same to the bit.

    two_level_test.py PROGRAM CONFORMANCE_PROGRAM MODEL
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import hosts

DEADLINE = 120.0  # seconds for one run; only a hang gets there
SKIPPED = 77  # exit code
SMALL_MEMORY = "64k"

PROGRAM = CONFORMANCE = MODEL = None


def run(command):
    """The finished process, stderr in stdout."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=DEADLINE, check=False,
                          env=environment)


class Suite(unittest.TestCase):
    """The conformance suite, with shared memory on each host and MPI between them."""

    def expect_conformance(self, group, ranks, options=()):
        done = run(group.mpirun(ranks, options) + [CONFORMANCE, "--gtest_filter=Hosts/*as_placed*", "--gtest_brief=1"])
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("FAILED", done.stdout)
        self.assertEqual(done.stdout.count("[  PASSED  ]"), sum(ranks), done.stdout)
        self.assertNotIn("[  PASSED  ] 0 tests", done.stdout)

    def test_two_hosts(self):
        with hosts.Hosts(2) as group:
            self.expect_conformance(group, [1, 1])
            self.expect_conformance(group, [2, 2], ["--map-by", "node"])  # ranks 0 2 and 1 3

    def test_three_uneven_hosts(self):
        with hosts.Hosts(3) as group:
            self.expect_conformance(group, [2, 1, 1])


class Answers(unittest.TestCase):
    """Tokens and logits of whole runs."""

    @classmethod
    def setUpClass(cls):
        cls.group = cls.enterClassContext(hosts.Hosts(2))
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="lockstep-two-level-")))
        done = cls.generate([PROGRAM], "one", "--launch", "threads", "--tp", 4)
        assert done.returncode == 0, done.stdout
        cls.expected = cls.answer("one")

    @classmethod
    def generate(cls, launch, name, *arguments):
        """A run whose files are called `name`."""
        return run([*launch, "generate", "--model", MODEL, "--prompt", "The capital of France is", "--max-new-tokens", 6,
                    "--ignore-eos", "--threads", 1, "--deadline-s", 60, "--json", cls.folder / f"{name}.json",
                    "--output-logits", cls.folder / f"{name}.logits", *arguments])

    @classmethod
    def answer(cls, name):
        """Tokens and the bytes of the logits."""
        return (json.loads((cls.folder / f"{name}.json").read_text())["sequences"],
                (cls.folder / f"{name}.logits").read_bytes())

    def on_hosts(self, ranks, communicator, options=()):
        return self.generate([*self.group.mpirun(ranks, options), PROGRAM], "several", "--communicator", communicator)

    def expect_answer(self, done, communicator, ranks):
        self.assertEqual(done.returncode, 0, done.stdout)
        written = json.loads((self.folder / "several.json").read_text())
        self.assertEqual((written["communicator"], written["world_size"]), (communicator, ranks), done.stdout)
        self.assertEqual(self.answer("several"), self.expected)

    def test_hosts_of_one_rank_answer_as_one_host(self):
        self.expect_answer(self.on_hosts([1, 1], "two-level"), "two-level", 2)

    def test_hosts_of_two_ranks_answer_as_one_host(self):
        self.expect_answer(self.on_hosts([2, 2], "two-level"), "two-level", 4)
        self.expect_answer(self.on_hosts([2, 2], "mpi", ["--map-by", "node"]), "mpi", 4)

    def test_auto_measures_both_ways(self):
        done = self.on_hosts([2, 1], "auto")
        self.expect_answer(done, "choosing (two-level, mpi)", 3)
        self.assertIn("messages up to 4.00 KiB go by", done.stdout)

    def test_shared_memory_between_hosts_is_refused(self):
        done = self.on_hosts([1, 1], "shm")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("found shm with ranks on several hosts, expected auto, two-level or mpi", done.stdout)

    def test_two_levels_on_one_host_are_refused(self):
        done = self.on_hosts([2, 0], "two-level")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("found two-level with ranks on one host, expected auto, shm or mpi", done.stdout)

    def test_a_host_without_room_for_shared_memory_is_named_and_done_without(self):
        with hosts.Hosts(2) as group:
            self.group, usual = group, self.group
            self.addCleanup(setattr, self, "group", usual)
            run(group.on(1, ["mount", "-o", f"remount,size={SMALL_MEMORY}", "/dev/shm"])).check_returncode()
            done = self.on_hosts([1, 2], "auto")  # Open MPI also complains about its own shared memory, and continues
            self.expect_answer(done, "mpi", 3)
            self.assertEqual(done.stdout.count("/dev/shm is too small"), 1, done.stdout)
            self.assertIn("going on with mpi", done.stdout)
            done = self.on_hosts([1, 2], "two-level")
            self.assertEqual(done.returncode, 7, done.stdout)
            self.assertIn("rank 1: /dev/shm is too small: found 64.00 KiB free", done.stdout)
            self.assertIn("--communicator mpi", done.stdout)


def main():
    global PROGRAM, CONFORMANCE, MODEL
    PROGRAM, CONFORMANCE, MODEL = sys.argv[1:4]
    why_not = hosts.why_not()
    if not pathlib.Path(MODEL, "config.json").exists():
        why_not = f"{MODEL} is not there"
    if why_not:
        print(f"skipped: {why_not}")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)


if __name__ == "__main__":
    main()
