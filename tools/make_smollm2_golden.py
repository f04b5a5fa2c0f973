#!/usr/bin/env python3
"""Makes tests/model/goldens/smollm2.json: the demo model's continuations of a few prompts in Hugging Face transformers.

    python tools/make_smollm2_golden.py [models/SmolLM2-135M-Instruct]

A development tool; it needs the packages of tools/make_family_goldens.py.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from make_family_goldens import (
    GOLDENS,
    LEAST_MARGIN,
    ROOT,
    cached_greedy,
    margins_of,
    prompt_logits,
    significant,
    versions,
    write,
)

# Selected because no choice in 32 tokens is close.
SMOLLM2_PROMPTS: list[dict[str, Any]] = [
    {"chat": "What is the capital of France?"},
    {"chat": "日本の首都はどこですか？"},
    {"chat": "Qu’est-ce que la « crème brûlée » ? 🍮"},
    {"text": "1, 2, 3, 4, 5, 6, 7, 8,"},
]


def make_smollm2_golden(directory: Path) -> dict[str, Any]:
    """Greedy tokens of the demo model, weights and arithmetic in float32, end-of-sequence ignored. One uncached pass
    over all tokens must choose the same as generate()."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    runs = []
    for prompt in SMOLLM2_PROMPTS:
        text = prompt.get("text")
        if text is None:
            messages = [{"role": "user", "content": prompt["chat"]}]
            text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text)["input_ids"]
        tokens = cached_greedy(model, ids, 32)
        logits = prompt_logits(model, ids + tokens[:-1])[len(ids) - 1 :]
        assert logits.argmax(axis=-1).tolist() == tokens, "generate() disagrees with the uncached model"
        margin = float(margins_of(logits).min() / np.abs(logits).max())
        print(f"  {prompt}: margin {margin:.2g}, {tokenizer.decode(tokens)!r}", file=sys.stderr)
        top = np.argsort(-logits[0], kind="stable")[:16]
        runs.append({
            "prompt": prompt,
            "prompt_ids": ids,
            "tokens": tokens,
            "text": tokenizer.decode(tokens, skip_special_tokens=False),
            "scale": significant(np.array([np.abs(logits).max()]))[0],
            "margins": significant(margins_of(logits), 4),
            "first_step_top": {"ids": top.tolist(), "logits": significant(logits[0][top])},
        })  # fmt: skip
        assert margin > LEAST_MARGIN, f"a choice is too close to be a golden: {prompt}"
    return {"runs": runs, "versions": versions()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the golden of the demo model.")
    parser.add_argument("model", type=Path, nargs="?", default=ROOT / "models/SmolLM2-135M-Instruct")
    write(GOLDENS / "smollm2.json", make_smollm2_golden(parser.parse_args().model))


if __name__ == "__main__":
    main()
