"""`lockstep engine` over RPC: the answers of `lockstep generate`, clients that go away, failures and the end.

    engine_test.py PROGRAM EXAMPLE        EXAMPLE: example_rpc_stream; run by the Python of .venv, which has pycapnp
"""
import asyncio
import json
import math
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import capnp

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "launch"))
import test_folder  # noqa: E402
import tiny_model  # noqa: E402

SCHEMA = capnp.load(str(ROOT / "engine" / "rpc" / "engine.capnp"), imports=[str(pathlib.Path(capnp.__file__).parents[1])])
PROMPTS = [[5, 9, 23, 77, 3], [11, 4], [7], [2, 3, 4, 5, 6, 7, 8, 9]]
DEADLINE = 60  # seconds of any wait; only a hang gets there
PROGRAM = EXAMPLE = None


class Sink(SCHEMA.Sink.Server):
    """Collects what an engine sends."""

    def __init__(self):
        self.received = []
        self.text = ""
        self.cached = None
        self.first = asyncio.get_running_loop().create_future()
        self.end = asyncio.get_running_loop().create_future()

    async def tokens(self, tokens, **_):
        self.received += [(token.answer, token.id, token.logprob, [(one.id, one.logprob) for one in token.top])
                          for token in tokens]
        self.text += "".join(str(token.text) for token in tokens)
        if not self.first.done():
            self.first.set_result(None)

    async def done(self, answers, **_):
        self.cached = [answer.cachedTokens for answer in answers]
        self.stops = [str(answer.stopString) for answer in answers]
        self.waited = [answer.waitedS for answer in answers]
        self.end.set_result([(list(answer.ids), str(answer.reason)) for answer in answers])

    async def failed(self, failure, **_):
        self.is_abandoned = failure.abandoned
        self.end.set_result((str(failure.kind), str(failure.message), failure.rank))

    async def answers(self):
        return await asyncio.wait_for(self.end, DEADLINE)


class Served:
    """A running engine."""

    def __init__(self, folder, *more, address=None, capacity=128):
        self.output = tempfile.TemporaryFile("w+")
        words = [PROGRAM, "engine", "--model", folder / "model", "--threads", 1, "--max-seq-len", capacity, "--batch-size", 2,
                 *(address or ["--socket", folder / "engine.sock"]), *more]
        self.process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=self.output,
                                        stdin=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().strip()  # empty: it ended

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE)
        self.process.stdout.close()
        self.output.close()

    def said(self):
        self.output.seek(0)
        return " ".join(self.output.read().split())

    async def connect(self, secret=b""):
        if self.address.startswith("/"):
            stream = await capnp.AsyncIoStream.create_unix_connection(self.address)
        else:
            host, port = self.address.split(":")
            stream = await capnp.AsyncIoStream.create_connection(host, int(port))
        client = capnp.TwoPartyClient(stream)
        return client, await client.bootstrap().cast_as(SCHEMA.Entrance).enter(secret)


def options(**values):
    values = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": [], **values}
    return [{"name": name, "value": json.dumps(value)} for name, value in values.items()]


async def until(condition):
    async def look():
        while not await condition():
            await asyncio.sleep(0.01)
    await asyncio.wait_for(look(), DEADLINE)


async def ask(engine, ids, fields=None, **values):
    """The sink of a request, which holds its call: dropping that would cancel the request."""
    sink = Sink()
    opened = await engine.generate({"ids": ids, "options": options(**values), **(fields or {})}, sink)
    if opened.which() == "failure":
        raise RuntimeError(str(opened.failure.kind), str(opened.failure.message))
    sink.call = opened.call
    sink.number = opened.number
    return sink


async def scores_of(engine, ids, top=0):
    scored = (await asyncio.wait_for(engine.score(ids, top), DEADLINE)).scored
    if scored.which() == "failure":
        raise RuntimeError(str(scored.failure.kind), str(scored.failure.message))
    return [(one.id, one.logprob, [(other.id, other.logprob) for other in one.top]) for one in scored.tokens]


