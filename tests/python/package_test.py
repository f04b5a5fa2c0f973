"""The package lockstep with a tiny model: results, callbacks, streams, bad input, several threads. Needs numpy alone.

    package_test.py
"""
import asyncio
import copy
import logging
import pathlib
import pickle
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import tiny_model

import lockstep

PROMPT = [1, 17, 23, 99]
CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


def setUpModule():
    global FOLDER, DIRECTORY
    FOLDER = tempfile.TemporaryDirectory()
    DIRECTORY = tiny_model.write(FOLDER.name)
    tiny_model.write_tokenizer(DIRECTORY)
    (DIRECTORY / "chat_template.jinja").write_text(CHAT)


def tearDownModule():
    FOLDER.cleanup()


class OnOneModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = lockstep.Model(DIRECTORY, tp=2, batch_size=4)
        cls.addClassCleanup(cls.model.close)

    def new_ids(self, **options):
        """The new ids of PROMPT."""
        return self.model.generate([PROMPT], **({"max_new_tokens": 8} | options))[0][len(PROMPT):]


class Generation(OnOneModel):
    def test_results_are_of_the_kind_that_was_passed(self):
        as_list = self.model.generate([PROMPT], max_new_tokens=3)
        as_array = self.model.generate(np.asarray([PROMPT], np.uint8), max_new_tokens=3)
        self.assertEqual(as_list[0][:4], PROMPT)
        self.assertEqual(as_array.dtype, np.int64)
        self.assertEqual(as_array.tolist(), as_list)

    def test_rows_of_several_lengths_are_padded_on_the_right(self):
        rows = self.model.generate([PROMPT, [5]], max_new_tokens=3, pad_token_id=77)
        self.assertEqual([len(row) for row in rows], [7, 7])
        self.assertEqual(rows[1][4:], [77, 77, 77])

    def test_padding_on_either_side_does_not_change_the_new_ids(self):
        expected = self.new_ids()
        for ids, mask in ((([9, 9] + PROMPT), [0, 0, 1, 1, 1, 1]), (PROMPT + [9, 9], [1, 1, 1, 1, 0, 0])):
            self.assertEqual(self.model.generate([ids], [mask], max_new_tokens=8)[0][6:], expected)

    def test_several_answers_to_a_prompt(self):
        rows = self.model.generate([PROMPT, [5, 6, 7, 8]], do_sample=True, num_return_sequences=3, seed=4, max_new_tokens=6)
        self.assertEqual([row[:4] for row in rows], [PROMPT] * 3 + [[5, 6, 7, 8]] * 3)
        self.assertGreater(len({tuple(row) for row in rows}), 2)

    def test_the_output_as_a_dict(self):
        out = self.model.generate([PROMPT], max_new_tokens=3, return_dict_in_generate=True, output_logits=True,
                                  output_scores=True)
        self.assertEqual(list(out), ["sequences", "scores", "logits"])
        self.assertEqual(len(out.logits), 3)
        self.assertEqual(out["logits"][0].shape, (1, 128))
        self.assertEqual([int(step.argmax()) for step in out.logits], out[0][0][4:])
        np.testing.assert_array_equal(out.scores[1], out.logits[1])
        with self.assertRaises(KeyError):
            out["sequences_scores"]

    def test_options_from_a_dict_and_from_keywords(self):
        config = {"max_new_tokens": 2, "transformers_version": "5", "num_beam_groups": 1}
        self.assertEqual(len(self.model.generate([PROMPT], generation_config=config)[0]), 6)
        self.assertEqual(len(self.model.generate([PROMPT], generation_config=config, max_new_tokens=5)[0]), 9)
        self.assertIn("top_k", [option["name"] for option in lockstep.generation_options()])

    def test_facts_and_memory(self):
        self.assertEqual(self.model.facts["ranks"], 2)
        self.assertEqual(self.model.facts["graphs_after_start"], [])
        self.assertEqual(len(self.model.memory()), 2)
        self.assertGreater(self.model.memory()[1]["weights"], 0)
        before = self.model.counters["new_tokens"]
        self.new_ids(max_new_tokens=5)
        self.assertEqual(self.model.counters["new_tokens"] - before, 5)


