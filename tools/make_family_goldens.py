#!/usr/bin/env python3
"""Makes the goldens of every model family: results of Hugging Face transformers, in float32, for random tiny models.

    python tools/make_family_goldens.py [--only NAME …]

A development tool: it needs torch, transformers, safetensors and numpy. tools/family_variants.py has the models; this
tool writes tests/model/goldens/family_*.json, which are committed. The tests need none of these packages, because they
rebuild the same checkpoint byte for byte from an integer hash and the golden's list "tensors"
(tests/model/hashed_weights.h has the same rule in C++):

    key   = FNV-1a 64 of "<seed>/<tensor name>"
    mix   = splitmix64's finaliser of key + (index + 1) · 0x9e3779b97f4a7c15        index: row-major element number
    unit  = (mix >> 40) / 2^23 − 1                                              24 bits, in [−1, 1), exact in float32
    F32:  value = centre + spread · unit                                            both roundings in float32
    U8:   value = lowest + (mix >> 40) mod (highest − lowest + 1)

Library defaults hide errors (norms of 1, biases of 0, flat logits), so every tensor is random. A seed is refused when a
greedy choice was close (margin below 1e-3 of the largest logit): a correct implementation cannot differ by rounding.
A golden is refused when a config key that should matter does not; the tool prints the tensors that hardly matter.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch
import transformers
from family_variants import VARIANTS, Variant
from hashed_tensors import Tensor, hashed_tensor, hashed_units

ROOT = Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests/model/goldens"

NEW_TOKENS = 24
LOGIT_STEPS = [0, 11, 23]  # steps with recorded logits: of the prompt, in the middle and at the end
PROMPT_LENGTHS = [1, 5, 8, 16, 23, 40]  # below, at and above the window; below and above longrope's original maximum
LONG_PROMPT, LONG_STEPS = 71, 180
LEAST_MARGIN = 1e-3  # of the largest absolute logit
MOST_REPEATS, LEAST_DIFFERENT, LEAST_ANSWERS = 12, 5, 12  # tokens of a run, and of all
LEAST_EFFECT = 2e-4  # of the same, of a config key that matters: twice the tests' tolerance

# Sharp attention and layers that outweigh the embedding; otherwise a model repeats its last token.
SPREADS = {"bias": 0.25, "embedding": 0.5, "positions": 0.5, "head": 0.5, "attention": 0.4, "matrix": 0.3, "sinks": 1.5}
TIED_SPREADS = {"embedding": 0.2, "positions": 0.3}
GEMMA_SPREADS = {"embedding": 0.1}  # the model multiplies it by 8
ATTENTION = ("q_proj", "q_b_proj", "k_proj", "c_attn", "query_key_value", "qkv_proj")
MXFP4_SCALES = [119, 123]  # exponents − 127


def distribution(variant: Variant, name: str, spreads: dict[str, float]) -> tuple[float, float]:
    """(centre, spread) of the tensor called `name`."""
    leaf = name.removesuffix(".weight").rpartition(".")[2]
    if leaf == "A_log":
        return -2.0, 1.0  # states that last for about 10 tokens, some of them for 100
    if leaf == "conv1d":
        return 0.0, 1.0
    if leaf == "norm" and "linear_attn" in name:
        return 1.0, 0.5
    if name.endswith("bias"):
        return 0.0, spreads["bias"]
    if "norm" in leaf or leaf.startswith("ln_") or leaf in ("layer_scalar", "correct_output_scale"):
        # Gemma 2 and 3, Nemotron and Qwen 3.5 multiply by 1 + weight
        return (0.0 if variant.family.startswith(("Gemma 2", "Gemma 3 text", "Nemotron", "Qwen3.5", "Qwen3-Next")) else 1.0), 0.5
    if leaf in ("wpe", "embed_positions"):
        return 0.0, spreads["positions"]
    if leaf in ("wte", "embed_tokens", "embed_tokens_per_layer", "embed_in", "word_embeddings"):
        return 0.0, spreads["embedding"]
    if leaf in ("lm_head", "embed_out"):
        return 0.0, spreads["head"]
    if leaf in ATTENTION:
        return 0.0, spreads["attention"]
    return 0.0, spreads["sinks" if leaf == "sinks" else "matrix"]


def model_class(config: dict[str, Any]) -> type[transformers.PreTrainedModel]:
    """By name: AutoModelForCausalLM knows Mistral 4 only as a part of a multimodal model."""
    return getattr(transformers, config["architectures"][0])


def new_model(config: dict[str, Any]) -> transformers.PreTrainedModel:
    """With the weights of a new model, on torch's default device."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "config.json").write_text(json.dumps(config))
        return model_class(config)._from_config(transformers.AutoConfig.from_pretrained(name))