class WithAnswers(test_folder.FolderTests):
    """Tests with a model and the answers of `lockstep generate`."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tiny_model.write(cls.folder / "model")
        (cls.folder / "prompts.json").write_text(json.dumps(PROMPTS))
        words = [PROGRAM, "generate", "--model", cls.folder / "model", "--ids-file", cls.folder / "prompts.json",
                 "--max-new-tokens", 12, "--ignore-eos", "--no-do-sample", "--threads", 1, "--launch", "threads", "--tp",
                 1, "--json", cls.folder / "expected.json"]
        subprocess.run(list(map(str, words)), check=True, capture_output=True, timeout=DEADLINE)
        cls.expected = json.loads((cls.folder / "expected.json").read_text())["sequences"]


class EngineOverRpc(WithAnswers):
    def folder_of(self, capacity):
        """A folder with the model, whose slots may have that many tokens; the weights are the same."""
        if capacity == 128:
            return self.folder
        folder = self.folder / str(capacity)
        model = tiny_model.write(folder / "model")
        (model / "config.json").write_text(json.dumps({**tiny_model.CONFIG, "max_position_embeddings": capacity}))
        return folder

    def with_engine(self, body, *more, address=None, secret=b"", capacity=128):
        """Runs `body(engine, served)` in an event loop."""
        async def run(served):
            async with capnp.kj_loop():
                client, entry = await served.connect(secret)
                await body(entry.engine, served)
                del client

        with Served(self.folder_of(capacity), *more, address=address, capacity=capacity) as served:
            self.assertTrue(served.address, served.said())
            asyncio.run(run(served))
            return served

    def test_answers_alone_and_together_are_those_of_generate_at_every_degree(self):
        async def body(engine, _):
            alone = [await (await ask(engine, ids)).answers() for ids in PROMPTS]
            together = [await ask(engine, ids) for ids in PROMPTS]
            together = [await sink.answers() for sink in together]
            self.assertEqual(alone, together)
            self.assertEqual([answers[0][0] for answers in alone], self.expected)
            self.assertEqual({answers[0][1] for answers in alone}, {"length"})

        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                self.with_engine(body, "--launch", "processes", "--tp", ranks)

    def test_tokens_arrive_in_order_with_their_log_probabilities(self):
        async def body(engine, _):
            sink = await ask(engine, PROMPTS[0], top_logprobs=3)
            (ids, _), = await sink.answers()
            self.assertEqual([token[1] for token in sink.received if token[1] >= 0], ids)
            for _, chosen, logprob, top in sink.received:
                self.assertEqual(len(top), 3)
                self.assertEqual(top[0], (chosen, logprob))  # greedy

        self.with_engine(body, "--launch", "threads", "--tp", 2)

    def test_the_models_log_probabilities_are_those_of_a_score_whatever_the_options(self):
        async def body(engine, _):
            for values in ({}, {"do_sample": True, "temperature": 3.0, "repetition_penalty": 1.7, "seed": 3},
                           {"no_repeat_ngram_size": 1, "top_logprobs": 2}):
                sink = await ask(engine, PROMPTS[0], {"modelLogprobs": 4}, **values)
                (ids, _), = await sink.answers()
                scores = await scores_of(engine, PROMPTS[0] + ids, 4)
                self.assertEqual([(0, *score) for score in scores[len(PROMPTS[0]):]], sink.received)
            self.assertTrue(math.isnan(scores[0][1]))
            self.assertEqual(len(scores[0][2]), 0)

        self.with_engine(body, "--launch", "threads", "--tp", 2)

    def test_texts_are_scored_beside_running_requests(self):
        async def body(engine, served):
            expected = await scores_of(engine, PROMPTS[0], 2)
            sinks = [await ask(engine, ids, max_new_tokens=60) for ids in PROMPTS]
            together = await asyncio.gather(*[scores_of(engine, PROMPTS[0], 2) for _ in range(5)])
            self.assertEqual([scores[1:] for scores in together], [expected[1:]] * 5)
            for sink in sinks:
                self.assertEqual(len((await sink.answers())[0][0]), 60)
            for ids, top, kind in (([], 0, "invalid_argument"), ([10**6], 0, "invalid_argument"),
                                   ([1, 2], 21, "invalid_argument"), (list(range(1, 129)) + [1, 2], 0, "invalid_argument")):
                with self.assertRaises(RuntimeError) as refused:
                    await scores_of(engine, ids, top)
                self.assertEqual(refused.exception.args[0], kind)
            other, entry = await served.connect()
            del other, entry, sinks
            self.assertEqual(len(await scores_of(engine, PROMPTS[1], 20)), len(PROMPTS[1]))

        self.with_engine(body)

        async def off(engine, _):
            with self.assertRaises(RuntimeError) as refused:
                await scores_of(engine, PROMPTS[0])
            self.assertEqual(refused.exception.args[0], "unsupported")

        self.with_engine(off, "--scored-top", -1)

    def test_an_abandoned_score_leaves_its_slot(self):
        async def body(engine, served):
            async def is_idle():
                status = (await engine.status()).status
                return status.running + status.queued == 0

            holder = await ask(engine, PROMPTS[0], max_new_tokens=110)
            other, entry = await served.connect()
            abandoned = [entry.engine.score(PROMPTS[i % 4], 0) for i in range(20)]
            del abandoned, entry, other  # the client goes away
            await until(is_idle)
            await holder.answers()
            self.assertEqual(len(await scores_of(engine, PROMPTS[1])), len(PROMPTS[1]))

        self.with_engine(body)

    def test_a_request_past_its_deadline_fails_and_no_other(self):
        async def body(engine, _):
            late = await ask(engine, PROMPTS[0], {"deadlineS": 0.0}, max_new_tokens=110)
            timely = await ask(engine, PROMPTS[1], {"deadlineS": 1000.0, "priority": -3, "client": "someone"})
            self.assertEqual((await late.answers())[0], "deadline_exceeded")
            self.assertEqual((await timely.answers())[0][0], self.expected[1])
            for wrong in (-1.0, float("nan")):
                with self.assertRaises(RuntimeError) as refused:
                    await ask(engine, PROMPTS[0], {"deadlineS": wrong})
                self.assertEqual(refused.exception.args[0], "invalid_argument")
                self.assertIn("deadlineS", refused.exception.args[1])

        self.with_engine(body)

    def test_special_text_keeps_special_tokens_except_the_end(self):
        folder = self.folder / "spoken"
        shutil.copytree(self.folder / "model", folder / "model")
        special = [{"id": 100 + i, "content": f"<s{i}>", "special": True, "single_word": False, "lstrip": False,
                    "rstrip": False, "normalized": False} for i in range(28)]
        (folder / "model" / "tokenizer.json").write_text(json.dumps({
            "added_tokens": special, "normalizer": None, "post_processor": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "merges": [],
                      "vocab": {chr(33 + i) if i < 94 else chr(161 + i - 94): i for i in range(100)}}}))

        async def body(engine, _):
            texts = []
            for wants in (False, True):
                sink = await ask(engine, PROMPTS[0], {"specialText": wants}, bad_words_ids=[[i] for i in range(95)])
                (ids, _), = await sink.answers()
                texts.append(sink.text)
            self.assertTrue(any(i >= 100 for i in ids), ids)
            self.assertNotIn("<s", texts[0])
            self.assertEqual(texts[1].count("<s"), sum(i >= 100 for i in ids))
            end = ids[-1]
            sink = await ask(engine, PROMPTS[0], {"specialText": True}, bad_words_ids=[[i] for i in range(95)],
                             eos_token_id=[end])
            (ended, reason), = await sink.answers()
            self.assertEqual((ended[-1], reason), (end, "eos"))
            self.assertEqual(sink.text.count("<s"), sum(i >= 100 for i in ended[:-1]))
            self.assertEqual(sink.stops, [""])
            sink = await ask(engine, PROMPTS[0], {"specialText": True}, bad_words_ids=[[i] for i in range(95)],
                             stop_strings=["never", "<s"])
            self.assertEqual((await sink.answers())[0][1], "stop")
            self.assertEqual((sink.stops, "<s" in sink.text), (["<s"], False))
            self.assertGreaterEqual(sink.waited[0], 0.0)

        with Served(folder) as served:
            async def run():
                async with capnp.kj_loop():
                    client, entry = await served.connect()
                    await body(entry.engine, served)
                    del client
            self.assertTrue(served.address, served.said())
            asyncio.run(run())

    def test_the_second_turn_of_a_conversation_reuses_the_first(self):
        async def body(engine, _):
            first = [*range(3, 43)]
            sink = await ask(engine, first)
            (ids, _), = await sink.answers()
            self.assertEqual(sink.cached, [0])
            sink = await ask(engine, first + ids + [7, 8])
            await sink.answers()
            self.assertEqual(sink.cached, [len(first + ids) - 1])
            status = (await engine.status()).status
            self.assertEqual((status.reusedTokens, status.promptTokens), (len(first + ids) - 1, 40 + 54))

        self.with_engine(body, "--launch", "processes", "--tp", 2)

    def test_a_prefix_that_a_ring_has_lost_is_not_reused(self):
        first, other = [*range(3, 43)], [*range(3, 33), 90, 91]

        async def body(engine, _):
            sink = await ask(engine, first, max_new_tokens=40)
            (ids, _), = await sink.answers()
            sink = await ask(engine, other)
            warm = await sink.answers()
            self.assertEqual(sink.cached, [0])  # its window was overwritten
            sink = await ask(engine, first + ids + [7])
            await sink.answers()
            self.assertEqual(sink.cached, [len(first + ids) - 1])  # the ring's end is there
            answers.append(warm)

        async def alone(engine, _):
            sink = await ask(engine, other)
            answers.append(await sink.answers())

        answers = []
        for asked in (body, alone):
            self.with_engine(asked, "--launch", "threads", "--tp", 1, "--window", 8, "--prefill-chunk", 8)
        self.assertEqual(answers[0], answers[1])

    def test_the_conversation_that_was_used_last_stays_in_the_cache(self):
        async def body(engine, _):
            async def turn(ids):
                sink = await ask(engine, ids)
                (made, _), = await sink.answers()
                return ids + made, sink.cached[0]

            first, second, third = ([*range(start, start + 30)] for start in (3, 40, 80))
            first, _ = await turn(first)
            second, _ = await turn(second)
            first, cached = await turn(first + [7, 8])
            self.assertGreater(cached, 30)
            await turn(third)  # the engine has two slots
            self.assertGreater((await turn(first + [9]))[1], 40)
            self.assertEqual((await turn(second + [9]))[1], 0)

        self.with_engine(body, "--launch", "threads", "--tp", 1)

    def test_its_activity_is_told(self):
        async def body(engine, _):
            before = (await engine.activity()).activity
            self.assertEqual(len(before.steps), 0)
            self.assertTrue(math.isnan((await engine.status()).status.stepAgeS))
            running = await ask(engine, PROMPTS[0], max_new_tokens=120)
            await asyncio.wait_for(running.first, DEADLINE)
            during = (await engine.activity()).activity
            if running.number in [slot.request for slot in during.slots]:  # or it has ended already
                slot, = [slot for slot in during.slots if slot.request == running.number]
                self.assertEqual((slot.number, str(slot.state)), (0, "decode"))
                self.assertEqual(slot.tokens, len(PROMPTS[0]) + slot.newTokens)
            await running.answers()
            await scores_of(engine, PROMPTS[3])
            after = (await engine.activity()).activity
            self.assertEqual([slot.number for slot in after.slots], [0, 1])
            self.assertIn("kept", [str(slot.state) for slot in after.slots])
            self.assertEqual(len(after.steps), 64)
            self.assertEqual(str(after.steps[-1].kind), "score")
            self.assertEqual(after.steps[-1].rows, len(PROMPTS[3]) - 1)
            numbers = [step.number for step in after.steps]
            self.assertEqual(numbers, [*range(numbers[0], numbers[0] + 64)])
            self.assertTrue(all(step.seconds > 0 and step.ageS >= 0 for step in after.steps))
            status = (await engine.status()).status
            self.assertEqual(status.steps, numbers[-1])
            self.assertGreaterEqual(status.stepAgeS, 0)
            self.assertEqual([str(state) for state in status.ranks], ["ready", "ready"])
            self.assertEqual([str(rank.state) for rank in after.ranks], ["ready", "ready"])
            for rank in after.ranks:
                self.assertGreater(rank.residentBytes, 2**20)

        self.with_engine(body, "--launch", "processes", "--tp", 2)

    def test_a_request_has_as_many_answers_as_it_asks_for(self):
        async def body(engine, _):
            sink = await ask(engine, PROMPTS[0], do_sample=True, seed=5, num_return_sequences=2, temperature=2.0)
            first, second = await sink.answers()
            self.assertNotEqual(first, second)
            self.assertEqual({token[0] for token in sink.received}, {0, 1})

        self.with_engine(body)

    def test_a_bad_request_is_refused_by_name_and_costs_nothing(self):
        async def body(engine, _):
            for values, kind, word in (({"nonsense": 1}, "invalid_argument", "nonsense"),
                                       ({"temperature": "hot"}, "invalid_argument", "temperature"),
                                       ({"max_new_tokens": 100000}, "invalid_argument", "max-new-tokens")):
                with self.assertRaises(RuntimeError) as refused:
                    await ask(engine, PROMPTS[0], **values)
                self.assertEqual(refused.exception.args[0], kind)
                self.assertIn(word, refused.exception.args[1])
            for ids in ([], [10**6], [-5]):
                with self.assertRaises(RuntimeError) as refused:
                    await ask(engine, ids)
                self.assertEqual(refused.exception.args[0], "invalid_argument")
            self.assertEqual((await (await ask(engine, PROMPTS[1])).answers())[0][0], self.expected[1])

        self.with_engine(body)

    def test_cancelled_and_abandoned_requests_leave_their_slots(self):
        endless = 1_000_000  # tokens: longer than any delay of this test

        async def body(engine, served):
            async def is_idle():
                status = (await engine.status()).status
                return status.running == 0 and status.queued == 0

            sink = await ask(engine, PROMPTS[0], max_new_tokens=endless)
            await asyncio.wait_for(sink.first, DEADLINE)
            await sink.call.cancel()
            (ids, reason), = await sink.answers()
            self.assertEqual(reason, "cancelled")
            self.assertLess(len(ids), endless)

            other, entry = await served.connect()
            sinks = [await ask(entry.engine, PROMPTS[i], max_new_tokens=endless) for i in range(3)]
            await asyncio.wait_for(sinks[0].first, DEADLINE)
            del sinks, entry  # the client goes away
            other.close() if hasattr(other, "close") else None
            del other
            await until(is_idle)
            self.assertEqual((await (await ask(engine, PROMPTS[1])).answers())[0][0], self.expected[1])

        self.with_engine(body, capacity=endless + 100)

    def test_facts_and_counts_are_told(self):
        async def body(engine, _):
            facts = (await engine.facts()).facts
            self.assertEqual((facts.version, facts.model, facts.ranks, facts.slots, facts.capacity, facts.backend),
                             (SCHEMA.version, "model", 2, 2, 128, "cpu"))
            await (await ask(engine, PROMPTS[0])).answers()
            status = (await engine.status()).status
            self.assertEqual((status.submitted, status.finished, status.newTokens), (1, 1, 12))

        self.with_engine(body, "--launch", "processes", "--tp", 2)

    def test_only_the_secret_opens_a_port(self):
        secret = self.folder / "secret"
        secret.write_text("open sesame\n")
        address = ["--secret-file", secret]

        async def body(engine, served):
            self.assertEqual((await (await ask(engine, PROMPTS[1])).answers())[0][0], self.expected[1])
            for wrong in (b"", b"open sesam", b"open sesame\n", b"x" * 100000):
                _, entry = await served.connect(wrong)
                self.assertEqual(entry.which(), "failure")
                self.assertIn("secret", str(entry.failure.message))
            host, port = served.address.split(":")
            flood = [socket.create_connection((host, int(port)), timeout=DEADLINE) for _ in range(100)]
            client, entry = await served.connect(b"open sesame")
            # A client whose host is without power says nothing: the system has to ask.
            sockets = subprocess.run(["ss", "-tnoH", "state", "established", f"( sport = :{port} )"], capture_output=True,
                                     text=True, check=True, timeout=DEADLINE).stdout.splitlines()
            self.assertGreaterEqual(len(sockets), 2)
            for one in sockets:
                self.assertIn("timer:(", one)
            for entered in (entry.engine, engine):  # a client that comes now, and one that was there
                self.assertEqual((await (await ask(entered, PROMPTS[1])).answers())[0][0], self.expected[1])
            self.assertIn("found too many clients that have not entered", served.said())
            for one in flood:
                one.close()
            del client

        self.with_engine(body, address=address, secret=b"open sesame")
        with Served(self.folder, address=["--port", 0]) as served:
            self.assertEqual(served.process.wait(DEADLINE), 2)
            self.assertIn("found no secret", served.said())

    def test_the_socket_is_private_and_replaces_only_a_dead_one(self):
        path = self.folder / "engine.sock"

        async def body(_, served):
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
            with Served(self.folder) as second:
                self.assertEqual(second.process.wait(DEADLINE), 4)
                self.assertIn("another engine", second.said())
            served.process.send_signal(signal.SIGKILL)  # leaves its socket
            served.process.wait(DEADLINE)

        self.with_engine(body)
        self.assertTrue(path.exists())
        path_of_file = self.folder / "file"
        path_of_file.write_text("precious")
        with Served(self.folder, address=["--socket", path_of_file]) as served:
            self.assertEqual(served.process.wait(DEADLINE), 4)
        self.assertEqual(path_of_file.read_text(), "precious")
        self.with_engine(lambda engine, _: engine.status())

    def test_it_ends_in_order_when_a_client_asks_for_it(self):
        with Served(self.folder, "--launch", "processes", "--tp", 2) as served:
            async def run():
                async with capnp.kj_loop():
                    client, entry = await served.connect()
                    sink = await ask(entry.engine, PROMPTS[0], max_new_tokens=100)
                    await entry.engine.finish()
                    self.assertEqual(len((await sink.answers())[0][0]), 100)
                    with self.assertRaises((RuntimeError, capnp.KjException)) as refused:
                        await ask(entry.engine, PROMPTS[0])
                    if isinstance(refused.exception, RuntimeError):  # or the engine has ended already
                        self.assertEqual(refused.exception.args[0], "unavailable")
                    del client
            asyncio.run(run())
            self.assertEqual(served.process.wait(DEADLINE), 0, served.said())
            self.assertFalse((self.folder / "engine.sock").exists())

    def test_a_lost_rank_fails_the_open_requests_and_ends_the_engine(self):
        async def body(engine, served):
            sink = await ask(engine, PROMPTS[0], max_new_tokens=110)
            kind, message, rank = await sink.answers()
            self.assertEqual((kind, rank), ("peer_lost", 1))
            self.assertIn("rank 1", message)
            self.assertEqual(served.process.wait(DEADLINE), 5)

        self.with_engine(body, "--launch", "processes", "--tp", 2, "--fault", "rank=1,phase=decode,kind=kill,step=20")

    def test_a_request_after_the_end_of_the_ranks_is_abandoned_as_those_before(self):
        async def body(engine, served):
            first = await ask(engine, PROMPTS[0], max_new_tokens=110)
            self.assertEqual((await first.answers())[0], "resource_exhausted")
            is_refused = False
            while not is_refused:  # within the 0.2 s until the engine ends; a moment before, a request still opens
                sink = Sink()
                opened = await engine.generate({"ids": PROMPTS[1], "options": options()}, sink)
                is_refused = opened.which() == "failure"
                if is_refused:
                    failed = (str(opened.failure.kind), opened.failure.abandoned)
                else:
                    failed = ((await sink.answers())[0], sink.is_abandoned)
                self.assertEqual(failed, ("resource_exhausted", True))
                failure = (await engine.score(PROMPTS[1], 0)).scored.failure
                self.assertEqual((str(failure.kind), failure.abandoned), ("resource_exhausted", True))
            self.assertNotEqual(served.process.wait(DEADLINE), 0)

        self.with_engine(body, "--launch", "threads", "--tp", 1, "--fault", "rank=0,phase=decode,kind=memory,step=20")

    def test_the_examples_stream_text(self):
        with Served(self.folder, "--launch", "threads", "--tp", 1) as served:
            ids = list(map(str, PROMPTS[0]))
            texts = []
            for words in ([EXAMPLE], [sys.executable, ROOT / "examples" / "rpc" / "stream.py"]):
                done = subprocess.run([*map(str, words), served.address, *ids], capture_output=True, text=True,
                                      timeout=DEADLINE, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr, r"\((length|eos)\)")
                texts.append(done.stdout.strip())
            self.assertEqual(texts[0], texts[1])


if __name__ == "__main__":
    PROGRAM, EXAMPLE = sys.argv[1:3]
    unittest.main("__main__", argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
