"""What the package lockstep refuses, with a tiny model: wrong ids, masks, texts and options, each with its words.

    input_test.py
"""
import copy
import pathlib
import pickle
import unittest

import numpy as np
from one_model import PROMPT, OnOneModel, embedding_table

import lockstep


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
        self.refuses("3 values for the 4 tokens of row 0", [PROMPT], [[1, 1, 1]])
        self.refuses("2 rows, expected 1", [PROMPT], [[1] * 4] * 2)
        self.refuses("hides entirely", [PROMPT], [[0] * 4])
        self.refuses("other than 0 and 1", [PROMPT], [[1, 2, 1, 1]])
        self.refuses("float64 in attention_mask", [PROMPT], [[1.0] * 4])

    def test_embeddings(self):
        good = embedding_table(self.directory)[[PROMPT]]
        for message, given, mask in (
                (r"row 0 has the shape \[4, 31\], expected \[tokens, 32\]", good[:, :, 1:], None),
                (r"shape \[4, 32\], expected \[rows, tokens, 32\]", good[0], None),
                ("at least one token", good[:, :0], None),
                ("no rows", good[:0], None),
                ("int64 in row 0 of inputs_embeds", good.astype(int), None),
                ("not finite", good * np.inf, None),
                ("not finite in float32", good.astype(np.float64) * 1e300, None),
                ("3 values for the 4 tokens of row 0", good, [[1, 1, 1]]),
                ("hides entirely", good, [[0] * 4])):
            self.refuses(message, None, mask, inputs_embeds=given)
        self.refuses("input_ids and inputs_embeds, expected one of them", [PROMPT], inputs_embeds=good)
        with self.assertRaisesRegex(TypeError, "rows of embeddings"):
            self.model.generate(inputs_embeds="text")
        with self.assertRaisesRegex(lockstep.Error, "embeddings in its prompt, .*prompt_embeddings=True") as raised:
            self.model.generate(inputs_embeds=good)
        self.assertEqual(raised.exception.kind, "unsupported")

    def test_options(self):
        self.refuses("found no_such_option, expected one of", [PROMPT], no_such_option=1)
        self.refuses("temperature", [PROMPT], temperature="hot")
        self.refuses("top_p", [PROMPT], do_sample=True, top_p=1.5)
        self.refuses(r"found 200 tokens|max_new_tokens 200", [PROMPT], max_new_tokens=200)
        self.refuses("batch_size: found 4 slots, expected at least 5", [PROMPT], num_beams=5)
        self.refuses(r"\(row 1\)", [PROMPT, [5] * 120], max_new_tokens=20)
        self.refuses("max_length=4 for prompts of 4 tokens, padding included", [PROMPT], [[0, 1, 1, 1]], max_length=4)
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
            lockstep.Model(self.directory / "nothing")
        self.assertEqual((raised.exception.kind, raised.exception.rank), ("not_found", None))
        with self.assertRaisesRegex(ValueError, "float33"):
            lockstep.Model(self.directory, dtype="float33")
        with self.assertRaises(lockstep.Error) as raised:
            lockstep.Model(self.directory, tp=5)
        self.assertEqual((raised.exception.kind, raised.exception.context), ("unsupported", "shards/partition"))
        with self.assertRaises(lockstep.Error) as raised:
            lockstep.Model(self.directory, memory_budget=1)
        self.assertEqual(raised.exception.kind, "resource_exhausted")
        for seconds in (-1.0, 1e10, float("nan"), float("inf")):
            with self.assertRaisesRegex(lockstep.InputError, "check_weights_s: found .*, expected 0 to"):
                lockstep.Model(self.directory, check_weights_s=seconds)

    def test_weights_are_checked_while_the_model_is_open_unless_told_not_to(self):
        def threads_with(seconds):
            with lockstep.Model(self.directory, threads=1, check_weights_s=seconds):
                return len(list(pathlib.Path("/proc/self/task").iterdir()))
        threads_with(0)  # some begin with the first model
        self.assertEqual(threads_with(600) - threads_with(0), 1)

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