def shapes_as_saved(config: dict[str, Any], original_format: bool) -> dict[str, list[int]]:
    """The form that transformers itself writes."""
    plain = {key: value for key, value in config.items() if key != "quantization_config"}
    with tempfile.TemporaryDirectory() as name:
        new_model(plain).save_pretrained(name, save_original_format=original_format)
        with safetensors.safe_open(Path(name) / "model.safetensors", "np") as file:
            return {key: file.get_slice(key).get_shape() for key in file.keys()}


def without_prefix(shapes: dict[str, list[int]]) -> dict[str, list[int]]:
    """The form of the hub's first GPT-2, OPT and BLOOM checkpoints: saved from the model without the head."""
    return {name.removeprefix("transformer.").removeprefix("model."): shape for name, shape in shapes.items()}


OLD_BUFFERS = (".attn.bias", ".attention.bias", ".masked_bias")


def old_buffers(shapes: dict[str, list[int]], config: dict[str, Any]) -> list[Tensor]:
    """Unused constants that early versions saved with the weights."""
    names = {
        "gpt2": ("ln_1.weight", "attn.bias", None),
        "gptj": ("ln_1.weight", "attn.bias", "attn.masked_bias"),
        "gpt_neox": ("input_layernorm.weight", "attention.bias", "attention.masked_bias"),
    }.get(config["model_type"])
    if names is None:
        return []
    positions = config.get("n_positions") or config["max_position_embeddings"]
    tensors = []
    for layer in [name.removesuffix(names[0]) for name in shapes if name.endswith(names[0])]:
        tensors.append({"name": layer + names[1], "shape": [1, 1, positions, positions], "dtype": "U8", "lowest": 0,
                        "highest": 1})  # fmt: skip
        if names[2]:
            tensors.append({"name": layer + names[2], "shape": [], "dtype": "F32", "centre": -1e9, "spread": 0.0})
    return tensors


def mxfp4_parts(name: str, shape: list[int]) -> list[Tensor]:
    """The experts' weights [E, in, out] in gpt-oss's form: per 32 of `in`, 16 bytes of two values each and an
    exponent."""
    experts, inner, outer = shape
    lowest, highest = MXFP4_SCALES
    return [
        {"name": f"{name}_blocks", "shape": [experts, outer, inner // 32, 16], "dtype": "U8", "lowest": 0,
         "highest": 255},
        {"name": f"{name}_scales", "shape": [experts, outer, inner // 32], "dtype": "U8", "lowest": lowest,
         "highest": highest},
    ]  # fmt: skip


def tensors_of(variant: Variant) -> list[Tensor]:
    """Every tensor of the checkpoint, in the order of writing."""
    shapes = shapes_as_saved(variant.config, original_format=variant.stored != "packed")
    if variant.stored == "bare":
        shapes = without_prefix(shapes)
    tied = not any(name in ("lm_head.weight", "embed_out.weight") for name in shapes)
    gemma = variant.family.startswith("Gemma")
    spreads = {**SPREADS, **(TIED_SPREADS if tied else {}), **(GEMMA_SPREADS if gemma else {}), **variant.spreads}
    tensors: list[Tensor] = []
    for name, shape in shapes.items():
        if variant.stored == "mxfp4" and name.endswith(("gate_up_proj", "down_proj")):
            tensors += mxfp4_parts(name, shape)
            continue
        centre, spread = distribution(variant, name, spreads)
        tensors.append({"name": name, "shape": shape, "dtype": "F32", "centre": centre, "spread": spread})
    if variant.stored in ("bare", "old_buffers"):
        tensors += old_buffers(shapes, variant.config)
    return tensors


def write_model(directory: Path, config: dict[str, Any], weights: dict[str, np.ndarray]) -> None:
    """As a Hugging Face directory."""
    (directory / "config.json").write_text(json.dumps(config))
    safetensors.numpy.save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})


