#!/usr/bin/env python3
"""Makes the goldens of the Llama family: what Hugging Face transformers computes, in float32, for random tiny models.

    python tools/make_llama_goldens.py [--only NAME] [--smollm2 models/SmolLM2-135M-Instruct]

A development tool: it needs torch, transformers, safetensors and numpy. It writes tests/model/goldens/*.json and
tests/runtime/checkpoint/goldens/rope.json, which are committed; the tests need none of these packages, because they
rebuild the same weights bit for bit from an integer hash (tests/model/hashed_weights.h is the same rule in C++):

    key   = FNV-1a 64 of "<seed>/<tensor name>"
    mix   = splitmix64's finaliser of key + (index + 1) · 0x9e3779b97f4a7c15        index: row-major element number
    unit  = (mix >> 40) / 2^23 − 1                                                  24 bits, in [−1, 1), exact in float32
    value = centre + spread · unit                                                  both roundings in float32

The pair (centre, spread) is (1, 0.5) for norm weights; for biases, the embedding, the head and all other matrices the
centre is 0 and the spread is in the golden. A seed is refused when a greedy choice was close (margin below 1e-3 of the
largest logit), so that a correct implementation cannot differ by rounding.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
import transformers

ROOT = Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests/model/goldens"
ROPE_GOLDENS = ROOT / "tests/runtime/checkpoint/goldens/rope.json"

NEW_TOKENS = 24
LOGIT_STEPS = [0, 11, 23]  # whose logits are kept: of the prompt, inside and at the end
PROMPT_LENGTHS = [1, 5, 16, 23, 40]
LEAST_MARGIN = 1e-3  # of the largest absolute logit

COMMON = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "bos_token_id": 1}

# Both dialects of config.json, and the keys that may be left out, are spread over the variants.
VARIANTS: dict[str, dict[str, Any]] = {
    "grouped_default": {
        **COMMON,
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "vocab_size": 256,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16, "max_position_embeddings": 128,
        "rms_norm_eps": 1e-05, "tie_word_embeddings": False, "eos_token_id": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "dtype": "float32",
    },
    "nine_heads_llama3_tied": {
        **COMMON,
        "hidden_size": 72, "intermediate_size": 100, "num_hidden_layers": 4, "vocab_size": 259,
        "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 16, "max_position_embeddings": 256,
        "rms_norm_eps": 1e-06, "tie_word_embeddings": True, "eos_token_id": 2,
        "rope_theta": 500000.0, "torch_dtype": "float32",
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 64},
    },
    "one_kv_head_biases_linear": {
        **COMMON,
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "vocab_size": 256,
        "num_attention_heads": 8, "num_key_value_heads": 1, "max_position_embeddings": 128,
        "rms_norm_eps": 1e-05, "tie_word_embeddings": False, "eos_token_id": None,
        "attention_bias": True, "mlp_bias": True,
        "rope_theta": 10000.0, "torch_dtype": "float32", "rope_scaling": {"type": "linear", "factor": 4.0},
    },
    "four_heads_yarn": {
        **COMMON,
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "vocab_size": 256,
        "num_attention_heads": 4, "head_dim": None, "max_position_embeddings": 128,
        "rms_norm_eps": 1e-05, "tie_word_embeddings": False, "eos_token_id": [2, 7],
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                            "original_max_position_embeddings": 32}, "dtype": "float32",
    },
}  # fmt: skip

SPREADS = {"bias": 0.25, "embedding": 1.0, "head": 0.5, "matrix": 0.25}

U64 = np.uint64


def fnv1a(text: str) -> int:
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return state


def hashed_units(seed: int, name: str, count: int) -> np.ndarray:
    """`count` numbers in [-1, 1), float32."""
    with np.errstate(over="ignore"):
        x = U64(fnv1a(f"{seed}/{name}")) + np.arange(1, count + 1, dtype=U64) * U64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
        x = x ^ (x >> U64(31))
    return ((x >> U64(40)).astype(np.int64) - 2**23).astype(np.float32) / np.float32(2**23)


def hashed_tensor(seed: int, name: str, shape: tuple[int, ...]) -> np.ndarray:
    centre, spread = 0.0, SPREADS["matrix"]
    if name.endswith("norm.weight"):
        centre, spread = 1.0, 0.5
    elif name.endswith(".bias"):
        spread = SPREADS["bias"]
    elif name == "model.embed_tokens.weight":
        spread = SPREADS["embedding"]
    elif name == "lm_head.weight":
        spread = SPREADS["head"]
    units = hashed_units(seed, name, int(np.prod(shape)))
    return (np.float32(centre) + np.float32(spread) * units).reshape(shape)


def tensor_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or hidden // heads
    q, kv = heads * width, config.get("num_key_value_heads", heads) * width
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, hidden)}

    def linear(name: str, rows: int, columns: int, bias: bool) -> None:
        shapes[f"{name}.weight"] = (rows, columns)
        if bias:
            shapes[f"{name}.bias"] = (rows,)

    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        shapes[f"{at}.input_layernorm.weight"] = shapes[f"{at}.post_attention_layernorm.weight"] = (hidden,)
        for name, rows, columns in (("q", q, hidden), ("k", kv, hidden), ("v", kv, hidden), ("o", hidden, q)):
            linear(f"{at}.self_attn.{name}_proj", rows, columns, config.get("attention_bias", False))
        for name, rows, columns in (("gate", inner, hidden), ("up", inner, hidden), ("down", hidden, inner)):
            linear(f"{at}.mlp.{name}_proj", rows, columns, config.get("mlp_bias", False))
    shapes["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocabulary, hidden)
    return shapes


def load_model(config: dict[str, Any], seed: int) -> transformers.PreTrainedModel:
    """Writes the model as a Hugging Face directory and loads it like any other."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "config.json").write_text(json.dumps(config))
        weights = {name: hashed_tensor(seed, name, shape) for name, shape in tensor_shapes(config).items()}
        safetensors.numpy.save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
        model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
        loaded = model.state_dict()
        for tensor, values in weights.items():  # nothing was renamed, dropped or initialised
            assert np.array_equal(loaded[tensor].numpy(), values), tensor
        return model.eval()


