#!/usr/bin/env python3
"""Writes the results of Hugging Face's logits processors for small random scores.

    python tools/make_sampling_goldens.py > tests/runtime/sampling/goldens.json

Needs torch and transformers. Scores are multiples of 1/64, so ties occur and JSON holds them exactly. A case is omitted
when a slightly different parameter keeps other tokens, because the last bit of a softmax would decide.
"""

import json
import random
import sys

import torch
import transformers
from transformers.generation import logits_process

VOCABULARY = 24
CASES = 80


def random_case(rng):
    spread = rng.choice([1, 2, 6, 12])
    return {
        "logits": [round(rng.gauss(0, spread) * 64) / 64 for _ in range(VOCABULARY)],
        "seen": [rng.random() < 0.3 for _ in range(VOCABULARY)],
        "repetition_penalty": rng.choice([1.0, 1.3, 0.75]),
        "temperature": rng.choice([1.0, 0.5, 1.75]),
        "top_k": rng.choice([0, 0, 1, 5, 20, 40]),
        "top_p": rng.choice([1.0, 1.0, 0.95, 0.9, 0.5, 0.1]),
        "min_p": rng.choice([0.0, 0.0, 0.05, 0.3]),
        "typical_p": rng.choice([1.0, 0.95, 0.6, 0.2]),
        "epsilon_cutoff": rng.choice([0.0, 0.02, 0.2, 0.7]),
        "eta_cutoff": rng.choice([0.0, 0.02, 0.2, 0.7]),
    }


def processors(case):
    yield "repetition_penalty", 1.0, logits_process.RepetitionPenaltyLogitsProcessor
    yield "temperature", 1.0, logits_process.TemperatureLogitsWarper
    yield "top_k", 0, logits_process.TopKLogitsWarper
    yield "top_p", 1.0, logits_process.TopPLogitsWarper
    yield "min_p", 0.0, logits_process.MinPLogitsWarper
    yield "typical_p", 1.0, logits_process.TypicalLogitsWarper
    yield "epsilon_cutoff", 0.0, logits_process.EpsilonLogitsWarper
    yield "eta_cutoff", 0.0, logits_process.EtaLogitsWarper


def hangs_on_a_bit(case, name, processor, seen, scores, processed):
    for factor in (1 - 1e-5, 1 + 1e-5):
        if name in ("top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"):
            other = processor(case[name] * factor)(seen, scores)
            if not torch.equal(other.isneginf(), processed.isneginf()):
                return True
    return False


def process(case):
    """The processed scores, -inf as None; None for the whole case if it depends on a last bit."""
    scores = torch.tensor([case["logits"]], dtype=torch.float32)
    seen = torch.tensor([[i for i, was_seen in enumerate(case["seen"]) if was_seen]], dtype=torch.long)
    for name, neutral, processor in processors(case):
        if case[name] == neutral or (name == "repetition_penalty" and seen.numel() == 0):
            continue
        processed = processor(case[name])(seen, scores)
        if hangs_on_a_bit(case, name, processor, seen, scores, processed):
            return None
        scores = processed
    return [None if score == float("-inf") else score for score in scores[0].tolist()]


def main():
    rng = random.Random(20)
    cases = []
    while len(cases) < CASES:
        case = random_case(rng)
        case["scores"] = process(case)
        if case["scores"] is not None:
            cases.append(case)
    golden = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0], "cases": cases}
    lines = ",\n".join(json.dumps(case) for case in cases)
    head = json.dumps({k: v for k, v in golden.items() if k != "cases"})[:-1]
    sys.stdout.write(f'{head}, "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
