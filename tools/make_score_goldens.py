#!/usr/bin/env python3
"""Makes the goldens of scoring: log-probabilities of the tokens of two texts by Hugging Face transformers, in float32,
for the model of every family golden and for SmolLM2.

    python tools/make_score_goldens.py [--all]

A development tool: it needs the packages of tools/make_family_goldens.py, whose goldens it reads. It writes
tests/model/goldens/scores.json, which is committed: for each model {"texts": [{"ids", "logprobs", "top_ids",
"top_logprobs"}]}, natural logarithms of softmax(logits), from the second token of a text on. It keeps the entries that
the file has; --all makes all of them again.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import transformers
from make_family_goldens import GOLDENS, ROOT, hashed_tensor, load_model, models_so_far, prompt_logits, significant, versions

TOP = 3
SMOLLM2 = ROOT / "models/SmolLM2-135M-Instruct"


def scores_of(model: Any, ids: list[int]) -> dict[str, Any]:
    logprobs = torch.log_softmax(torch.from_numpy(prompt_logits(model, ids)).double(), dim=-1)[:-1]
    best = torch.topk(logprobs, TOP, dim=-1)
    own = logprobs[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]
    return {
        "ids": ids,
        "logprobs": significant(own.numpy()),
        "top_ids": best.indices.tolist(),
        "top_logprobs": significant(best.values.numpy()),
    }


def main() -> None:
    path_of_all = GOLDENS / "scores.json"
    models = models_so_far(path_of_all)
    for path in sorted(GOLDENS.glob("family_*.json")):
        name = path.stem.removeprefix("family_")
        if name in models:
            continue
        golden = json.loads(path.read_text())
        weights = {tensor["name"]: hashed_tensor(golden["seed"], tensor) for tensor in golden["tensors"]}
        model = load_model(golden["config"], weights)
        prompts, tokens = golden["prompts"], golden["tokens"]
        models[name] = {"texts": [scores_of(model, prompts[-1] + tokens[-1]), scores_of(model, prompts[2])]}
        print(name, file=sys.stderr)
    if "smollm2" not in models:
        smollm2 = transformers.AutoModelForCausalLM.from_pretrained(SMOLLM2, dtype=torch.float32).eval()
        runs = json.loads((GOLDENS / "smollm2.json").read_text())["runs"]
        models["smollm2"] = {"texts": [scores_of(smollm2, run["prompt_ids"] + run["tokens"]) for run in runs[:2]]}
    path_of_all.write_text(json.dumps({"versions": versions(), "models": dict(sorted(models.items()))}) + "\n")


if __name__ == "__main__":
    main()
