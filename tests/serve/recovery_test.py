"""Ranks that die while clients stream: every answer is that of a server whose ranks lived.

    recovery_test.py PROGRAM MODEL [--kills N] [UNITTEST ARGUMENT…]

--kills: instead, N kills and freezes at random moments, from a fixed seed, for 2, 3 and 4 ranks.
"""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import served

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "compare"))
import streamed  # noqa: E402

PROGRAM = MODEL = None
SEED = 20261125
# Two of the ten sequences of REQUESTS wait for a slot.
SIZES = ("--threads", 1, "--max-seq-len", 1024, "--batch-size", 8)
SILENCE = 2  # seconds: short, where ranks freeze
PATIENCE = 60  # elsewhere, so that a busy machine loses no rank
STORY = "Once upon a time there was a lighthouse keeper who"
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "size": {"type": "integer"},
                                           "words": {"type": "array", "items": {"type": "string", "maxLength": 8},
                                                     "minItems": 2, "maxItems": 4}},
          "required": ["name", "size", "words"], "additionalProperties": False}


def completion(**fields):
    return "/v1/completions", {"prompt": STORY, "max_tokens": 64, "temperature": 0, **fields}


def chat(**fields):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": "Tell me about the sea."}],
                                    "max_tokens": 64, "temperature": 0, **fields}


# What eight clients send.
REQUESTS = {
    "greedy": completion(logprobs=2),
    "sampled": completion(temperature=0.9, seed=5, logprobs=1),
    "penalties": completion(temperature=0.7, seed=6, presence_penalty=0.5, frequency_penalty=0.5, top_p=0.9),
    "choices": completion(n=3, temperature=1.0, seed=3, max_tokens=40),
    "regex": completion(regex="([a-z]{3,8} ){20}", temperature=0.8, seed=4),
    "schema": chat(response_format={"type": "json_schema",
                                    "json_schema": {"name": "thing", "schema": SCHEMA, "strict": True}}),
    "stop": completion(stop=[" sea", "\n\n"], max_tokens=80),
    "chat": chat(logprobs=True, top_logprobs=2, temperature=0.6, seed=8),
}