def load_model(config: dict[str, Any], weights: dict[str, np.ndarray]) -> transformers.PreTrainedModel:
    """Writes the model and loads it like any other."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_model(directory, config, weights)
        model, loading = model_class(config).from_pretrained(
            directory, dtype=torch.float32, output_loading_info=True)  # fmt: skip
        loading["unexpected_keys"] = [key for key in loading["unexpected_keys"] if not key.endswith(OLD_BUFFERS)]
        assert not any(loading.values()), loading
        return model.eval()


def assert_all_was_loaded(
    variant: Variant, model: transformers.PreTrainedModel, weights: dict[str, np.ndarray]
) -> None:
    """Checks that transformers saves what it loaded: nothing was renamed, dropped or initialised."""
    if variant.stored == "mxfp4":
        return  # it saves decoded weights
    with tempfile.TemporaryDirectory() as name:
        model.save_pretrained(name, save_original_format=variant.stored != "packed")
        saved = safetensors.numpy.load_file(Path(name) / "model.safetensors")
    if variant.stored == "bare":
        saved = without_prefix(saved)
    for tensor, values in saved.items():
        assert np.array_equal(weights[tensor], values), tensor


def prompts_of(vocabulary: int, lengths: list[int], name: str) -> list[list[int]]:
    units = hashed_units(0, name, sum(lengths)).astype(np.float64)
    flat = [int((unit + 1) / 2 * (vocabulary - 3)) + 3 for unit in units]
    starts = np.cumsum([0, *lengths])
    return [flat[begin:end] for begin, end in zip(starts, starts[1:])]


@torch.no_grad()
def prompt_logits(model: transformers.PreTrainedModel, ids: list[int]) -> np.ndarray:
    """[len(ids), vocabulary], without a cache and for this row alone, because longrope chooses by the longest row of a
    batch."""
    return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def clear_greedy(
    model: transformers.PreTrainedModel, prompt: list[int], steps: int, most_repeats: int
) -> tuple[list[int], np.ndarray] | None:
    """The greedy tokens and their logits [steps, vocabulary]; every step is computed without a cache. None if a choice
    was close, or always the same."""
    ids, rows = list(prompt), []
    for _ in range(steps):
        rows.append(prompt_logits(model, ids)[-1])
        if margins_of(rows[-1]) < LEAST_MARGIN * np.abs(rows[-1]).max():
            return None
        ids.append(int(rows[-1].argmax()))
        if len(rows) > most_repeats and len(set(ids[-most_repeats - 1 :])) == 1:
            return None
    return ids[len(prompt) :], np.stack(rows)


@torch.no_grad()
def cached_greedy(model: transformers.PreTrainedModel, prompt: list[int], steps: int) -> list[int]:
    """The same tokens from generate()."""
    model.generation_config.eos_token_id = None
    out = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=steps, min_new_tokens=steps,
                         attention_mask=torch.ones(1, len(prompt), dtype=torch.long), pad_token_id=0)  # fmt: skip
    return out[0, len(prompt) :].tolist()


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


def effect(model: transformers.PreTrainedModel, ids: list[int], expected: np.ndarray) -> float:
    """How far the logits of `ids` are from `expected`, as a part of the scale."""
    return float(np.abs(prompt_logits(model, ids) - expected).max() / np.abs(expected).max())


def assert_keys_matter(variant: Variant, weights: dict[str, np.ndarray], ids: list[int], expected: np.ndarray) -> None:
    for key, other in variant.matters.items():
        config = {**variant.config, key: other}
        if other is None and key != "sliding_window" and not key.endswith("softcapping"):
            del config[key]
        size = effect(load_model(config, weights), ids, expected)
        assert size > LEAST_EFFECT, f"{key} hardly matters: {size:.2g} of the scale"
        print(f"  {key} {other}: logits move by {size:.2g} of the scale", file=sys.stderr)


@torch.no_grad()
def report_idle_tensors(name: str, model: transformers.PreTrainedModel, ids: list[int], expected: np.ndarray) -> None:
    """Prints the parameters whose errors the golden would not detect. A bias on unrotated keys is one."""
    for parameter, values in model.named_parameters():
        kept = values.clone()
        values.copy_(torch.flip(kept, [0]) if kept.shape[0] > 1 else 1.5 * kept)
        size = effect(model, ids, expected)
        values.copy_(kept)
        if size < LEAST_MARGIN:
            print(f"  {name}: {parameter} turned round moves the logits by {size:.1g} of the scale", file=sys.stderr)


def models_so_far(path: Path) -> dict[str, Any]:
    """The models in a golden of all families; none with --all on the command line, which makes them again."""
    return {} if "--all" in sys.argv[1:] else json.loads(path.read_text())["models"]


def window_of(config: transformers.PretrainedConfig) -> str:
    """The layers with a window, for docs/support.md."""
    if not getattr(config, "sliding_window", None):
        return "none"
    kinds = set(getattr(config, "layer_types", None) or ["sliding_attention"])
    return "every layer" if kinds == {"sliding_attention"} else "some layers" if len(kinds) > 1 else "none"


def make_golden(name: str, variant: Variant) -> dict[str, Any]:
    """Tries seeds until every greedy choice is clear."""
    tensors = tensors_of(variant)
    vocabulary = variant.config["vocab_size"]
    jobs = [(prompt, NEW_TOKENS) for prompt in prompts_of(vocabulary, PROMPT_LENGTHS, "prompts")]
    if variant.long_run:
        jobs += [(prompt, LONG_STEPS) for prompt in prompts_of(vocabulary, [LONG_PROMPT], "long prompt")]
    for seed in range(1, 2000):
        weights = {tensor["name"]: hashed_tensor(seed, tensor) for tensor in tensors}
        model = load_model(variant.config, weights)
        runs = []
        for prompt, steps in reversed(jobs):  # the longest first, because it is refused most often
            run = clear_greedy(model, prompt, steps, NEW_TOKENS if variant.settles else MOST_REPEATS)
            if run is None or len(set(run[0])) < (1 if variant.settles else LEAST_DIFFERENT):
                break
            runs.insert(0, run)
        if len(runs) < len(jobs) or len({token for tokens, _ in runs for token in tokens}) < LEAST_ANSWERS:
            continue
        scale = max(float(np.abs(logits).max()) for _, logits in runs)
        margin = min(float(margins_of(logits).min()) for _, logits in runs) / scale
        if margin < LEAST_MARGIN:
            continue
        for (prompt, steps), (tokens, _) in zip(jobs, runs):
            assert cached_greedy(model, prompt, steps) == tokens, "generate() disagrees with the uncached model"
        assert_all_was_loaded(variant, model, weights)
        ids = jobs[len(PROMPT_LENGTHS) - 1][0] + runs[len(PROMPT_LENGTHS) - 1][0]
        expected = prompt_logits(model, ids)
        assert_keys_matter(variant, weights, ids, expected)
        report_idle_tensors(name, model, ids, expected)
        short = runs[: len(PROMPT_LENGTHS)]
        golden = {
            "family": variant.family,
            "window": window_of(model.config),
            "stored": variant.stored,
            "config": variant.config,
            "seed": seed,
            "tensors": tensors,
            "prompts": [prompt for prompt, _ in jobs[: len(PROMPT_LENGTHS)]],
            "tokens": [tokens for tokens, _ in short],
            "scale": significant(np.array([scale]))[0],
            "least_margin_of_scale": significant(np.array([margin]), 3)[0],
            "logit_steps": LOGIT_STEPS,
            "logits": [significant(logits[LOGIT_STEPS]) for _, logits in short],
        }
        if variant.long_run:
            golden["long_run"] = {"prompt": jobs[-1][0], "tokens": runs[-1][0]}
        return {**golden, "versions": versions()}
    raise SystemExit(f"{name}: no seed gave clear choices; change the spreads")


def write(path: Path, golden: dict[str, Any]) -> None:
    """One line per key and per element of a long list: small files with readable differences."""
    lines = []
    for key, value in golden.items():
        if isinstance(value, list) and value and isinstance(value[0], (list, dict)):
            rows = ",\n  ".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in value)
            lines.append(f'"{key}": [\n  {rows}\n]')
        else:
            lines.append(f'"{key}": {json.dumps(value, ensure_ascii=False)}')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the goldens of every model family.")
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="NAME")
    for name in parser.parse_args().only:
        write(GOLDENS / f"family_{name}.json", make_golden(name, VARIANTS[name]))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    main()