class Callbacks(OnOneModel):
    def test_a_processor_gets_arrays_and_its_scores_count(self):
        seen = []

        def only_even(ids, scores):
            seen.append((ids.shape, ids.dtype, scores.shape, scores.dtype, scores))
            scores[:, 1::2] = -np.inf
            return scores

        found = self.new_ids(logits_processor=[only_even])
        self.assertTrue(all(token % 2 == 0 for token in found))
        self.assertEqual(seen[1][:4], ((1, 5), np.int64, (1, 128), np.float32))
        self.assertTrue(np.isneginf(seen[0][4][0, 1]))  # arrays that a callback keeps stay valid

    def test_beams_are_the_rows_of_a_processor(self):
        shapes = set()

        def note(ids, scores):
            shapes.add(ids.shape)
            return scores

        self.assertEqual(self.new_ids(num_beams=3, logits_processor=[note]), self.new_ids(num_beams=3))
        self.assertIn((3, 6), shapes)

    def test_a_criterion_ends_its_row(self):
        found = self.new_ids(stopping_criteria=[lambda ids, scores: ids.shape[1] >= 7])
        self.assertEqual(found, self.new_ids()[:3])

    def test_allowed_tokens(self):
        self.assertLessEqual(set(self.new_ids(prefix_allowed_tokens_fn=lambda index, ids: [40 + index, 50])), {40, 50})

    def test_an_exception_is_raised_again_and_ends_its_request_alone(self):
        class Unusual(Exception):
            pass

        failure = Unusual("from a callback")

        def fails(*_):
            raise failure

        expected = self.new_ids(max_new_tokens=40)
        found = []
        other = threading.Thread(target=lambda: found.append(self.new_ids(max_new_tokens=40)))
        other.start()
        for callback in ({"logits_processor": [fails]}, {"stopping_criteria": [fails]}, {"prefix_allowed_tokens_fn": fails}):
            with self.assertRaises(Unusual) as raised:
                self.new_ids(**callback)
            self.assertIs(raised.exception, failure)
        other.join()
        self.assertEqual(found, [expected])
        self.assertEqual(self.new_ids(max_new_tokens=40), expected)

    def test_scores_of_another_shape_are_refused(self):
        for given in (None, np.zeros((1, 3), np.float32), np.zeros((1, 128), np.int64)):
            with self.assertRaisesRegex(lockstep.InputError, r"returned, expected the scores, float32 \[1, 128\]"):
                self.new_ids(logits_processor=[lambda ids, scores: given])

    def test_a_call_inside_a_callback_is_refused(self):
        for call in (self.new_ids, self.model.close, lambda: self.model.score([PROMPT])):
            with self.assertRaisesRegex(lockstep.Error, "inside one of its own callbacks") as raised:
                self.new_ids(logits_processor=[lambda ids, scores: call()])
            self.assertEqual(raised.exception.kind, "failed_precondition")

    def test_a_failing_streamer_ends_its_call(self):
        class Fails:
            def put(self, ids):
                raise OSError("no space")

        with self.assertRaisesRegex(OSError, "no space"):
            self.new_ids(streamer=Fails())
        self.assertEqual(self.model.counters["running"], 0)


class Text(OnOneModel):
    def test_the_tokenizer(self):
        tokenizer = self.model.tokenizer
        ids = tokenizer.encode("Hello there")
        self.assertEqual(tokenizer.decode(ids), "Hello there")
        self.assertEqual(tokenizer.decode(np.asarray([1] + ids), skip_special_tokens=True), "Hello there")
        self.assertEqual(tokenizer.vocab_size, 128)
        messages = [{"role": "user", "content": "Hi"}]
        self.assertEqual(tokenizer.apply_chat_template(messages, tokenize=False), "<user>Hi")
        self.assertEqual(tokenizer.apply_chat_template(messages, add_generation_prompt=True),
                         tokenizer.encode("<user>Hi<assistant>", add_special_tokens=False))

    def test_completions_are_in_order(self):
        prompts = ["one", [5, 6], "three", "four", "five", "six"]
        done = self.model.complete(prompts, max_new_tokens=6, progress=False)
        self.assertEqual([one.prompt for one in done], ["one", None, "three", "four", "five", "six"])
        self.assertEqual(done[1].prompt_token_ids, [5, 6])
        for prompt, one in zip(prompts, done):
            self.assertEqual(one.text, self.model.complete([prompt], max_new_tokens=6)[0].outputs[0].text)
            self.assertEqual(self.model.tokenizer.decode(one.outputs[0].token_ids, skip_special_tokens=True), one.text)

    def test_options_under_the_names_of_vllm(self):
        params = lockstep.SamplingParams(temperature=0, max_tokens=4, n=1, ignore_eos=True, logprobs=2)
        answer = self.model.complete("one", params)[0].outputs[0]
        self.assertEqual((len(answer.token_ids), answer.finish_reason), (4, "length"))
        self.assertEqual([top[0][0] for _, top in answer.logprobs], answer.token_ids)

    def test_chat(self):
        messages = [{"role": "user", "content": "Hi"}]
        one = self.model.chat(messages, max_new_tokens=5)
        self.assertEqual(one[0].text, self.model.complete("<user>Hi<assistant>", max_new_tokens=5)[0].text)
        self.assertEqual([done.text for done in self.model.chat([messages] * 2, max_new_tokens=5)], [one[0].text] * 2)

    def test_a_stream_has_the_tokens_of_the_completion(self):
        expected = self.model.complete("one", max_new_tokens=9)[0].outputs[0]
        stream = self.model.stream("one", max_new_tokens=9)
        tokens = list(stream)
        self.assertEqual("".join(map(str, tokens)), expected.text)
        self.assertEqual([token.id for token in tokens if token.id is not None], expected.token_ids)
        self.assertEqual(stream.answers[0].finish_reason, expected.finish_reason)

    def test_many_asynchronous_streams(self):
        async def read(prompt):
            return [token.id async for token in self.model.stream(prompt, max_new_tokens=12)]

        async def read_all():
            return await asyncio.gather(*(read([5 + n, 6]) for n in range(8)))

        found = asyncio.run(read_all())
        self.assertEqual(found, [[token.id for token in self.model.stream([5 + n, 6], max_new_tokens=12)] for n in range(8)])

    def test_a_cancelled_task_ends_its_stream(self):
        def slow(ids, scores):
            time.sleep(0.01)
            return scores

        async def read():
            async for _ in self.model.stream("one", max_new_tokens=100, eos_token_id=[], logits_processor=[slow]):
                pass

        async def cancel():
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(read(), 0.1)

        asyncio.run(cancel())
        self.assertEqual(self.model.counters["running"], 0)

    def test_an_abandoned_stream_ends(self):
        for token in self.model.stream("one", max_new_tokens=100, ignore_eos=None):
            break
        self.assertEqual(self.model.counters["running"], 0)

    def test_a_closed_stream_keeps_its_tokens(self):
        with self.model.stream(PROMPT, max_new_tokens=100, eos_token_id=[]) as stream:
            first = next(stream)
        answer = stream.answers[0]
        self.assertEqual((answer.token_ids[0], answer.finish_reason), (first.id, "cancelled"))


