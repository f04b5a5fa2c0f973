"""lm-evaluation-harness's model of the package: transformers' numbers in float32.

    lm_eval_test.py MODEL PYTHON        run by the Python of .venv-clients; PYTHON has transformers and torch
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

from lm_eval.api.instance import Instance
from lm_eval.api.registry import get_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

import lockstep.lm_eval

MODEL = PYTHON = None
DOCUMENTS = [
    {"question": "The capital of France is", "choices": ["Paris", "Rome", "a large dog"], "answer": 0},
    {"question": "One, two, three, four,", "choices": ["nine", "five", "Straße und Übermut"], "answer": 1},
    {"question": "The sun rises in the", "choices": ["west", "east"], "answer": 1},
    {"question": "Water is made of hydrogen and", "choices": ["oxygen", "gold", "iron and a long tail of words"], "answer": 0},
]
TEXT = "The quick brown fox jumps over the lazy dog. Pack my box with five dozen liquor jugs. " * 4

# (ids before, ids) pairs on stdin, their sums of log-probabilities in float32 on stdout.
REFERENCE = """
import json, sys
import torch_without_cuda  # before torch
import torch, transformers
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
sums = []
for context, ids in json.load(sys.stdin):
    with torch.no_grad():
        logprobs = model(torch.tensor([context + ids])).logits[0].log_softmax(-1)
    rows = logprobs[len(context) - 1:-1]
    sums.append([rows.gather(1, torch.tensor(ids)[:, None]).sum().item(), bool((rows.argmax(-1) == torch.tensor(ids)).all())])
print(json.dumps(sums))
"""


def reference(pairs):
    done = subprocess.run([PYTHON, "-c", REFERENCE, MODEL], input=json.dumps(pairs), capture_output=True, text=True,
                          timeout=200, check=False, env={**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parent)})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def asked(kind, *arguments):
    return [Instance(kind, {}, one, number) for number, one in enumerate(arguments)]


CHOICES = [(document["question"], " " + choice) for document in DOCUMENTS for choice in document["choices"]]
BEGINNING, LONG = ("", "Once upon a time"), (TEXT * 6, " dog")
WINDOW = 48  # tokens, so that TEXT has several


class Harness(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = model = lockstep.lm_eval.LockstepLM(MODEL, tp=2, dtype="float32", max_length=256, threads=1)
        cls.addClassCleanup(model.close)
        context, new = model._encode_pair(*LONG)
        assert len(context) > model.max_length
        windows = get_rolling_token_windows(model.tok_encode(TEXT), model.prefix_token_id, WINDOW - 1, context_len=1)
        pairs = {"choices": [model._encode_pair(*pair) for pair in CHOICES],
                 "beginning": [([model.prefix_token_id], model.tok_encode(BEGINNING[1]))],
                 "long": [(context[-(model.max_length - len(new)):], new)],
                 "windows": [make_disjoint_window(window) for window in windows]}
        found = reference([pair for part in pairs.values() for pair in part])
        cls.expected = {name: [found.pop(0) for _ in part] for name, part in pairs.items()}

    def expect_close(self, found, expected):
        self.assertAlmostEqual(found, expected, delta=1e-4 * max(1.0, abs(expected)))

    def scores(self, *pairs):
        return self.model.loglikelihood(asked("loglikelihood", *pairs), disable_tqdm=True)

    def test_choices_have_the_numbers_of_transformers(self):
        found = self.scores(*CHOICES)
        for (score, greedy), (wanted, likeliest) in zip(found, self.expected["choices"], strict=True):
            self.expect_close(score, wanted)
            self.assertEqual(greedy, likeliest)
        for document in DOCUMENTS:
            scores = [found.pop(0)[0] for _ in document["choices"]]
            self.assertEqual(scores.index(max(scores)), document["answer"], document)

    def test_a_context_may_be_empty_or_too_long(self):
        self.expect_close(self.scores(BEGINNING)[0][0], self.expected["beginning"][0][0])
        self.expect_close(self.scores(LONG)[0][0], self.expected["long"][0][0])

    def test_a_long_text_is_scored_in_windows(self):
        whole, self.model.max_length = self.model.max_length, WINDOW
        try:
            found, = self.model.loglikelihood_rolling(asked("loglikelihood_rolling", (TEXT,)))
        finally:
            self.model.max_length = whole
        self.assertGreater(len(self.expected["windows"]), 1)
        self.expect_close(found, sum(score for score, _ in self.expected["windows"]))

    def test_texts_are_generated_until_a_stop(self):
        prompts = [("One, two, three,", {"until": [" six"], "max_gen_toks": 16}), ("The sea", {"max_gen_toks": 4}),
                   ("The capital of France is", {"until": ["\n", "."], "max_gen_toks": 12, "do_sample": False})]
        texts = self.model.generate_until(asked("generate_until", *prompts), disable_tqdm=True)
        for (context, options), text in zip(prompts, texts, strict=True):
            whole = self.model._model.complete(context, max_new_tokens=options["max_gen_toks"], do_sample=False)[0].text
            ends = [whole.find(stop) for stop in options.get("until", ()) if stop in whole]
            self.assertEqual(text, whole[:min(ends)] if ends else whole)
            self.assertTrue(text)

    def test_the_harness_knows_it_by_name(self):
        self.assertIs(get_model("lockstep"), lockstep.lm_eval.LockstepLM)
        done = subprocess.run([sys.executable, "-m", "lockstep.lm_eval", "--help"], capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("usage", done.stdout.lower())


if __name__ == "__main__":
    MODEL, PYTHON = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