class Stream(threading.Thread):
    """A client's answer: what it says, and the longest time without a word."""

    def __init__(self, server, path, body):
        super().__init__()
        self.server, self.path, self.body = server, path, {**body, "stream": True,
                                                           "stream_options": {"include_usage": True}}
        self.events, self.failure, self.longest = [], None, 0.0
        self.start()

    def run(self):
        connection = self.server.connect()
        try:
            connection.request("POST", self.path, json.dumps(self.body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise AssertionError(f"status {answer.status}: {answer.read().decode()}")
            for data, pause in streamed.events(answer):
                self.longest = max(self.longest, pause)
                if data == streamed.DONE:
                    return
                self.events.append(json.loads(data))
            raise AssertionError("the stream broke off")
        except (OSError, AssertionError, ValueError) as failure:
            self.failure = failure
        finally:
            connection.close()

    def tokens(self):
        return len(self.events)

    def transcript(self):
        """Everything that the answer says, however it was cut into events; without ids and times."""
        if self.failure:
            return f"failed: {self.failure}"
        choices, usage = {}, None
        for event in self.events:
            if "error" in event:
                return f"failed: {event}"
            usage = event.get("usage") or usage
            for part in event["choices"]:
                own = choices.setdefault(part["index"], {"text": "", "logprobs": [], "reason": None})
                own["text"] += part.get("text") or part.get("delta", {}).get("content") or ""
                own["reason"] = part["finish_reason"] or own["reason"]
                said = part.get("logprobs") or {}
                own["logprobs"] += said.get("content") or list(zip(said.get("tokens", []), said.get("token_logprobs", []),
                                                                   map(json.dumps, said.get("top_logprobs", []))))
        return {"choices": choices, "tokens": (usage or {}).get("completion_tokens")}


def begin_all(server, names=tuple(REQUESTS)):
    return {name: Stream(server, *REQUESTS[name]) for name in names}


def transcripts(streams):
    for stream in streams.values():
        stream.join(served.DEADLINE)
    return {name: stream.transcript() for name, stream in streams.items()}


def answers(streams):
    """Their transcripts, none of which is a failure."""
    found = transcripts(streams)
    for name, transcript in found.items():
        assert isinstance(transcript, dict), f"{name}: {transcript}"
    return found


def greedy_answer(server):
    return answers(begin_all(server, ["greedy"]))["greedy"]


def serve(ranks, *words, silence=PATIENCE):
    return served.Served(PROGRAM, MODEL, "--tp", ranks, "--silence-s", silence, *SIZES, *words)


def is_recovering(code, health):
    """Whether an answer to /health says that the ranks start again."""
    return (code, health["state"]) == (503, "recovering")


def status(server):
    return server.get("/admin/status")[1]


class Recovery(unittest.TestCase):
    maxDiff = None

    def is_ready(self, server):
        return served.until(lambda: server.get("/health")[0] == 200)

    def kill(self, server, rank, number=signal.SIGKILL, other_than=None):
        """Signals the process of a rank, other than an old one, once it is there. Returns its id."""
        pid = served.started_rank(server.process.pid, rank, other_than)
        self.assertTrue(pid, f"no rank {rank}: {server.said()}")
        os.kill(pid, number)
        return pid

    def kill_if_there(self, server, rank):
        """Kills a rank at a moment at which it may end by itself, or has not begun. Returns whether it was there."""
        pid = served.ranks_below(server.process.pid).get(rank)
        if pid is not None:
            served.signal_if_there(pid)
        return pid is not None

    def expect_same(self, server, streams, expected, what):
        found = transcripts(streams)
        for name, transcript in found.items():
            self.assertEqual(transcript, expected[name], f"{what}: {name}: {server.said()[-3000:]}")
        return max(stream.longest for stream in streams.values())

    def interrupted(self, server, expected, rank, tokens, number=signal.SIGKILL):
        """Kills a rank once a stream has `tokens` tokens. Returns the longest pause of a client."""
        streams = begin_all(server)
        self.assertTrue(served.until(lambda: streams["greedy"].tokens() >= tokens))
        pid = self.kill(server, rank, number)
        longest = self.expect_same(server, streams, expected, f"rank {rank} after {tokens} tokens")
        self.assertFalse(served.is_alive(pid))
        self.assertTrue(self.is_ready(server))
        return longest

    @contextlib.contextmanager
    def serving_again(self, restarts):
        """A server of two ranks and its answers; afterwards it has restarted, and serves again."""
        with serve(2, silence=SILENCE) as server:
            expected = answers(begin_all(server))
            yield server, expected
            self.assertTrue(self.is_ready(server))
            found = status(server)
            self.assertGreaterEqual(found["restarts"], restarts)
            self.assertEqual([rank["state"] for rank in found["ranks"]], ["ready", "ready"])
            self.assertIn("serves again after", server.said())
        self.assertEqual(server.process.returncode, 0)

    def test_no_client_can_tell_from_its_answer_that_a_rank_died(self):
        with self.serving_again(restarts=3) as (server, expected):
            with self.subTest("killed while tokens come"):
                for rank in (0, 1):
                    longest = self.interrupted(server, expected, rank, 12 + 9 * rank)
                    print(f"rank {rank} killed: longest pause of a client {longest:.2f} s")
            with self.subTest("killed before the first token, and again while the ranks start"):
                streams = begin_all(server)
                old = served.started_rank(server.process.pid, 0)
                self.kill(server, 1)
                self.assertTrue(served.until(lambda: is_recovering(*server.get("/health"))))
                self.assertEqual(server.get("/health/live")[0], 200)
                self.kill(server, 0, other_than=old)
                self.expect_same(server, streams, expected, "killed twice")

    def test_no_client_can_tell_that_a_rank_froze_or_died_idle_or_while_it_scored(self):
        with self.serving_again(restarts=3) as (server, expected):
            with self.subTest("frozen"):
                longest = self.interrupted(server, expected, 1, 20, signal.SIGSTOP)
                print(f"rank 1 frozen: longest pause of a client {longest:.2f} s with --silence-s {SILENCE}")
            with self.subTest("killed while nothing runs"):
                self.kill(server, 0)
                self.assertEqual(transcripts(begin_all(server)), expected)
            with self.subTest("scores of a prompt"):
                body = {"prompt": STORY * 8, "max_tokens": 0, "echo": True, "logprobs": 1}
                whole = server.post("/v1/completions", body)[1]["choices"]
                self.kill(server, 1)
                self.assertEqual(server.post("/v1/completions", body)[1]["choices"], whole)

    def changed(self, server, ranks):
        """Waits for the end of a change of the degree; the reason of a failure, or None."""
        self.assertTrue(served.until(lambda: status(server)["changing_to_tp"] is None and self.is_ready(server)))
        found = status(server)
        self.assertEqual(found["tp"], ranks, f"{found['change_failure']}: {server.said()[-3000:]}")
        return found["change_failure"]

    def test_the_number_of_ranks_changes_while_clients_stream(self):
        with serve(2) as server:
            expected = answers(begin_all(server))
            for ranks in (3, 1, 2):
                streams = begin_all(server)
                self.assertTrue(served.until(lambda: streams["greedy"].tokens() >= 12))
                before = served.ranks_below(server.process.pid)
                code, answer = server.post("/admin/degree", {"tp": ranks})
                self.assertEqual((code, answer["tp"]), (202, ranks), answer)
                longest = self.expect_same(server, streams, expected, f"{ranks} ranks")
                print(f"{len(before)} to {ranks} ranks: longest pause of a client {longest:.2f} s")
                self.assertIsNone(self.changed(server, ranks))
                self.assertTrue(served.until(lambda: sorted(served.ranks_below(server.process.pid)) == list(range(ranks))))
                self.assertFalse(any(map(served.is_alive, before.values())))
            self.assertEqual(status(server)["restarts"], 0)
            self.assertNotIn("interrupted", server.said())  # the old ranks ended in order

    def test_a_change_of_the_ranks_may_meet_a_loss_or_fail(self):
        with serve(2) as server:
            expected = answers(begin_all(server))
            with self.subTest("a rank is lost while others load"):
                for delay in (0.0, 0.2, 0.4):
                    streams = begin_all(server)
                    self.assertTrue(served.until(lambda: streams["greedy"].tokens() >= 8))
                    old = served.ranks_below(server.process.pid)[1]
                    self.assertEqual(server.post("/admin/degree", {"tp": 3})[0], 202)
                    time.sleep(delay)
                    served.signal_if_there(old)  # its work may be done
                    self.expect_same(server, streams, expected, f"killed after {delay} s")
                    self.assertTrue(served.until(lambda: status(server)["changing_to_tp"] is None and self.is_ready(server)))
                    self.assertEqual(server.post("/admin/degree", {"tp": 2, "wait": True})[0], 200, server.said())
            with self.subTest("wrong numbers"):
                self.assertEqual(server.post("/admin/degree", {"tp": 2})[0], 200)
                self.assertEqual(server.get("/admin/degree")[0], 405)
                for body in ({}, {"tp": 0}, {"tp": "2"}, {"tp": 1.5}):
                    code, answer = server.post("/admin/degree", body)
                    self.assertEqual((code, answer["error"]["param"]), (400, "tp"), answer)
                stream = Stream(server, *REQUESTS["greedy"])
                self.assertEqual(server.post("/admin/degree", {"tp": 10})[0], 202)  # one more than the query heads
                self.assertEqual(server.post("/admin/degree", {"tp": 3})[0], 409)
                self.assertIn("query heads", self.changed(server, 2))
                stream.join(served.DEADLINE)
                self.assertEqual(stream.transcript(), expected["greedy"])

    def test_other_ranks_start_after_the_end_of_those_where_memory_for_both_is_not_free(self):
        with tempfile.TemporaryDirectory() as folder:
            # What the server reads as the machine's memory: less than the ranks hold.
            meminfo = pathlib.Path(folder, "meminfo")
            meminfo.write_text("MemTotal:       67108864 kB\nMemAvailable:      65536 kB\n")
            before = ("unshare", "--mount", "sh", "-c", "mount --bind \"$0\" /proc/meminfo && exec \"$@\"", meminfo)
            if subprocess.run([*before, "true"], capture_output=True, check=False).returncode != 0:
                self.skipTest("this machine refuses mount namespaces")
            with served.Served(PROGRAM, MODEL, "--tp", 2, "--silence-s", PATIENCE, *SIZES, before=before) as server:
                expected = answers(begin_all(server))
                for ranks in (3, 1):
                    streams = begin_all(server)
                    self.assertTrue(served.until(lambda: streams["greedy"].tokens() >= 12))
                    self.assertEqual(server.post("/admin/degree", {"tp": ranks, "wait": True})[0], 200, server.said())
                    longest = self.expect_same(server, streams, expected, f"{ranks} ranks")
                    print(f"{ranks} ranks after the end of the others: longest pause of a client {longest:.2f} s")
                    self.assertIn("memory for both is not free", server.said().split("take the place of")[-1])
                with self.subTest("ranks that cannot start"):
                    streams = begin_all(server)
                    code, answer = server.post("/admin/degree", {"tp": 10, "wait": True})
                    self.assertEqual(code, 409, answer)
                    self.assertIn("query heads", answer["error"]["message"])
                    self.expect_same(server, streams, expected, "10 ranks")
                    self.assertEqual(status(server)["tp"], 1)

    def test_ranks_that_find_no_memory_beside_others_start_after_those(self):
        with serve(2, "--fault", "rank=2,phase=load,kind=memory") as server:  # a rank that only three ranks have
            expected = answers(begin_all(server))
            streams = begin_all(server)
            self.assertTrue(served.until(lambda: streams["greedy"].tokens() >= 12))
            code, answer = server.post("/admin/degree", {"tp": 3, "wait": True})
            self.assertEqual(code, 409, answer)
            self.expect_same(server, streams, expected, "no memory")
            self.assertIn("no memory for both: 3 ranks start after the others", server.said())
            self.assertEqual(status(server)["tp"], 2)

    def test_exit_records_are_those_of_the_ranks_whose_end_counted(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)

            def records():
                return {path.name: json.loads(path.read_text())["code"] for path in folder.glob("rank-*.json")}

            def change(server, ranks):
                self.assertEqual(server.post(*completion())[0], 200)  # a step tells how large the ranks are
                sizes = [rank["resident_bytes"] for rank in status(server)["ranks"]]
                self.assertTrue(all(sizes), sizes)  # so that the others load beside them
                return server.post("/admin/degree", {"tp": ranks, "wait": True})

            (folder / "rank-7.json").write_text('{"code": 2, "rank": 7}')  # of an earlier server
            with serve(2, "--exit-record", folder, "--fault", "rank=2,phase=load,kind=fail") as server:
                with self.subTest("ranks that fail beside others"):  # one that only three ranks have
                    code, answer = change(server, 3)
                    self.assertEqual(code, 409, answer)
                    self.assertEqual(records(), {})
                with self.subTest("a loss after that"):
                    self.kill(server, 1)
                    self.assertTrue(served.until(lambda: status(server)["restarts"] == 1 and self.is_ready(server)))
                    self.assertEqual(records(), {"rank-0.json": 5})
                with self.subTest("ranks that others replace"):
                    self.assertEqual(change(server, 1)[0], 200, server.said())
                    self.assertTrue(served.until(lambda: len(list(folder.glob("start-*"))) == 1))
                    self.assertEqual(records(), {"rank-0.json": 5})
            self.assertEqual(server.process.returncode, 0)
            self.assertEqual(records(), {"rank-0.json": 0})
            self.assertEqual(list(folder.glob("start-*")), [])

    def test_ranks_that_are_threads_of_one_process_start_again(self):
        with serve(2, "--launch", "threads") as server:
            expected = answers(begin_all(server))
            self.interrupted(server, expected, 0, 10)  # the process of all
            self.assertEqual([rank["state"] for rank in status(server)["ranks"]], ["ready", "ready"])

    def test_a_rank_may_die_at_every_moment_of_a_start(self):
        with serve(2, "--max-restarts", 50) as server:
            expected = answers(begin_all(server))
            delays, killed = range(0, 500, 50), 0  # ms: a start takes about 400
            for rank in (0, 1):
                for delay in delays:
                    streams = begin_all(server)
                    self.assertTrue(served.until(lambda: streams["greedy"].tokens() >= 8))
                    starts = server.said().count("starts the ranks again")
                    self.kill(server, 1)
                    self.assertTrue(served.until(
                        lambda starts=starts: server.said().count("starts the ranks again") > starts))
                    time.sleep(delay / 1000)
                    killed += self.kill_if_there(server, rank)
                    self.expect_same(server, streams, expected, f"rank {rank} after {delay} ms of a start")
                    self.assertTrue(self.is_ready(server))
            self.assertGreaterEqual(killed, len(delays))  # of twice as many

    def test_nothing_is_left_of_a_hundred_restarts(self):
        def resident():
            return int(pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096

        def shared():
            return sorted(pathlib.Path("/dev/shm").glob("*lockstep*"))

        with serve(2) as server:
            expected = greedy_answer(server)
            before, samples = shared(), []
            for restart in range(100):
                stream = Stream(server, *REQUESTS["greedy"])
                self.assertTrue(served.until(lambda: stream.tokens() >= 3))
                self.kill(server, restart % 2)
                stream.join(served.DEADLINE)
                self.assertEqual(stream.transcript(), expected, server.said()[-3000:])
                self.assertTrue(self.is_ready(server))
                samples.append((resident(), len(list(pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir())),
                                len(list(pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()))))
            self.assertEqual(status(server)["restarts"], 100)
            self.assertEqual(sorted(served.ranks_below(server.process.pid)), [0, 1])
            self.assertEqual(len(served.processes_below(server.process.pid)), 2)  # and not even a zombie is its child
            self.assertEqual(len(shared()), len(before))
            (early, descriptors, threads), (late, *rest) = samples[9], samples[-1]
            print(f"the server's process: {early >> 10} KiB after 10 restarts, {late >> 10} KiB after 100")
            self.assertLessEqual(rest[0], descriptors + 2)  # a client's connection may be closing
            self.assertEqual(rest[1], threads)
            self.assertLess(late - early, 4 << 20)

    def test_a_command_changes_the_number_of_ranks(self):
        def ctl(*words):
            return subprocess.run(list(map(str, (PROGRAM, "ctl", *words, "--endpoint-file", endpoint))), capture_output=True,
                                  text=True, timeout=served.DEADLINE, check=False)

        with tempfile.TemporaryDirectory() as folder:
            keys, endpoint = pathlib.Path(folder, "keys"), pathlib.Path(folder, "endpoint.json")
            keys.write_text("# of the test\nsecret-key\n")
            self.assertEqual(ctl("status").returncode, 2)  # no such file
            for address in (("--port", 0), ("--unix-socket", pathlib.Path(folder, "serve.sock"))):
                with served.Served(PROGRAM, MODEL, *SIZES, "--endpoint-file", endpoint, "--api-key-file", keys,
                                   address=address) as server:
                    done = ctl("degree", 2)
                    self.assertEqual((done.returncode, done.stdout), (0, "2 ranks, 1 before\n"), done.stderr)
                    self.assertEqual(json.loads(ctl("status").stdout)["tp"], 2)
                    refused = ctl("degree", 10)
                    self.assertEqual(refused.returncode, 4, refused.stderr)
                    self.assertIn("query heads", refused.stderr)
                    self.assertEqual(ctl("degree").returncode, 2)
                    self.assertEqual(ctl("status", 2).returncode, 2)
                    text = endpoint.read_text()
                self.assertFalse(endpoint.exists())
                endpoint.write_text(text)  # left by a server that was killed
                gone = ctl("status")
                self.assertEqual(gone.returncode, 4, gone.stderr)
                self.assertIn("no answer from", gone.stderr)
                endpoint.unlink()

    def test_a_program_that_was_replaced_takes_over_while_clients_stream(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("lockstep", "lockstep-serve", "lockstep-constraint"):
                shutil.copy2(pathlib.Path(PROGRAM).with_name(name), folder)
            endpoint, program = pathlib.Path(folder, "endpoint.json"), pathlib.Path(folder, "lockstep")
            with served.Served(program, MODEL, "--tp", 2, "--silence-s", PATIENCE, *SIZES,
                               "--endpoint-file", endpoint) as server:
                expected = answers(begin_all(server))
                streams = begin_all(server)
                self.assertTrue(served.until(lambda: streams["greedy"].tokens() >= 12))
                shutil.copy2(program, f"{program}.new")
                os.replace(f"{program}.new", program)  # as a package's upgrade does
                done = subprocess.run([PROGRAM, "ctl", "restart", "--endpoint-file", endpoint], capture_output=True,
                                      text=True, timeout=served.DEADLINE, check=False)
                self.assertEqual((done.returncode, done.stdout), (0, "2 ranks, started anew\n"), done.stderr)
                longest = self.expect_same(server, streams, expected, "another program")
                print(f"another program: longest pause of a client {longest:.2f} s")
                self.assertTrue(served.until(lambda: sorted(served.ranks_below(server.process.pid)) == [0, 1]))
                for rank in served.ranks_below(server.process.pid).values():
                    self.assertEqual(os.stat(f"/proc/{rank}/exe").st_ino, program.stat().st_ino)
                self.assertEqual(status(server)["restarts"], 0)

    def test_a_server_that_may_shrink_goes_on_with_one_rank_less(self):
        with serve(3, "--on-lost-rank", "shrink") as server:
            expected = answers(begin_all(server))
            for rank, left in ((2, 2), (0, 1), (0, 1)):
                self.interrupted(server, expected, rank, 10)
                self.assertEqual(status(server)["tp"], left)

    def test_a_rank_that_dies_at_every_start_ends_the_server(self):
        with serve(2, "--max-restarts", 2, "--fault", "rank=1,phase=prefill,kind=kill") as server:
            stream = Stream(server, *REQUESTS["greedy"])
            self.assertEqual(server.process.wait(served.DEADLINE), 5, server.said())
            stream.join(served.DEADLINE)
            self.assertIn("rank 1", server.said().split("lockstep: ")[-1])
            self.assertEqual(server.said().count("starts the ranks again"), 2)
            # A status where nothing was sent before, otherwise an event.
            self.assertRegex(str(stream.transcript()), "^failed: .*rank 1 ")

    def test_a_request_survives_a_rank_that_dies_again_and_again(self):
        with serve(2) as server:
            expected = greedy_answer(server)
        with serve(2, "--max-restarts", 1, "--fault", "rank=1,phase=decode,kind=kill,step=16") as server:
            stream = Stream(server, *REQUESTS["greedy"])
            stream.join(served.DEADLINE)
            self.assertEqual(stream.transcript(), expected, server.said())
            self.assertGreaterEqual(status(server)["restarts"], 3)

    def test_a_term_signal_while_the_ranks_start_lets_open_requests_end(self):
        with serve(2, "--drain-s", served.DEADLINE) as server:
            expected = greedy_answer(server)
            stream = Stream(server, *REQUESTS["greedy"])
            self.assertTrue(served.until(lambda: stream.tokens() > 5))
            self.kill(server, 0)
            self.assertTrue(served.until(lambda: "starts the ranks again" in server.said()))
            server.process.send_signal(signal.SIGTERM)
            stream.join(served.DEADLINE)
            self.assertEqual(stream.transcript(), expected, server.said())
            self.assertEqual(server.process.wait(served.DEADLINE), 0, server.said())


class RandomKills(Recovery):
    """One test of its own, with the methods of the other."""

    COUNT, RANKS = 300, (2, 3, 4)

    def interrupt(self, server, expected, drawn, ranks):
        """(the signal, the longest pause of a client) of one interruption, which may kill another rank a little later."""
        rank, tokens = drawn.randrange(ranks), drawn.randrange(60)
        number = signal.SIGSTOP if drawn.random() < 0.1 else signal.SIGKILL
        again = drawn.uniform(0.0, 1.5) if number == signal.SIGKILL and drawn.random() < 0.2 else None
        streams = begin_all(server)
        self.assertTrue(served.until(lambda: streams["greedy"].tokens() >= tokens))
        self.kill(server, rank, number)
        if again is not None:
            time.sleep(again)
            self.kill_if_there(server, 0)
        longest = self.expect_same(server, streams, expected, f"rank {rank} of {ranks} after {tokens} tokens")
        self.assertTrue(self.is_ready(server))
        return number if again is None else "twice", longest

    def test_at_any_moment(self):
        drawn, pauses = random.Random(SEED), {}
        for ranks in self.RANKS:
            with serve(ranks, "--max-restarts", 50, silence=SILENCE) as server:
                expected = answers(begin_all(server))
                for _ in range(self.COUNT // len(self.RANKS)):
                    number, longest = self.interrupt(server, expected, drawn, ranks)
                    pauses.setdefault((ranks, number), []).append(longest)
        for (ranks, number), found in sorted(pauses.items(), key=str):
            print(f"{ranks} ranks, {number}: {len(found)} times, longest pause of a client {max(found):.2f} s")


if __name__ == "__main__":
    PROGRAM, MODEL = sys.argv[1:3]
    rest = sys.argv[3:] or ["Recovery"]
    if rest[:1] == ["--kills"]:
        RandomKills.COUNT = int(rest[1])
        rest = ["RandomKills.test_at_any_moment", *rest[2:]]
    unittest.main(argv=[sys.argv[0], *rest])
