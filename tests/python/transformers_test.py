"""Model.generate beside transformers' own generate: the same arguments, the same results. float32.

    transformers_test.py MODEL        MODEL: SmolLM2's directory; needs the torch and transformers of .venv
"""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import numpy as np
import test_folder
import tiny_model
import torch_without_cuda  # noqa: F401, before torch
import torch
import transformers

import lockstep

PROMPTS = [[1, 504, 2365, 29], [1, 2683, 359, 253, 5356], [504, 3575, 282, 4649, 314, 7042]]


def reference_of(directory):
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    model.generation_config.pad_token_id = model.generation_config.pad_token_id or 2
    return model.eval()


def left_padded(prompts, pad):
    width = max(map(len, prompts))
    ids = [[pad] * (width - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return torch.tensor(ids), torch.tensor(mask)


class Demo(unittest.TestCase):
    """SmolLM2."""

    @classmethod
    def setUpClass(cls):
        cls.reference = reference_of(MODEL)

    def test_greedy_tokens_are_the_same_at_every_degree(self):
        ids, mask = left_padded(PROMPTS, pad=2)
        expected = self.reference.generate(ids, attention_mask=mask, max_new_tokens=8, do_sample=False)
        for tp in (1, 2, 3):
            with lockstep.Model(MODEL, tp=tp, dtype=torch.float32, max_seq_len=64, scoring=False) as model:
                found = model.generate(ids, attention_mask=mask, max_new_tokens=8, do_sample=False)
            self.assertEqual(found.dtype, torch.int64)
            self.assertTrue(torch.equal(found, expected), f"tp={tp}: {found} {expected}")

    def test_its_tokenizer_in_place_of_the_models(self):
        tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
        options = {"dtype": "float32", "max_seq_len": 96, "scoring": False}
        with lockstep.Model(MODEL, **options) as own, lockstep.Model(MODEL, tokenizer=tokenizer, **options) as model:
            prompts = ["Once upon a time", "A caf\u00e9 for 5 \u20ac \u2013"]
            texts = [done.text for done in own.complete(prompts, max_new_tokens=16)]
            self.assertEqual([done.text for done in model.complete(prompts, max_new_tokens=16)], texts)
            self.assertEqual(["".join(map(str, model.stream(one, max_new_tokens=16))) for one in prompts], texts)
            turns = [{"role": "user", "content": "Say hello."}]
            self.assertEqual(model.chat(turns, max_new_tokens=8)[0].text, own.chat(turns, max_new_tokens=8)[0].text)


class Files(test_folder.FolderTests):
    """Options of generation in the files of a model."""

    def model_with(self, config, generation=None):
        """The directory of the tiny model with these files; null: without generation_config.json."""
        directory = tiny_model.write(self.folder / "model")
        (directory / "config.json").write_text(json.dumps(config))
        file = directory / "generation_config.json"
        file.unlink(missing_ok=True)
        if generation is not None:
            file.write_text(json.dumps(generation))
        return directory

    def both(self, config, generation):
        """The end tokens and the answer of the tiny model with these additions, the same here and in transformers."""
        directory = self.model_with(tiny_model.CONFIG | config, generation)
        prompt = torch.tensor([[5, 9, 23, 77, 3]])
        theirs = transformers.AutoModelForCausalLM.from_pretrained(directory).generate(prompt, max_new_tokens=12)
        with lockstep.Model(directory, max_seq_len=32) as model:
            ours = model.generate(prompt, max_new_tokens=12)
            self.assertEqual(ours.tolist(), theirs.tolist())
            return model.eos_token_ids, ours[0].tolist()

    def test_the_config_has_the_options_where_there_is_no_other_file(self):
        plain = self.both({}, None)[1]
        without_first = {"suppress_tokens": [plain[5]]}
        self.assertNotEqual(self.both(without_first, None)[1], plain)
        self.assertEqual(self.both(without_first, {"eos_token_id": 2})[1], plain)
        end = plain[-4]
        self.assertEqual(self.both({"eos_token_id": end}, None), ([end], plain[:plain.index(end) + 1]))
        self.assertEqual(self.both({"eos_token_id": end}, {}), ([], plain))

    def test_no_class_has_an_end_token(self):
        config = {key: value for key, value in tiny_model.CONFIG.items() if key != "eos_token_id"}
        directory = self.model_with(config)
        self.assertIsNone(transformers.AutoModelForCausalLM.from_pretrained(directory).generation_config.eos_token_id)
        with lockstep.Model(directory, max_seq_len=32) as model:
            self.assertEqual(model.eos_token_ids, [])

    def test_every_option_may_be_in_the_config(self):
        options = {name: tiny_model.CONFIG.get(name, 1) for name in transformers.GenerationConfig().to_dict()}
        directory = self.model_with(tiny_model.CONFIG | options, {"eos_token_id": 2})
        with lockstep.Model(directory, max_seq_len=32) as model:
            self.assertEqual(model.generate([[5, 9]], max_new_tokens=12)[0][:2], [5, 9])

    def test_no_option_of_draws_counts_where_nothing_is_drawn(self):
        self.both({}, {"temperature": 0.0, "top_p": 2.0, "top_k": -1, "eos_token_id": 2})


class Tiny(test_folder.FolderTests):
    """A tiny model on two ranks, with every option."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tiny_model.write(cls.folder / "model")
        tiny_model.write_tokenizer(directory)
        cls.reference = reference_of(directory)
        cls.model = lockstep.Model(directory, tp=2, batch_size=4, prompt_embeddings=True)
        cls.addClassCleanup(cls.model.close)
        cls.ids, cls.mask = left_padded([[1, 17, 23, 99], [5, 6], [7, 8, 9]], pad=3)

    def both(self, **options):
        options = {"max_new_tokens": 10, "do_sample": False, "pad_token_id": 3} | options
        ids, mask = options.pop("ids", self.ids), options.pop("mask", self.mask)
        ours = self.model.generate(ids, attention_mask=mask, **options)
        return ours, self.reference.generate(ids, attention_mask=mask, **options)

    def assert_same(self, **options):
        ours, theirs = self.both(**options)
        self.assertTrue(torch.equal(ours, theirs), f"{options}:\n{ours}\n{theirs}")

    def test_options(self):
        for options in ({}, {"repetition_penalty": 1.3}, {"no_repeat_ngram_size": 2}, {"min_new_tokens": 8},
                        {"bad_words_ids": [[7], [9, 3]]}, {"sequence_bias": {(5,): 2.0, (6, 7): -3.0}},
                        {"suppress_tokens": [55, 4]}, {"eos_token_id": [2, 40, 60]}, {"forced_eos_token_id": 9},
                        {"max_new_tokens": None, "max_length": 9}, {"min_length": 10, "eos_token_id": [40, 60, 127]}):
            with self.subTest(options):
                self.assert_same(**options)

    def test_a_generation_config_object(self):
        config = transformers.GenerationConfig(max_new_tokens=7, repetition_penalty=1.2, pad_token_id=3, eos_token_id=2,
                                               do_sample=False)
        ours = self.model.generate(self.ids, attention_mask=self.mask, generation_config=config)
        theirs = self.reference.generate(self.ids, attention_mask=self.mask, generation_config=config)
        self.assertTrue(torch.equal(ours, theirs))
        as_dict = self.model.generate(self.ids, attention_mask=self.mask, generation_config=config.to_dict())
        self.assertTrue(torch.equal(as_dict, theirs))

    def test_beams(self):
        self.assert_same(num_beams=3, num_return_sequences=2)
        ours, theirs = self.both(num_beams=4, num_return_sequences=3, return_dict_in_generate=True, output_scores=True,
                                 early_stopping=True, ids=self.ids[:1], mask=self.mask[:1])
        self.assertTrue(torch.equal(ours.sequences, theirs.sequences))
        torch.testing.assert_close(ours.sequences_scores, theirs.sequences_scores, rtol=0, atol=1e-5)

    def test_embeddings_in_place_of_ids(self):
        embedded = self.reference.get_input_embeddings()(self.ids)
        for options in ({}, {"repetition_penalty": 1.4}, {"num_beams": 3}, {"max_new_tokens": None, "max_length": 9},
                        {"logits_processor": transformers.LogitsProcessorList([transformers.NoRepeatNGramLogitsProcessor(1)])}):
            with self.subTest(options):
                options = {"max_new_tokens": 10, "do_sample": False, "pad_token_id": 3, "attention_mask": self.mask,
                           "inputs_embeds": embedded} | options
                ours, theirs = self.model.generate(**options), self.reference.generate(**options)
                self.assertTrue(torch.equal(ours, theirs), f"{ours}\n{theirs}")
        half = self.model.generate(inputs_embeds=embedded.bfloat16(), attention_mask=self.mask, max_new_tokens=4)
        self.assertEqual(half.shape, (3, 4))

    def test_padding_is_found_without_a_mask(self):
        self.assert_same(mask=None)

    def test_guidance_by_negative_prompts(self):
        self.assert_same(guidance_scale=1.5, negative_prompt_ids=torch.tensor([[4, 4], [5, 5], [9, 1]]))

    def test_scores_and_logits(self):
        ours, theirs = self.both(return_dict_in_generate=True, output_scores=True, output_logits=True,
                                 repetition_penalty=1.2)
        self.assertTrue(torch.equal(ours.sequences, theirs.sequences))
        self.assertEqual(len(ours.scores), len(theirs.scores))
        ends = [(row == 2).nonzero() for row in ours.sequences[:, self.ids.shape[1]:]]
        for name in ("scores", "logits"):
            for step, (mine, other) in enumerate(zip(ours[name], theirs[name])):
                running = [not len(end) or int(end[0]) >= step for end in ends]  # transformers goes on after a row's end
                torch.testing.assert_close(mine[running], other[running], rtol=0, atol=1e-4)

    def test_processors_of_transformers(self):
        for processors in ([transformers.NoRepeatNGramLogitsProcessor(2)],
                           [transformers.TemperatureLogitsWarper(0.7), transformers.SuppressTokensLogitsProcessor([1, 5])],
                           transformers.LogitsProcessorList([transformers.RepetitionPenaltyLogitsProcessor(1.4)])):
            with self.subTest(processors=processors):
                self.assert_same(logits_processor=transformers.LogitsProcessorList(processors), num_beams=1)

    def test_a_processor_of_the_callers_with_beams(self):
        class Shift(transformers.LogitsProcessor):
            def __call__(self, input_ids, scores):
                assert torch.is_tensor(input_ids) and scores.dtype == torch.float32
                return scores + torch.sin(torch.arange(scores.shape[1]) * input_ids.shape[1])

        ids, mask = self.ids[:1], self.mask[:1]  # a row without padding: its ids are the same on both sides
        self.assert_same(logits_processor=transformers.LogitsProcessorList([Shift()]), num_beams=3, ids=ids, mask=mask)

    def test_criteria_of_transformers(self):
        class Ends(transformers.StoppingCriteria):
            def __call__(self, input_ids, scores, **others):
                return (input_ids[:, -1] % 3 == 0).to(torch.bool)

        ids, mask = self.ids[:1], self.mask[:1]
        for criterion in (transformers.MaxLengthCriteria(max_length=7), transformers.EosTokenCriteria(eos_token_id=60), Ends()):
            with self.subTest(criterion):
                self.assert_same(stopping_criteria=transformers.StoppingCriteriaList([criterion]), ids=ids, mask=mask)

    def test_allowed_tokens_of_each_prompt(self):
        def allowed(prompt, ids):
            return [10 + prompt, 20 + prompt, int(ids[-1])]

        self.assert_same(prefix_allowed_tokens_fn=allowed)

    def test_a_streamer_of_transformers(self):
        class Collects(transformers.generation.streamers.BaseStreamer):
            def __init__(self):
                self.put_values, self.ended = [], False

            def put(self, value):
                assert torch.is_tensor(value)
                self.put_values.append(value.flatten().tolist())

            def end(self):
                self.ended = True

        ours, theirs = Collects(), Collects()
        options = {"max_new_tokens": 6, "do_sample": False}
        self.model.generate(self.ids[:1], streamer=ours, **options)
        self.reference.generate(self.ids[:1], streamer=theirs, **options)
        self.assertEqual((ours.put_values, ours.ended), (theirs.put_values, True))

    def test_scores_of_given_tokens(self):
        ids = [1, 17, 23, 99, 4, 5]
        row, = self.model.score(torch.tensor([ids]), top=3)
        logits = self.reference(torch.tensor([ids])).logits[0].log_softmax(-1)
        expected = logits.detach()[torch.arange(5), torch.tensor(ids[1:])]
        torch.testing.assert_close(torch.tensor(row["logprobs"][1:]), expected, rtol=0, atol=1e-4)
        self.assertIsNone(row["logprobs"][0])
        self.assertEqual([[token for token, _ in top] for top in row["top"][1:]], logits[:5].topk(3).indices.tolist())
        self.assertAlmostEqual(row["perplexity"], float(torch.exp(-expected.mean())), places=3)

    def test_numpy_and_lists_give_the_same_ids(self):
        expected = self.model.generate(self.ids, attention_mask=self.mask, max_new_tokens=5)
        from_numpy = self.model.generate(self.ids.numpy(), attention_mask=self.mask.numpy(), max_new_tokens=5)
        self.assertIsInstance(from_numpy, np.ndarray)
        np.testing.assert_array_equal(from_numpy, expected.numpy())
        self.assertEqual(self.model.generate(self.ids.tolist(), self.mask.tolist(), max_new_tokens=5), expected.tolist())


if __name__ == "__main__":
    MODEL = pathlib.Path(sys.argv[1]).resolve()
    unittest.main("__main__", argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