class BadInput(OnOneModel):
    def refuses(self, message, ids, mask=None, **options):
        with self.assertRaisesRegex(ValueError, message) as raised:
            self.model.generate(ids, mask, **options)
        self.assertIsInstance(raised.exception, lockstep.Error)
        self.assertEqual(raised.exception.kind, "invalid_argument")
        self.assertRegex(str(raised.exception), r"^\[[\w/]+\] .*: found .*, expected .*")

    def test_ids(self):
        self.refuses("an empty row 1", [PROMPT, []])
        self.refuses("no rows", [])
        self.refuses("flat list", [1, 2, 3])
        self.refuses("nested", [[[1], [2]]])
        self.refuses("token id 128 in row 1, expected ids of 0 to 127", [PROMPT, [5, 128]])
        self.refuses("token id -1 ", [[-1]])
        self.refuses("float64 in row 0", [[1.0, 2.0]])
        self.refuses("float32", np.zeros((1, 3), np.float32))
        self.refuses("bool", [[True, False]])
        self.refuses(r"shape \[3\]", np.asarray([1, 2, 3]))
        self.refuses("18446744073709551615", np.asarray([[2**64 - 1]], np.uint64))

    def test_text(self):
        for text in ("Hello", ["Hello"], b"Hello"):
            with self.assertRaisesRegex(TypeError, r"complete\(\) or stream\(\)"):
                self.model.generate(text)
        with self.assertRaisesRegex(TypeError, "NoneType"):
            self.model.generate(None)

    def test_masks(self):
        self.refuses("3 values for the 4 ids of row 0", [PROMPT], [[1, 1, 1]])
        self.refuses("2 rows, expected 1", [PROMPT], [[1] * 4] * 2)
        self.refuses("hides entirely", [PROMPT], [[0] * 4])
        self.refuses("other than 0 and 1", [PROMPT], [[1, 2, 1, 1]])
        self.refuses("float64 in attention_mask", [PROMPT], [[1.0] * 4])

    def test_options(self):
        self.refuses("found no_such_option, expected one of", [PROMPT], no_such_option=1)
        self.refuses("temperature", [PROMPT], temperature="hot")
        self.refuses("top_p", [PROMPT], top_p=1.5)
        self.refuses(r"found 200 tokens|max_new_tokens 200", [PROMPT], max_new_tokens=200)
        self.refuses("batch_size: found 4 slots, expected at least 5", [PROMPT], num_beams=5)
        self.refuses(r"\(row 1\)", [PROMPT, [5] * 120], max_new_tokens=20)
        with self.assertRaisesRegex(lockstep.Error, "num_beam_groups=2") as raised:
            self.model.generate([PROMPT], num_beam_groups=2)
        self.assertEqual(raised.exception.kind, "unsupported")
        with self.assertRaisesRegex(TypeError, "a list of callables"):
            self.model.generate([PROMPT], logits_processor=print)
        with self.assertRaisesRegex(TypeError, "pass a plain value"):
            self.model.generate([PROMPT], temperature=object())
        self.refuses("one row", [PROMPT, PROMPT], streamer=object())
        with self.assertRaisesRegex(ValueError, "num_beams"):
            self.model.stream("one", num_beams=2)

    def test_scores(self):
        with self.assertRaisesRegex(ValueError, "found top 21, expected 0 to 20; lower it, or raise max_logprobs"):
            self.model.score([PROMPT], top=21)
        with self.assertRaisesRegex(ValueError, r"\(text 1\)"):
            self.model.score([PROMPT, [5] * 130])

    def test_a_model_that_is_not_there(self):
        with self.assertRaises(lockstep.InputError) as raised:
            lockstep.Model(DIRECTORY / "nothing")
        self.assertEqual((raised.exception.kind, raised.exception.rank), ("not_found", None))
        with self.assertRaisesRegex(ValueError, "float33"):
            lockstep.Model(DIRECTORY, dtype="float33")
        with self.assertRaises(lockstep.Error) as raised:
            lockstep.Model(DIRECTORY, tp=5)
        self.assertEqual((raised.exception.kind, raised.exception.context), ("unsupported", "shards/partition"))
        with self.assertRaises(lockstep.Error) as raised:
            lockstep.Model(DIRECTORY, memory_budget=1)
        self.assertEqual(raised.exception.kind, "resource_exhausted")

    def test_scores_and_streams_of_text(self):
        with self.assertRaisesRegex(TypeError, "tokenizer.encode"):
            self.model.score("Hello")
        for prompt in ([1.5], [], [[1, 2]], np.zeros((1, 2), int)):
            with self.assertRaises(ValueError):
                self.model.stream(prompt)

    def test_pickling_and_copying(self):
        for function in (pickle.dumps, copy.copy, copy.deepcopy):
            with self.assertRaisesRegex(TypeError, "open a model in the process that uses it"):
                function(self.model)
        error = pickle.loads(pickle.dumps(lockstep.InputError("[python] no", "invalid_argument", 3)))
        self.assertEqual((str(error), error.rank), ("[python] no", 3))


