#!/usr/bin/env python3
"""Makes the goldens of rotary embeddings: inverse frequencies and scales of Hugging Face transformers.

    python tools/make_rope_goldens.py

A development tool: it needs torch and transformers. It writes tests/runtime/checkpoint/goldens/rope.json, which is
committed. Each case is a config.json and the contents of the model's rotary embedding after reading it, so that keys,
defaults and formulas are compared at once; `long_frequencies` are those of rows beyond the original maximum (longrope),
`local_frequencies` those of layers with a window (Gemma 3).
"""

from __future__ import annotations

import copy
import importlib
import json
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

GOLDENS = Path(__file__).resolve().parent.parent / "tests/runtime/checkpoint/goldens/rope.json"

# Every kind, in the widths 64 and 20.
LLAMA_ROPES: list[dict[str, Any]] = [
    {"rope_type": "default", "rope_theta": 10000.0},
    {"rope_type": "default", "rope_theta": 500000.0},
    {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0},
    {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 8192},
    {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0,
     "original_max_position_embeddings": 8192},
    {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 16.0, "original_max_position_embeddings": 4096},
    {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "original_max_position_embeddings": 4096,
     "truncate": False, "beta_fast": 32.0, "beta_slow": 1.0},
    {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "original_max_position_embeddings": 4096,
     "mscale": 1.0, "mscale_all_dim": 0.5},
    {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "original_max_position_embeddings": 4096,
     "mscale": 0.7, "mscale_all_dim": 0.0},
    {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 32768,
     "attention_factor": 0.75, "beta_fast": 24.0, "beta_slow": 2.0},
    {"rope_type": "yarn", "rope_theta": 10000.0, "factor": None, "original_max_position_embeddings": 4096},
    {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16},
]  # fmt: skip

SIZES = {"hidden_size": 256, "intermediate_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 64, "eos_token_id": 2, "bos_token_id": 1,
         "pad_token_id": 0}  # fmt: skip
NEOX = {key: value for key, value in SIZES.items() if key != "num_key_value_heads"}
SHORT = [1.0 + i / 16 for i in range(32)]
LONG = [1.0 + i * i / 4 for i in range(32)]

# Defaults, aliases and both dialects of the families.
FAMILY_CONFIGS: list[dict[str, Any]] = [
    {"model_type": "mistral", **SIZES},
    {"model_type": "mixtral", **SIZES},
    {"model_type": "qwen2", **SIZES, "rope_theta": 1000000.0,
     "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
    {"model_type": "gpt_neox", **NEOX},
    {"model_type": "gpt_neox", **NEOX, "rotary_pct": 0.5, "rotary_emb_base": 25000,
     "rope_scaling": {"type": "linear", "factor": 2.0}},
    {"model_type": "gpt_neox", **NEOX, "rope_theta": 7.0, "partial_rotary_factor": 1.0,
     "rope_parameters": {"rope_type": "default", "rope_theta": 25000, "partial_rotary_factor": 0.5}},
    {"model_type": "phi3", **SIZES, "partial_rotary_factor": 0.75},
    {"model_type": "phi3", **SIZES, "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
     "rope_scaling": {"type": "longrope", "short_factor": SHORT, "long_factor": LONG}},
    {"model_type": "phi3", **SIZES, "max_position_embeddings": 131072, "partial_rotary_factor": 0.75,
     "rope_theta": 25000.0, "rope_scaling": {"type": "su", "short_factor": SHORT[:24], "long_factor": LONG[:24],
                                             "original_max_position_embeddings": 2048}},
    {"model_type": "phi3", **SIZES, "max_position_embeddings": 8192, "original_max_position_embeddings": 512,
     "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "short_factor": SHORT, "long_factor": LONG,
                         "factor": 2.0}},
    {"model_type": "phi3", **SIZES, "original_max_position_embeddings": 512,
     "rope_parameters": {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG, "attention_factor": 1.5}},
    {"model_type": "phi3", **SIZES, "max_position_embeddings": 2048,
     "rope_parameters": {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG}},
    {"model_type": "gemma2", **SIZES, "head_dim": 32},
    {"model_type": "gemma3_text", **SIZES, "head_dim": 32},
    {"model_type": "gemma3_text", **SIZES, "head_dim": 32, "rope_theta": 500000.0, "rope_local_base_freq": 5000.0,
     "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    {"model_type": "gemma3_text", **SIZES, "head_dim": 32,
     "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500000.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}}},
    {"model_type": "gpt_oss", **SIZES},
    {"model_type": "gpt_oss", **SIZES, "rope_theta": 1000.0},
    {"model_type": "gpt_oss", **SIZES, "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "truncate": False,
                                                           "original_max_position_embeddings": 4096}},
    {"model_type": "gptj", "n_embd": 256, "n_layer": 2, "n_head": 4, "rotary_dim": 24, "vocab_size": 64},
]  # fmt: skip


def llama_configs() -> list[dict[str, Any]]:
    return [
        {"model_type": "llama", "hidden_size": 8 * head_dim, "intermediate_size": 64, "num_hidden_layers": 1,
         "num_attention_heads": 8, "head_dim": head_dim, "vocab_size": 64, "eos_token_id": 2,
         "max_position_embeddings": 65536, "rope_parameters": rope}
        for rope in LLAMA_ROPES
        for head_dim in (64, 20)
    ]  # fmt: skip


def exact(values: torch.Tensor) -> list[float]:
    return [float(f"{value:.9g}") for value in values.tolist()]  # nine digits distinguish all float32


def gptj_frequencies(config: transformers.GPTJConfig) -> torch.Tensor:
    """GPT-J stores no frequencies, only sines and cosines, so this uses the angles of position 1."""
    table = transformers.models.gptj.modeling_gptj.create_sinusoidal_positions(2, config.rotary_dim)[1].double()
    sine, cosine = table.chunk(2)
    return torch.atan2(sine, cosine).float()


def make_case(config: dict[str, Any]) -> dict[str, Any]:
    built = transformers.AutoConfig.for_model(**copy.deepcopy(config))
    case: dict[str, Any] = {"config": config}
    if built.model_type == "gptj":
        return {**case, "frequencies": exact(gptj_frequencies(built)), "scale": 1.0}
    folder = "gemma3" if built.model_type == "gemma3_text" else built.model_type
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    name = next(name for name in vars(module) if name.endswith("RotaryEmbedding"))
    rotary = getattr(module, name)(built)
    if built.model_type == "gemma3_text":
        case["frequencies"] = exact(rotary.full_attention_inv_freq)
        case["local_frequencies"] = exact(rotary.sliding_attention_inv_freq)
        return {**case, "scale": float(rotary.full_attention_attention_scaling)}
    case["frequencies"] = exact(rotary.inv_freq)
    if rotary.rope_type == "longrope":
        long, scale = ROPE_INIT_FUNCTIONS["longrope"](built, torch.device("cpu"), seq_len=2**30)
        assert scale == rotary.attention_scaling
        case["long_frequencies"] = exact(long)
    return {**case, "scale": float(rotary.attention_scaling)}


def main() -> None:
    cases = [make_case(config) for config in llama_configs() + FAMILY_CONFIGS]
    rows = ",\n  ".join(json.dumps(case, separators=(",", ":")) for case in cases)
    versions = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    GOLDENS.write_text(f'{{\n"cases": [\n  {rows}\n],\n"versions": {json.dumps(versions)}\n}}\n', encoding="utf-8")
    print(f"{GOLDENS.name}: {len(cases)} cases, {GOLDENS.stat().st_size} bytes")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    main()
