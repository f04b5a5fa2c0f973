#!/usr/bin/env python3
"""Makes tests/model/goldens/smollm2_options.json: answers of Hugging Face's generate() with options.

    python tools/make_smollm2_options_golden.py [models/SmolLM2-135M-Instruct]

The model is the demo model. A development tool; it needs the packages of tools/make_family_goldens.py. The options have
generate()'s names; the tests translate them to the command line's. Rows are computed separately, in float32. An answer
is refused when noise of 1e-4 of the largest logit changes it: a correct implementation cannot differ by rounding.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from make_family_goldens import GOLDENS, ROOT, significant, versions, write

FRANCE, JAPAN, BREAD = (
    "What is the capital of France?",
    "Name three cities of Japan.",
    "How do I bake bread?",
)  # fmt: skip
NOISE, DISTURBED_RUNS = 1e-4, 2
SHOWN_SCORES = 8

# name, chat messages or a text, options
CASES: list[dict[str, Any]] = [
    {"name": "three beams, two answers", "chats": [FRANCE, BREAD],
     "options": {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 1.5, "early_stopping": True,
                 "max_new_tokens": 16}},
    {"name": "four beams that never stop early and repeat no pair", "chats": [JAPAN],
     "options": {"num_beams": 4, "num_return_sequences": 4, "length_penalty": 0.3, "early_stopping": "never",
                 "no_repeat_ngram_size": 2, "max_new_tokens": 20}},
    {"name": "no trigram twice", "texts": ["1, 2, 3, 1, 2,", "the cat the cat the cat the"],
     "options": {"no_repeat_ngram_size": 3, "max_new_tokens": 24}},
    {"name": "repetition penalty", "chats": [JAPAN, BREAD],
     "options": {"repetition_penalty": 1.3, "max_new_tokens": 24}},
    {"name": "no end before twenty tokens", "chats": [FRANCE, JAPAN],
     "options": {"min_new_tokens": 20, "max_new_tokens": 28}},
    {"name": "guidance away from a negative prompt", "texts": ["Today the weather is", "My favourite animal is"],
     "negative": "The sun shines and", "options": {"guidance_scale": 1.8, "max_new_tokens": 16}},
    {"name": "guidance without a negative prompt", "texts": ["Today the weather is"],
     "options": {"guidance_scale": 1.4, "max_new_tokens": 16}},
    {"name": "bad words", "chats": [FRANCE],
     "options": {"bad_words_ids": [[7042], [260, 5356], [30]], "max_new_tokens": 24}},
    {"name": "biases, suppressed tokens and a forced end", "texts": ["1, 2, 3, 4, 5,"],
     "options": {"sequence_bias": [[[216], -6.0], [[28, 216], 3.0]], "suppress_tokens": [38, 39],
                 "begin_suppress_tokens": [216], "exponential_decay_length_penalty": [4, 1.1],
                 "renormalize_logits": True, "forced_eos_token_id": 2, "max_new_tokens": 12}},
    {"name": "what a token is drawn from", "chats": [BREAD],
     "options": {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.2,
                 "max_new_tokens": 1}},
    {"name": "what a token is drawn from, by other filters", "chats": [JAPAN],
     "options": {"do_sample": True, "temperature": 1.5, "top_k": 0, "min_p": 0.02, "typical_p": 0.9,
                 "epsilon_cutoff": 0.001, "max_new_tokens": 1}},
]  # fmt: skip


class Noise:
    """Noise added to the logits of a model while in use; the same seed gives the same noise."""

    def __init__(self, model: transformers.PreTrainedModel, seed: int) -> None:
        self._model = model
        self._random = torch.Generator().manual_seed(seed)

    def _add(self, _module: Any, _inputs: Any, logits: torch.Tensor) -> torch.Tensor:
        noise = torch.rand(logits.shape, generator=self._random) * 2 - 1
        return logits + NOISE * logits.abs().max() * noise

    def __enter__(self) -> None:
        self._hook = self._model.lm_head.register_forward_hook(self._add)

    def __exit__(self, *_: Any) -> None:
        self._hook.remove()


def without_padding(tokens: list[int], end: int) -> list[int]:
    return tokens[: tokens.index(end) + 1] if end in tokens else tokens


def shown_scores(scores: torch.Tensor) -> dict[str, Any]:
    """The best of a step's processed scores [vocabulary], and how many are minus infinity."""
    finite = int(torch.isfinite(scores).sum())
    best = torch.topk(scores, min(SHOWN_SCORES, finite))
    return {"masked": len(scores) - finite, "ids": best.indices.tolist(), "scores": significant(best.values.numpy())}


