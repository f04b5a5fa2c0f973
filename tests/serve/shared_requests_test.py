"""Replicas of `lockstep serve`: they share its requests, and what a lost one owes the others go on with.

    shared_requests_test.py PROGRAM MODEL [UNITTEST ARGUMENT…]
"""
import json
import os
import pathlib
import shutil
import signal
import sys
import unittest

import recovery_test
import served
from recovery_test import REQUESTS, SILENCE, SIZES, STORY, Stream, begin_all, transcripts

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import launches  # noqa: E402

PROGRAM = MODEL = None
MPIRUNS = {name: words for name, words in {"Open MPI": ("mpirun.openmpi", "-n", "4", "--oversubscribe"),
                                           "MPICH": ("mpirun.mpich", "-n", "4")}.items() if shutil.which(words[0])}


def serve(*words, silence=recovery_test.PATIENCE, **more):
    return served.Served(PROGRAM, MODEL, "--silence-s", silence, *SIZES, *words, **more)


def first_ranks(server):
    """Rank 0 of each replica that lives: the server's own children."""
    def parent(pid):
        try:
            return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            return None
    return sorted(pid for pid in served.processes_below(server.process.pid) if parent(pid) == server.process.pid)


def health(server):
    return server.get("/health")[1]


class Replicas(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        with serve("--tp", 2) as server:
            cls.expected = transcripts(begin_all(server))
        for name, transcript in cls.expected.items():
            assert isinstance(transcript, dict), f"{name}: {transcript}"

    def expect_same(self, server, streams, what):
        for name, transcript in transcripts(streams).items():
            self.assertEqual(transcript, self.expected[name], f"{what}: {name}: {server.said()[-3000:]}")

    def expect_all(self, server, replicas):
        self.assertTrue(served.until(lambda: health(server)["replicas"] == ["serving"] * replicas), health(server))

    def test_no_client_can_tell_from_its_answer_that_a_replica_died(self):
        with serve("--replicas", 2, "--tp", 1, silence=SILENCE) as server:
            self.assertEqual(health(server)["ranks"], ["ready", "ready"])
            for turn in range(2):
                streams = begin_all(server)
                self.assertTrue(served.until(lambda: streams["greedy"].tokens() >= 12))
                os.kill(first_ranks(server)[turn], signal.SIGKILL)
                self.assertTrue(served.until(
                    lambda turn=turn: server.said().count("starts the ranks again") > turn))
                self.assertEqual(server.get("/health")[0], 200)  # the other one serves
                self.expect_same(server, streams, "killed")
                self.expect_all(server, 2)
                print(f"a replica killed: longest pause of a client {max(one.longest for one in streams.values()):.2f} s")
        self.assertEqual(server.process.returncode, 0)

    def test_requests_go_on_whatever_happens_to_the_replicas(self):
        with serve("--replicas", 2, "--tp", 1, silence=SILENCE) as server:
            with self.subTest("frozen"):
                streams = begin_all(server)
                self.assertTrue(served.until(lambda: streams["greedy"].tokens() >= 12))
                os.kill(first_ranks(server)[0], signal.SIGSTOP)
                self.expect_same(server, streams, "frozen")
                self.expect_all(server, 2)
            with self.subTest("both at once"):
                streams = begin_all(server)
                self.assertTrue(served.until(lambda: streams["greedy"].tokens() >= 12))
                for pid in first_ranks(server):
                    os.kill(pid, signal.SIGKILL)
                self.expect_same(server, streams, "both killed")
                self.expect_all(server, 2)
            with self.subTest("another number of ranks"):
                streams = begin_all(server)
                self.assertEqual(server.post("/admin/degree", {"tp": 2, "wait": True})[0], 200, server.said()[-3000:])
                self.expect_same(server, streams, "more ranks")
                status = server.get("/admin/status")[1]
                self.assertEqual(([rank["replica"] for rank in status["ranks"]], status["tp"]), ([0, 0, 1, 1], 2))
                code, answer = server.post("/admin/degree", {"tp": 10, "wait": True})
                self.assertEqual(code, 409, answer)
                self.assertIn("query heads", answer["error"]["message"])
                self.assertEqual(server.get("/admin/status")[1]["tp"], 2)
        self.assertEqual(server.process.returncode, 0)

    def test_a_prompt_goes_to_the_replica_that_has_its_beginning(self):
        with serve("--replicas", 2, "--tp", 1) as server:
            def ask(text):
                answer = server.post("/v1/completions", {"prompt": text, "max_tokens": 1, "temperature": 0})[1]
                return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

            stories = [STORY * 12, "The sea is wide. " * 40]
            streams = [Stream(server, "/v1/completions", {"prompt": story, "max_tokens": 8, "temperature": 0})
                       for story in stories]
            for stream in streams:
                stream.join(served.DEADLINE)
                self.assertIsNone(stream.failure)
            slots = server.get("/admin/status")[1]["slots"]
            for half in (slots[:len(slots) // 2], slots[len(slots) // 2:]):  # one prompt each
                self.assertEqual([slot["state"] for slot in half].count("free"), len(half) - 1, slots)
            for story in stories:
                self.assertGreater(ask(story + " And then"), 100)

    def test_a_replica_that_dies_at_every_start_costs_its_share(self):
        with serve("--replicas", 2, "--tp", 1, "--max-restarts", 1) as server:
            lives = first_ranks(server)[0]

            def is_over():  # the other is killed as soon as it is there, until the server gives it up
                for pid in first_ranks(server):
                    if pid != lives:
                        served.signal_if_there(pid)
                return "over" in health(server)["replicas"]

            self.assertTrue(served.until(is_over), server.said()[-3000:])
            self.expect_same(server, begin_all(server), "one replica is left")
            self.assertIn("is over, the others go on", server.said())
            os.kill(lives, signal.SIGKILL)
            self.expect_same(server, begin_all(server), "the last one was lost")

    def test_the_ranks_of_mpirun_form_replicas(self):
        for name, mpirun in MPIRUNS.items():
            with self.subTest(mpi=name), serve("--tp", 2, before=mpirun, environment=launches.environment()) as server:
                self.assertEqual(health(server)["ranks"], ["ready"] * 4, server.said())
                self.expect_same(server, begin_all(server), name)
                self.assertEqual(server.get("/admin/status")[1]["tp"], 2)

    def test_replicas_are_refused_where_they_cannot_be(self):
        for words, expected in ((("--replicas", 2, "--engine", "/nowhere"), "excludes"), (("--replicas", 0), "--replicas")):
            server = served.Served(PROGRAM, MODEL, *words)
            self.assertEqual(server.process.wait(served.DEADLINE), 2)
            self.assertIn(expected, server.said())
            server.__exit__()


if __name__ == "__main__":
    PROGRAM, MODEL = sys.argv[1:3]
    recovery_test.PROGRAM, recovery_test.MODEL = PROGRAM, MODEL
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
