#!/usr/bin/env python3
"""Makes tests/model/goldens/long_prompt.json: results of Hugging Face transformers, in float32, for a prompt of 32,768
tokens and a tiny model with one layer of full attention and one with a window.

    python tools/make_long_prompt_golden.py

A development tool like tools/make_family_goldens.py, whose checkpoints and checks it uses. The prompt is not stored:
token i is 3 + ⌊(unit + 1) / 2 · (vocabulary − 3)⌋ of the hashed unit i of "long prompt".
"""

from __future__ import annotations

import torch
import transformers
from family_variants import DENSE, NEW, Variant, default_rope, named
from make_family_goldens import GOLDENS, LEAST_MARGIN, hashed_tensor, load_model, margins_of, prompts_of, significant
from make_family_goldens import tensors_of, versions, write

LENGTH, NEW_TOKENS, CHUNK = 32768, 12, 512
LEAST_EFFECT = 1e-2  # of changed tokens at the prompt's beginning, on the logits relative to the scale
CHANGED = 2048  # of them

VARIANT = Variant("Ministral", {
    **named("ministral", "MinistralForCausalLM"), **DENSE, **NEW, "hidden_act": "silu", "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False, "max_position_embeddings": 40960, "rope_parameters": default_rope(1000000.0),
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": 1000,
    "layer_types": ["full_attention", "sliding_attention"],
})  # fmt: skip


@torch.no_grad()
def continued(model: transformers.PreTrainedModel, prompt: list[int], steps: int) -> tuple[list[int], torch.Tensor]:
    """Greedy tokens and their logits [steps, vocabulary]. The prompt is processed in chunks, because its masks would
    not fit otherwise."""
    cache = transformers.DynamicCache(config=model.config)
    for begin in range(0, len(prompt), CHUNK):
        out = model(torch.tensor([prompt[begin : begin + CHUNK]]), past_key_values=cache, logits_to_keep=1)
    tokens, logits = [], []
    for _ in range(steps):
        logits.append(out.logits[0, -1])
        tokens.append(int(logits[-1].argmax()))
        out = model(torch.tensor([[tokens[-1]]]), past_key_values=cache)
    return tokens, torch.stack(logits)


def main() -> None:
    tensors = tensors_of(VARIANT)
    vocabulary = VARIANT.config["vocab_size"]
    [prompt] = prompts_of(vocabulary, [LENGTH], "long prompt")
    for seed in range(1, 100):
        model = load_model(VARIANT.config, {tensor["name"]: hashed_tensor(seed, tensor) for tensor in tensors})
        tokens, logits = continued(model, prompt, NEW_TOKENS)
        scale = float(logits.abs().max())
        margin = float(margins_of(logits.numpy()).min()) / scale
        print(f"seed {seed}: tokens {tokens}, least margin {margin:.2g} of the scale", flush=True)
        if margin < LEAST_MARGIN or len(set(tokens)) < NEW_TOKENS // 3:
            continue
        _, changed = continued(model, prompt[CHANGED - 1 :: -1] + prompt[CHANGED:], 1)
        effect = float((changed[0] - logits[0]).abs().max()) / scale
        print(f"  the first {CHANGED} tokens turned round move the logits by {effect:.2g} of the scale")
        if effect < LEAST_EFFECT:
            continue
        write(GOLDENS / "long_prompt.json", {
            "family": VARIANT.family, "config": VARIANT.config, "seed": seed, "tensors": tensors,
            "prompt_length": LENGTH, "tokens": tokens, "scale": significant(logits.abs().max().reshape(1).numpy())[0],
            "least_margin_of_scale": float(f"{margin:.3g}"), "logits": significant(logits[:1].numpy()),
            "versions": versions(),
        })  # fmt: skip
        return
    raise SystemExit("no seed gave clear choices")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    main()
