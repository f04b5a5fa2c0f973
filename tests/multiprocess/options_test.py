"""Effects of options through the real command line: as in Hugging Face transformers, and in combinations.

    options_test.py PROGRAM MODEL GOLDENS
"""
import json
import math

import program

TOLERANCE = 1e-4  # of the largest logit: rounding moves them by about 1e-6


def command_line(options):
    """generate()'s options → Lockstep's: {"top_k": 5, "do_sample": True} → --top-k 5 --do-sample."""
    words = []
    for key, value in options.items():
        name = key.replace("_", "-")
        if key == "do_sample":
            words.append(f"--{name}" if value else f"--no-{name}")
        elif key == "early_stopping":
            words += [f"--{name}", str(value).lower()]
        elif value is True:
            words.append(f"--{name}")
        elif key.endswith("suppress_tokens"):
            words += [f"--{name}", ",".join(map(str, value))]
        else:
            words += [f"--{name}", json.dumps(value)]
    return words


class HuggingFace(program.Folder):
    """Every case of the golden, by two ranks."""

    def expect_case(self, case):
        options = command_line({"do_sample": False, **case["options"]})
        if case["negative"]:
            options += ["--negative-prompt", case["negative"]]
        scores = self.folder / "scores.safetensors"
        beams = case["options"].get("num_beams", 1) > 1
        if not beams:
            options += ["--output-scores", scores]
        answer = self.answer_of("--ids-file", self.ids_file([row["prompt_ids"] for row in case["rows"]]),
                                "--dtype", "float32", *options, ranks=2)
        if not case["options"].get("do_sample"):  # else the tokens are random
            self.assertEqual(answer["sequences"], [tokens for row in case["rows"] for tokens in row["sequences"]])
        if beams:
            expected = [score for row in case["rows"] for score in row["sequences_scores"]]
            for found, wanted in zip(answer["sequences_scores"], expected, strict=True):
                self.assertAlmostEqual(found, wanted, delta=1e-4)
        else:
            self.expect_scores(program.StepTensor(scores, "scores"), case["rows"])

    def expect_scores(self, scores, rows):
        for index, row in enumerate(rows):
            steps = {"first_scores": 0, "last_scores": len(row["sequences"][0]) - 1}
            for name in steps.keys() & row.keys():
                found = scores.at(index, steps[name])
                self.assertEqual(sum(value == -math.inf for value in found), row[name]["masked"], name)
                for token, expected in zip(row[name]["ids"], row[name]["scores"]):
                    self.assertAlmostEqual(found[token], expected, delta=TOLERANCE * row["scale"], msg=name)

    def test_options_do_what_transformers_does(self):
        for case in program.golden("smollm2_options")["cases"]:
            with self.subTest(case=case["name"]):
                self.expect_case(case)


class WithOptions(program.Folder):
    GREEDY = ("--no-do-sample", "--dtype", "float32", "--ignore-eos")
    SAMPLED = ("--do-sample", "--temperature", 1.1, "--top-k", 40, "--seed", 11, "--dtype", "float32", "--ignore-eos")
    # A repetitive text, so that lookup finds drafts.
    PROMPT = ("--prompt", "A list: apples, pears, plums, apples, pears, plums, apples,", "--max-new-tokens", 16)

    def tokens_of(self, *arguments, threads=1):
        return self.answer_of(*arguments, threads=threads)["sequences"]