def prompts_of(config: dict[str, Any]) -> list[list[int]]:
    ids = hashed_units(0, "prompts", sum(PROMPT_LENGTHS)).astype(np.float64)
    flat = [int((unit + 1) / 2 * (config["vocab_size"] - 3)) + 3 for unit in ids]
    starts = np.cumsum([0, *PROMPT_LENGTHS])
    return [flat[begin:end] for begin, end in zip(starts, starts[1:])]


@torch.no_grad()
def greedy(model: transformers.PreTrainedModel, prompt: list[int], steps: int) -> tuple[list[int], np.ndarray]:
    """The greedy tokens and the logits [steps, vocabulary] that they were chosen from; every step is computed anew,
    without a cache."""
    ids, rows = list(prompt), []
    for _ in range(steps):
        rows.append(model(torch.tensor([ids]), use_cache=False).logits[0, -1].numpy())
        ids.append(int(rows[-1].argmax()))
    return ids[len(prompt) :], np.stack(rows)


@torch.no_grad()
def cached_greedy(model: transformers.PreTrainedModel, prompt: list[int], steps: int) -> list[int]:
    """The same tokens from generate()."""
    model.generation_config.eos_token_id = None
    out = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=steps, min_new_tokens=steps,
                         attention_mask=torch.ones(1, len(prompt), dtype=torch.long), pad_token_id=0)  # fmt: skip
    return out[0, len(prompt) :].tolist()


@torch.no_grad()
def verified_greedy(model: transformers.PreTrainedModel, prompt: list[int], steps: int) -> tuple[list[int], np.ndarray]:
    """As `greedy`, for larger models: generate() proposes, one uncached pass over all of it must choose the same."""
    tokens = cached_greedy(model, prompt, steps)
    logits = model(torch.tensor([prompt + tokens[:-1]]), use_cache=False).logits[0, len(prompt) - 1 :].numpy()
    assert logits.argmax(axis=-1).tolist() == tokens, "generate() disagrees with the uncached model"
    return tokens, logits


def margins_of(logits: np.ndarray) -> np.ndarray:
    """Distance of the best from the second best, per step."""
    best = np.sort(logits, axis=-1)
    return best[..., -1] - best[..., -2]


def significant(values: np.ndarray, digits: int = 7) -> list[Any]:
    """Numbers with few digits: enough for a tolerance of 1e-4 of the scale, and small in the file."""
    if values.ndim > 1:
        return [significant(row, digits) for row in values]
    return [float(f"{float(value):.{digits}g}") for value in values]


def versions() -> dict[str, str]:
    return {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0], "numpy": np.__version__}


