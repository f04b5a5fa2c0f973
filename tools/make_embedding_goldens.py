#!/usr/bin/env python3
"""Makes the goldens of prompts that are embeddings: Hugging Face transformers' answers to inputs_embeds, in float32,
for the model of every family golden.

    python tools/make_embedding_goldens.py [--all]

A development tool: it needs the packages of tools/make_family_goldens.py, whose goldens it reads. It writes
tests/model/goldens/embeddings.json, which is committed: for each model {"greedy", "margin", "logits", "beams",
"penalised"}: the greedy answer, the smallest distance between its best two logits, the logits of its first step, the
best of three beams with a least length, and the greedy answer under a repetition penalty. It keeps the entries that
the file has; --all makes all of them again.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import torch
from make_family_goldens import GOLDENS, hashed_tensor, load_model, models_so_far, significant, versions

ROWS = 9  # embeddings of the prompt
NEW = 8


def hashed_rows(size: int, scale: float) -> torch.Tensor:
    """Numbers that the test computes likewise, exact in float32: below scale, which is a power of two."""
    index = np.arange(ROWS * size, dtype=np.uint64)
    hashed = (index * 2654435761 + 12345) % 2**32
    values = ((hashed >> 8).astype(np.float64) / 2**24 - 0.5) * 2 * scale
    return torch.from_numpy(values.astype(np.float32)).reshape(1, ROWS, size)


def answers_of(model: Any) -> dict[str, Any]:
    table = model.get_input_embeddings()
    size = table.weight.shape[1]
    common = table(torch.arange(16)).abs().mean().item()
    scale = 2.0 ** round(np.log2(2 * common))
    rows = hashed_rows(size, scale)
    model.generation_config.pad_token_id = 0
    model.generation_config.eos_token_id = None

    def generate(**options: Any) -> Any:
        return model.generate(
            inputs_embeds=rows,
            attention_mask=torch.ones(1, ROWS, dtype=torch.long),
            max_new_tokens=NEW,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
            **options,
        )

    greedy = generate()
    best = [torch.topk(logits[0], 2).values for logits in greedy.logits]
    return {
        "scale": scale,
        "greedy": greedy.sequences[0].tolist(),
        "margin": min((two[0] - two[1]).item() for two in best),
        "logits": significant(greedy.logits[0][0].numpy()),
        "beams": generate(num_beams=3).sequences[0].tolist(),
        "penalised": generate(repetition_penalty=1.5).sequences[0].tolist(),
    }


def main() -> None:
    path_of_all = GOLDENS / "embeddings.json"
    models = models_so_far(path_of_all)
    for path in sorted(GOLDENS.glob("family_*.json")):
        name = path.stem.removeprefix("family_")
        if name in models:
            continue
        golden = json.loads(path.read_text())
        if golden["config"].get("hidden_size_per_layer_input"):
            continue  # its layers read the tokens' ids
        weights = {tensor["name"]: hashed_tensor(golden["seed"], tensor) for tensor in golden["tensors"]}
        models[name] = answers_of(load_model(golden["config"], weights))
        print(name, models[name]["scale"], models[name]["margin"], models[name]["greedy"], file=sys.stderr)
    path_of_all.write_text(
        json.dumps({"versions": versions(), "models": dict(sorted(models.items()))}) + "\n"
    )


if __name__ == "__main__":
    main()