class Models(unittest.TestCase):
    def test_several_degrees_at_once_give_the_same_tokens(self):
        models = [lockstep.Model(DIRECTORY, tp=tp, batch_size=2, threads=1) for tp in (1, 2, 3)]
        found = [model.generate([PROMPT, [5, 6, 7, 8]], max_new_tokens=12) for model in models]
        for model in models:
            model.close()
        self.assertEqual(found, [found[0]] * 3)

    def test_many_threads_share_a_model(self):
        with lockstep.Model(DIRECTORY, tp=2, batch_size=4) as model:
            expected = {n: model.generate([[n, 7]], max_new_tokens=10) for n in range(3, 15)}
            found = {}

            def work(n):
                found[n] = model.generate([[n, 7]], max_new_tokens=10, logits_processor=[lambda ids, scores: scores])

            threads = [threading.Thread(target=work, args=(n,)) for n in expected]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(found, expected)

    def test_a_closed_model_refuses_calls(self):
        model = lockstep.Model(DIRECTORY)
        model.close()
        model.close()
        for call in (lambda: model.generate([PROMPT]), lambda: model.score([PROMPT]), lambda: model.stream("one")):
            with self.assertRaisesRegex(lockstep.Error, "found a closed one") as raised:
                call()
            self.assertEqual(raised.exception.kind, "failed_precondition")
        self.assertEqual(len(model.memory()), 1)
        self.assertEqual(model.tokenizer.encode("one"), model.tokenizer.encode("one"))

    def test_closing_ends_open_requests(self):
        model = lockstep.Model(DIRECTORY, batch_size=1)
        begun, closing, failure = threading.Event(), threading.Event(), []

        def go_on(ids, scores):
            begun.set()
            closing.wait(0.1)  # the first time; the others are quick
            closing.set()
            return scores

        def call():
            try:
                model.generate([PROMPT], max_new_tokens=120, eos_token_id=[], logits_processor=[go_on])
            except lockstep.Error as error:
                failure.append(error.kind)

        thread = threading.Thread(target=call)
        thread.start()
        begun.wait()
        model.close()
        thread.join()
        self.assertEqual(failure, ["cancelled"])

    def test_a_model_without_a_reference_closes(self):
        lockstep.Model(DIRECTORY, tp=2)
        stream = lockstep.Model(DIRECTORY).stream(PROMPT, max_new_tokens=5, eos_token_id=[])
        self.assertEqual(len(list(stream)), 5)

    def test_log_lines_go_to_logging(self):
        with self.assertLogs("lockstep", logging.INFO) as logs:
            lockstep.Model(DIRECTORY, tp=2).close()
        self.assertIn("rank 0: ", logs.output[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