def make_golden(config: dict[str, Any]) -> dict[str, Any]:
    """Tries seeds until every greedy choice is clear."""
    prompts = prompts_of(config)
    for seed in range(1, 1000):
        model = load_model(config, seed)
        runs = []
        for prompt in prompts:
            tokens, logits = greedy(model, prompt, NEW_TOKENS)
            runs.append((tokens, logits))
            if margins_of(logits).min() < LEAST_MARGIN * np.abs(logits).max():
                break
        scale = max(float(np.abs(logits).max()) for _, logits in runs)
        margin = min(float(margins_of(logits).min()) for _, logits in runs) / scale
        lively = all(len(set(tokens)) >= 6 for tokens, _ in runs)
        if len(runs) < len(prompts) or margin < LEAST_MARGIN or not lively:
            continue
        for prompt, (tokens, _) in zip(prompts, runs):
            assert cached_greedy(model, prompt, NEW_TOKENS) == tokens, "generate() disagrees with the uncached model"
        return {
            "config": config,
            "weights": {"seed": seed, **SPREADS},
            "prompts": prompts,
            "tokens": [tokens for tokens, _ in runs],
            "scale": significant(np.array([scale]))[0],
            "least_margin_of_scale": significant(np.array([margin]), 3)[0],
            "logit_steps": LOGIT_STEPS,
            "logits": [significant(logits[LOGIT_STEPS]) for _, logits in runs],
            "versions": versions(),
        }
    raise SystemExit("no seed gave clear choices; change the spreads")


# Chosen among others because no choice in 32 tokens is close.
SMOLLM2_PROMPTS: list[dict[str, Any]] = [
    {"chat": "What is the capital of France?"},
    {"chat": "日本の首都はどこですか？"},
    {"chat": "Qu’est-ce que la « crème brûlée » ? 🍮"},
    {"text": "1, 2, 3, 4, 5, 6, 7, 8,"},
]


def make_smollm2_golden(directory: Path) -> dict[str, Any]:
    """Greedy tokens of the demo model, weights and arithmetic in float32, end-of-sequence ignored."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    runs = []
    for prompt in SMOLLM2_PROMPTS:
        text = prompt.get("text")
        if text is None:
            messages = [{"role": "user", "content": prompt["chat"]}]
            text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text)["input_ids"]
        tokens, logits = verified_greedy(model, ids, 32)
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


ROPE_CASES: list[dict[str, Any]] = [
    {"rope_type": "default", "rope_theta": 10000.0},
    {"rope_type": "default", "rope_theta": 500000.0},
    {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0},
    {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 8192},
    {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
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


def make_rope_goldens() -> dict[str, Any]:
    """Inverse frequencies and scale as transformers computes them."""
    cases = []
    for rope in ROPE_CASES:
        for head_dim in (64, 20):
            config = {**COMMON, "hidden_size": 8 * head_dim, "intermediate_size": 64, "num_hidden_layers": 1,
                      "num_attention_heads": 8, "head_dim": head_dim, "vocab_size": 64, "eos_token_id": 2,
                      "max_position_embeddings": 65536, "rope_parameters": rope}  # fmt: skip
            built = transformers.LlamaConfig(**json.loads(json.dumps(config)))
            embedding = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(built)
            frequencies = [float(f"{value:.9g}") for value in embedding.inv_freq.tolist()]  # 9 digits: exact
            cases.append({"config": config, "frequencies": frequencies, "scale": float(embedding.attention_scaling)})
    return {"cases": cases, "versions": versions()}


def write(path: Path, golden: dict[str, Any]) -> None:
    """One line per key and per element of a long list: small, and differences can be read."""
    lines = []
    for key, value in golden.items():
        if isinstance(value, list) and value and isinstance(value[0], (list, dict)):
            rows = ",\n  ".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in value)
            lines.append(f'"{key}": [\n  {rows}\n]')
        else:
            lines.append(f'"{key}": {json.dumps(value, ensure_ascii=False)}')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the goldens of the Llama family.")
    parser.add_argument("--only", help="rope, smollm2 or the name of one tiny model")
    parser.add_argument("--smollm2", type=Path, default=ROOT / "models/SmolLM2-135M-Instruct")
    options = parser.parse_args()
    if options.only in (None, "rope"):
        write(ROPE_GOLDENS, make_rope_goldens())
    for name, config in VARIANTS.items():
        if options.only in (None, name):
            write(GOLDENS / f"{name}.json", make_golden(config))
    if options.only in (None, "smollm2"):
        write(GOLDENS / "smollm2.json", make_smollm2_golden(options.smollm2))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    main()
