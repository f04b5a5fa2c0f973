"""The package lockstep with a tiny model: results, callbacks, streams, several threads. Needs numpy alone.

    package_test.py
"""
import asyncio
import logging
import threading
import time
import unittest

import numpy as np
from one_model import PROMPT, OnOneModel, WithDirectory, embedding_table

import lockstep


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


class Embeddings(OnOneModel):
    OPTIONS = {"prompt_embeddings": True}

    def test_those_of_tokens_give_the_answer_to_the_tokens(self):
        table, padding = embedding_table(self.directory), np.full((2, 32), 9.0, np.float64)
        rows = self.model.generate(inputs_embeds=[table[PROMPT], table[[5, 6]].astype(np.float64)], max_new_tokens=8)
        self.assertEqual(rows, [row[len(prompt):][:8] for prompt in (PROMPT, [5, 6])
                                for row in self.model.generate([prompt], max_new_tokens=8)])
        padded = np.stack([table[PROMPT], np.concatenate([padding, table[[5, 6]]])])
        found = self.model.generate(inputs_embeds=padded, attention_mask=[[1, 1, 1, 1], [0, 0, 1, 1]], max_new_tokens=8)
        self.assertEqual(found.dtype, np.int64)
        self.assertEqual(found.tolist(), rows)

    def test_processors_see_the_new_ids_alone(self):
        lengths = []

        def note(ids, scores):
            lengths.append(ids.shape)
            return scores

        self.model.generate(inputs_embeds=embedding_table(self.directory)[[PROMPT]], max_new_tokens=3, logits_processor=[note])
        self.assertEqual(lengths, [(1, 0), (1, 1), (1, 2)])


class Callbacks(OnOneModel):
    def test_a_processor_gets_arrays_and_its_scores_count(self):
        seen = []

        def only_even(ids, scores):
            scores[:, 1::2] = -np.inf
            seen.append((ids.shape, ids.dtype, scores.shape, scores.dtype, scores, scores.copy()))
            return scores

        found = self.new_ids(logits_processor=[only_even])
        self.assertTrue(all(token % 2 == 0 for token in found))
        self.assertEqual(seen[1][:4], ((1, 5), np.int64, (1, 128), np.float32))
        for *_, kept, copy in seen:  # arrays that a callback keeps stay valid
            np.testing.assert_array_equal(kept, copy)

    def test_a_thread_keeps_its_state_between_callbacks(self):
        local, counts = threading.local(), []

        def count(ids, scores):
            local.calls = getattr(local, "calls", 0) + 1
            counts.append(local.calls)
            return scores

        self.new_ids(logits_processor=[count], max_new_tokens=4, eos_token_id=[])
        self.assertEqual(counts, [1, 2, 3, 4])

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

    def test_conversations_that_an_answer_continues(self):
        tokenizer = self.model.tokenizer
        messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well, "}]
        text = tokenizer.apply_chat_template(messages, tokenize=False, continue_final_message=True)
        self.assertEqual(text, "<user>Hi<assistant>Well, ")
        for wrong in ({"add_generation_prompt": True}, {"conversation": messages[:1] + [{"role": "assistant"}]}):
            with self.assertRaisesRegex(lockstep.InputError, "cannot continue the last message"):
                tokenizer.apply_chat_template(**{"conversation": messages, "continue_final_message": True} | wrong)

    def test_arguments_of_transformers_that_are_no_variables(self):
        chat = [{"role": "user", "content": "Hi", "name": None}]
        text = self.model.tokenizer.apply_chat_template(chat, tokenize=False, return_dict=False, truncation=False)
        self.assertEqual(text, "<user>Hi")
        for wrong in ({"chat_template": "x"}, {"truncation": True}, {"max_length": 3}, {"return_tensors": "pt"}):
            with self.assertRaisesRegex(lockstep.InputError, f"found {next(iter(wrong))}="):
                self.model.tokenizer.apply_chat_template(chat, **wrong)

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


class Models(WithDirectory):
    def test_several_degrees_at_once_give_the_same_tokens(self):
        models = [lockstep.Model(self.directory, tp=tp, batch_size=2, threads=1) for tp in (1, 2, 3)]
        found = [model.generate([PROMPT, [5, 6, 7, 8]], max_new_tokens=12) for model in models]
        for model in models:
            model.close()
        self.assertEqual(found, [found[0]] * 3)

    def test_many_threads_share_a_model(self):
        with lockstep.Model(self.directory, tp=2, batch_size=4) as model:
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
        model = lockstep.Model(self.directory)
        model.close()
        model.close()
        for call in (lambda: model.generate([PROMPT]), lambda: model.score([PROMPT]), lambda: model.stream("one")):
            with self.assertRaisesRegex(lockstep.Error, "found a closed one") as raised:
                call()
            self.assertEqual(raised.exception.kind, "failed_precondition")
        self.assertEqual(len(model.memory()), 1)
        self.assertEqual(model.tokenizer.encode("one"), model.tokenizer.encode("one"))

    def test_closing_ends_open_requests(self):
        model = lockstep.Model(self.directory, batch_size=1)
        begun, failure = threading.Event(), []

        def go_on(ids, scores):
            begun.set()
            time.sleep(0.02)  # the request lasts for seconds unless it is ended
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
        lockstep.Model(self.directory, tp=2)
        stream = lockstep.Model(self.directory).stream(PROMPT, max_new_tokens=5, eos_token_id=[])
        self.assertEqual(len(list(stream)), 5)

    def test_log_lines_go_to_logging(self):
        with self.assertLogs("lockstep", logging.INFO) as logs:
            lockstep.Model(self.directory, tp=2).close()
        self.assertIn("rank 0: ", logs.output[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