@torch.no_grad()
def answer(
    model: transformers.PreTrainedModel, ids: list[int], options: dict[str, Any], **inputs: Any
) -> dict[str, Any]:
    """The result of generate() for one row."""
    torch.manual_seed(0)
    out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), **inputs,
                         **{"do_sample": False, **options}, return_dict_in_generate=True, output_scores=True,
                         output_logits=True)  # fmt: skip
    end = model.generation_config.eos_token_id
    sequences = [without_padding(row[len(ids) :].tolist(), end) for row in out.sequences]
    made = {"sequences": sequences, "scale": float(torch.stack(out.logits).abs().max())}
    if options.get("num_beams", 1) > 1:
        made["sequences_scores"] = significant(out.sequences_scores.numpy())
    else:
        made["first_scores"] = shown_scores(out.scores[0][0])
        if not options.get("do_sample"):
            made["last_scores"] = shown_scores(out.scores[len(sequences[0]) - 1][0])
    return made


def assert_clear(model: transformers.PreTrainedModel, name: str, ids: list[int], options: dict[str, Any],
                 made: dict[str, Any], **inputs: Any) -> None:  # fmt: skip
    for seed in range(DISTURBED_RUNS):
        with Noise(model, seed):
            other = answer(model, ids, options, **inputs)
        if options.get("do_sample"):  # the sampled token is random, the distribution is not
            kept = [set(run["first_scores"]["ids"]) for run in (made, other)]
            clear = kept[0] == kept[1] and made["first_scores"]["masked"] == other["first_scores"]["masked"]
        else:
            clear = made["sequences"] == other["sequences"]
        assert clear, f"{name}: a little noise gives another answer"


def make_case(model: transformers.PreTrainedModel, tokenizer: Any, case: dict[str, Any]) -> dict[str, Any]:
    texts = case.get("texts") or [
        tokenizer.apply_chat_template([{"role": "user", "content": chat}], add_generation_prompt=True, tokenize=False)
        for chat in case["chats"]
    ]
    inputs = {}
    if "negative" in case:
        inputs["negative_prompt_ids"] = torch.tensor([tokenizer(case["negative"])["input_ids"]])
    plain = {"max_new_tokens": case["options"]["max_new_tokens"]}
    rows, changed = [], False
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        made = answer(model, ids, case["options"], **inputs)
        print(f"  {case['name']}: {[tokenizer.decode(tokens) for tokens in made['sequences']]}", file=sys.stderr)
        assert_clear(model, case["name"], ids, case["options"], made, **inputs)
        changed |= made["sequences"] != answer(model, ids, plain)["sequences"]
        rows.append({"prompt_ids": ids, **made, "scale": significant(np.array([made["scale"]]))[0]})
    assert changed, f"{case['name']}: the options change nothing"
    return {"name": case["name"], "options": case["options"], "negative": case.get("negative"), "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the golden of the demo model's answers with options.")
    parser.add_argument("model", type=Path, nargs="?", default=ROOT / "models/SmolLM2-135M-Instruct")
    directory = parser.parse_args().model
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    golden = {"cases": [make_case(model, tokenizer, case) for case in CASES], "versions": versions()}
    write(GOLDENS / "smollm2_options.json", golden)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    main()