class Options(WithOptions):
    def test_log_probabilities_are_those_of_the_logits_and_in_order(self):
        path = self.folder / "logits.safetensors"
        answer = self.answer_of(*self.PROMPT, *self.GREEDY, "--top-logprobs", 5, "--output-logits", path, threads=2)
        logits = program.StepTensor(path, "logits")
        self.assertEqual(len(answer["top_logprobs"][0]), len(answer["sequences"][0]))
        for step, (token, chosen, top) in enumerate(zip(answer["sequences"][0], answer["logprobs"][0],
                                                        answer["top_logprobs"][0], strict=True)):
            values = [entry["logprob"] for entry in top]
            self.assertEqual((len(values), values), (5, sorted(values, reverse=True)))
            self.assertEqual((top[0]["id"], values[0]), (token, chosen))  # greedy
            self.assertLessEqual(sum(map(math.exp, values)), 1 + 1e-5)
            row = logits.at(0, step)
            best = max(row)
            total = math.log(sum(math.exp(value - best) for value in row)) + best
            for entry in top:
                self.assertAlmostEqual(entry["logprob"], row[entry["id"]] - total, delta=1e-4)

    def test_several_answers_to_a_prompt_differ_and_come_again_with_their_seed(self):
        arguments = (*self.PROMPT, *self.SAMPLED, "--num-return-sequences", 4)
        answers = self.answer_of(*arguments, ranks=2)["sequences"]
        self.assertEqual(len({tuple(tokens) for tokens in answers}), 4)
        self.assertEqual(self.tokens_of(*arguments, "--batch-size", 2, threads=3), answers)

    def test_a_prompt_goes_in_token_by_token_or_in_chunks_alike(self):
        alone = self.tokens_of(*self.PROMPT, *self.GREEDY)
        for chunks in ("0", "4"):  # the prompt is longer than 4
            with self.subTest(chunks=chunks):
                self.assertEqual(self.tokens_of(*self.PROMPT, *self.GREEDY, "--context-length-estimate", chunks), alone)

    def test_a_prompt_for_several_rows_is_prefilled_once(self):
        prompt, trace = list(range(40, 60)), self.folder / "trace.json"
        answer = self.answer_of("--ids-file", self.ids_file([prompt] * 5), *self.GREEDY, "--max-new-tokens", 6,
                                "--trace", trace, threads=2)
        self.assertEqual(len({tuple(tokens) for tokens in answer["sequences"]}), 1)
        steps = [event for event in json.loads(trace.read_text())["traceEvents"]
                 if event.get("cat") == "step" and event["name"] == "prefill" and event["pid"] == 0]
        self.assertIn(sum(step["args"]["rows"] for step in steps), range(len(prompt), 2 * len(prompt)), steps)

    def test_a_window_counts_only_where_it_is_shorter_than_the_text(self):
        alone = self.tokens_of(*self.PROMPT, *self.GREEDY)
        wide, narrow, pinned = (self.tokens_of(*self.PROMPT, *self.GREEDY, *window, threads=2) for window in (
            ("--window", 32), ("--window", 8), ("--window", 8, "--pinned-sinks", 4)))
        self.assertEqual(wide, alone)
        self.assertNotEqual(narrow, alone)
        self.assertNotEqual(pinned, narrow)

    def test_a_stop_string_ends_the_text_across_tokens(self):
        prompt = ("--prompt", "1, 2, 3, 4, 5, 6, 7, 8,", "--max-new-tokens", 24, *self.GREEDY)
        answer = self.answer_of(*prompt, "--stop", "nowhere", "--stop", "1, 12", threads=2)
        self.assertEqual((answer["finish_reasons"], answer["texts"]), (["stop"], [" 9, 10, 1"]))
        self.assertLess(len(answer["sequences"][0]), 24)

    def test_time_ends_a_row(self):
        answer = self.answer_of("--prompt", "Once", "--max-new-tokens", 4000, "--ignore-eos", "--max-time", 0.2,
                                threads=2)
        self.assertLess(len(answer["sequences"][0]), 4000)
        self.assertEqual(answer["finish_reasons"], ["stop"])


class Work(WithOptions):
    """How it is cut; the slow part."""

    def test_drafted_tokens_change_nothing(self):
        drafts = (("--prompt-lookup-num-tokens", 4), ("--draft-model", program.MODEL, "--num-assistant-tokens", 3))
        for how in (self.GREEDY, self.SAMPLED):
            alone = self.tokens_of(*self.PROMPT, *how, threads=2)
            for draft in drafts:
                with self.subTest(how=how[0], draft=draft[0]):
                    self.assertEqual(self.answer_of(*self.PROMPT, *how, *draft, ranks=2)["sequences"], alone)

    def test_buckets_change_nothing(self):
        alone = self.tokens_of(*self.PROMPT, *self.GREEDY)
        for buckets in ("auto", "16,32"):
            with self.subTest(buckets=buckets):
                self.assertEqual(self.tokens_of(*self.PROMPT, *self.GREEDY, "--max-seq-len", 200, "--buckets", buckets,
                                                threads=2), alone)

    def test_lists_of_batch_sizes_and_chunks_change_nothing(self):
        prompts = [[11, 45, 900, 3], [7] * 21, [29, 4], [8, 15, 16, 23, 42]]
        rows = ("--ids-file", self.ids_file(prompts), "--max-new-tokens", 12, "--max-seq-len", 64)
        for how in (self.GREEDY, self.SAMPLED):
            alone = self.tokens_of(*rows, *how, "--batch-size", 4)
            lists = self.answer_of(*rows, *how, "--batch-size", "4,1,2", "--context-length-estimate", "4,16", "--buckets",
                                   "32", ranks=2)
            self.assertEqual(lists["sequences"], alone)
        self.assertEqual([lists[name] for name in ("batch_size", "batch_sizes", "context_buckets", "token_buckets",
                                                   "dtype", "weights")], [4, [1, 2, 4], [4, 16], [32, 64], "f32", "dtype"])
        names = [graph.split()[0] for graph in lists["graphs"]["list"]]
        for name in ("prefill_4", "prefill_16", "decode_b1_32", "decode_b2_64", "decode_b4_64"):
            self.assertIn(name, names)


class Contradictions(program.Folder):
    def test_are_refused_by_name(self):
        lookup, beams = ("--prompt-lookup-num-tokens", "4"), ("--num-beams", "3")
        for code, words, options in (
            (2, ("prompt_lookup_num_tokens", "num_beams"), (*lookup, *beams)),
            (2, ("drafts", "num_beams"), ("--draft-model", program.MODEL, *beams)),
            (2, ("--draft-model", "prompt_lookup_num_tokens"), ("--draft-model", program.MODEL, *lookup)),
            (2, ("negative prompt", "--guidance-scale"), ("--negative-prompt", "no")),
            (2, ("--window", "capacity"), ("--window", "64", "--max-seq-len", "32")),
            (2, ("--pinned-sinks", "--window"), ("--pinned-sinks", "4")),
            (2, ("num_return_sequences", "num_beams"), (*beams, "--num-return-sequences", "4")),
            (2, ("num_return_sequences", "do_sample"), ("--num-return-sequences", "2", "--no-do-sample")),
            (2, ("early_stopping",), (*beams, "--early-stopping", "perhaps")),
            (2, ("bad_words_ids", "JSON"), ("--bad-words-ids", "[[1,")),
            (2, ("--buckets",), ("--buckets", "sometimes")),
            (2, ("--batch-size", "1,4,8"), ("--batch-size", "1,none")),
            (2, ("--batch-size", "beams"), (*beams, "--batch-size", "1,2")),
            (3, ("--expert-parallel", "llama"), ("--expert-parallel",)),
        ):
            with self.subTest(options=options):
                self.expect_refusal(code, *words, arguments=("--model", program.MODEL, "--prompt", "hello",
                                                             "--max-new-tokens", "4", *options))

    def test_a_model_type_that_is_not_supported_is_refused_with_what_it_needs(self):
        (self.folder / "config.json").write_text(json.dumps({"model_type": "mimo_v2_flash", "hidden_size": 64}))
        self.expect_refusal(3, "mimo_v2_flash", "MiMo-V2-Flash", "values narrower than keys", "choose a model",
                            arguments=("--model", self.folder, "--prompt", "hello", "--max-new-tokens", "4"))


if __name__ == "__main__":
    program.start_tests("tools/fetch_demo_model.py")
