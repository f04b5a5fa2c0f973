"""Tensors of Hugging Face models as llama.cpp's conversion changes them, for tools/write_gguf.py.

    pieces(config, weights)      tensors under GGUF's names where several become one or one becomes several; else as is
    changed(config, name, …)     the values of a tensor that keeps its name's place
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

Config = dict[str, Any]
Weights = dict[str, np.ndarray]

OLD_BUFFERS = (".attn.bias", ".attention.bias", ".masked_bias")  # constants that no model reads
PAIRED = {"granite", "granitemoe", "llama", "ministral3", "mistral", "mixtral", "smollm3"}
QWEN_LINEAR = {"qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"}
SHIFTED = {"gemma2", "gemma3_text", "nemotron"} | QWEN_LINEAR


def first(config: Config, *names: str, default: Any = None) -> Any:
    """The value of the first key that is there and not null."""
    return next((config[name] for name in names if config.get(name) is not None), default)


def sizes(config: Config) -> tuple[int, int, int, int, int]:
    """Hidden size, layers, query heads, key/value heads, head size."""
    hidden = first(config, "hidden_size", "n_embd", "n_embed")
    heads = first(config, "num_attention_heads", "n_head")
    default = 1 if config["model_type"] == "falcon" and config.get("multi_query", True) else heads
    kv = first(config, "num_kv_heads", "num_key_value_heads", default=default)
    layers, head = first(config, "num_hidden_layers", "n_layer"), first(config, "head_dim", default=hidden // heads)
    return hidden, layers, heads, kv, head


def paired(values: np.ndarray, heads: int) -> np.ndarray:
    """The rows of a head: the first of each half, then the second of each half …"""
    return values.reshape(heads, 2, values.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(values.shape)


def by_kind(values: np.ndarray, kv: int, group: int, head: int) -> np.ndarray:
    """Rows of q, k and v by key/value head, as all of q, all of k, all of v."""
    parts = values.reshape(kv, group + 2, head, *values.shape[1:])
    order = [parts[:, :group], parts[:, group : group + 1], parts[:, group + 1 :]]
    return np.concatenate([part.reshape(-1, *values.shape[1:]) for part in order])


def stacked_experts(config: Config, weights: Weights) -> Weights:
    """The experts of each layer as one tensor per projection, whatever their form was; other tensors as they are."""
    result: Weights = {}
    lists: dict[str, dict[int, np.ndarray]] = {}
    names = {"w1": "gate", "w2": "down", "w3": "up", "gate_proj": "gate", "up_proj": "up", "down_proj": "down"}
    for name, values in weights.items():
        layer = re.match(r"model\.layers\.(\d+)\.", name)
        single = re.search(r"\.experts\.(\d+)\.(\w+)\.weight$", name)
        prefix = f"blk.{layer[1]}.ffn_" if layer else ""
        if single:
            lists.setdefault(f"{prefix}{names[single[2]]}_exps.weight", {})[int(single[1])] = values
        elif config["model_type"] == "gpt_oss" and ".experts." in name:
            result |= gpt_oss_experts(prefix, name.rpartition(".")[2], values)
        elif config["model_type"] in ("gemma4_text", "mistral4") and name.endswith("experts.gate_up_proj"):
            result[f"{prefix}gate_up_exps.weight"] = values
        elif config["model_type"] == "llama4_text" and ".experts." in name:
            result |= llama4_experts(prefix, name, values)
        elif config["model_type"] == "gemma4_text" and name.endswith("router.scale"):
            result[f"{prefix}gate_inp.scale"] = values
        elif name.endswith("router.per_expert_scale"):
            result[f"{prefix}down_exps.scale"] = values
        elif name.endswith("layer_scalar"):
            result[f"blk.{layer[1]}.layer_output_scale.weight"] = values.reshape(-1)
        elif name.endswith(("experts.gate_up_proj", "input_linear.weight")):
            gate, up = np.split(values, 2, axis=1)
            result |= {f"{prefix}gate_exps.weight": gate, f"{prefix}up_exps.weight": up}
        elif name.endswith(("experts.down_proj", "output_linear.weight")):
            result[f"{prefix}down_exps.weight"] = values
        else:
            result[name] = values
    for name, experts in lists.items():
        result[name] = np.stack([experts[number] for number in range(len(experts))])
    return result


def gpt_oss_experts(prefix: str, leaf: str, values: np.ndarray) -> Weights:
    """Gate and up alternate; matrices are transposed; packed ones stay as they are, for `mxfp4_rows`."""
    kind = "bias" if leaf.endswith("_bias") else "weight"
    suffix = {"_blocks": ".blocks", "_scales": ".scales"}.get(leaf[-7:], "")
    if kind == "weight" and not suffix:
        values = values.swapaxes(1, 2)
    if leaf.startswith("down"):
        return {f"{prefix}down_exps.{kind}{suffix}": values}
    return {f"{prefix}gate_exps.{kind}{suffix}": values[:, ::2], f"{prefix}up_exps.{kind}{suffix}": values[:, 1::2]}


def llama4_experts(prefix: str, name: str, values: np.ndarray) -> Weights:
    """Matrices are transposed."""
    values = values.swapaxes(1, 2)
    if name.endswith("down_proj"):
        return {f"{prefix}down_exps.weight": values}
    gate, up = np.split(values, 2, axis=1)
    return {f"{prefix}gate_exps.weight": gate, f"{prefix}up_exps.weight": up}


def mxfp4_rows(blocks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Bytes of rows in GGUF's order: an exponent, then the nibbles of columns i and i + 16 together."""
    low, high = blocks & 15, blocks >> 4
    values = np.stack([low, high], axis=-1).reshape(*blocks.shape[:-1], 32)
    packed = values[..., :16] | values[..., 16:] << 4
    rows = np.concatenate([scales[..., None], packed], axis=-1)
    return rows.reshape(*rows.shape[:-2], -1).astype(np.uint8)


def split_latent(config: Config, name: str, values: np.ndarray) -> Weights:
    """kv_b by head: rows for keys, transposed, and rows for values."""
    heads, plain, value = config["num_attention_heads"], config["qk_nope_head_dim"], config["v_head_dim"]
    parts = values.reshape(heads, plain + value, -1)
    return {f"{name}_k": parts[:, :plain].swapaxes(1, 2), f"{name}_v": parts[:, plain:]}


def changed(config: Config, name: str, values: np.ndarray) -> np.ndarray:
    """The values of a tensor in the file, by its name in Hugging Face's model."""
    _, _, heads, kv, head = sizes(config)
    model_type, leaf = config["model_type"], name.rsplit(".", 2)[-2] if "." in name else name
    if model_type in PAIRED and leaf in ("q_proj", "k_proj"):
        return paired(values, heads if leaf == "q_proj" else kv)
    if model_type in SHIFTED and name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
        return values + np.float32(1)
    if model_type in QWEN_LINEAR and ".linear_attn." in name:
        return linear_attention(config, name, values)
    if model_type == "gemma3n_text" and "embed_tokens" in name:
        return np.pad(values, [(0, config["vocab_size"] - len(values)), (0, 0)])
    if leaf == "query_key_value":
        return by_kind(values, kv, heads // kv, head)
    if model_type == "gpt2" and values.ndim == 2 and leaf in ("c_attn", "c_proj", "c_fc"):
        return values.T
    if leaf == "shared_expert_gate":
        return values[0]
    return values


def tiled(config: Config, values: np.ndarray, head: int, axis: int = 0) -> np.ndarray:
    """Value heads by key head, as the first of each key head, then the second …"""
    keys, heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    shape = values.shape
    parts = values.reshape(*shape[:axis], keys, heads // keys, head, *shape[axis + 1 :])
    return parts.swapaxes(axis, axis + 1).reshape(shape)


def linear_attention(config: Config, name: str, values: np.ndarray) -> np.ndarray:
    """Decays as they are used, a convolution without its middle axis, and since Qwen 3.5 value heads in tiles."""
    leaf = name.removesuffix(".weight").rpartition(".")[2]
    if leaf == "conv1d":
        values = values.squeeze()
    if config["model_type"] != "qwen3_next":
        keys = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"]
        head = config["linear_value_head_dim"]
        if leaf in ("in_proj_qkv", "conv1d"):
            values = np.concatenate([values[:keys], tiled(config, values[keys:], head)])
        elif leaf == "in_proj_z":
            values = tiled(config, values, head)
        elif leaf in ("in_proj_a", "in_proj_b", "A_log", "dt_bias"):
            values = tiled(config, values, 1)
        elif leaf == "out_proj":
            values = tiled(config, values, head, axis=1)
    return -np.exp(values) if leaf == "A_log" else values


def split_linear(config: Config, name: str, values: np.ndarray) -> Weights:
    """Qwen3-Next's projections by key head, as those of all queries, keys and values, and the gates."""
    heads, key = config["linear_num_key_heads"], config["linear_key_head_dim"]
    value = config["linear_num_value_heads"] // heads * config["linear_value_head_dim"]
    parts = np.split(values.reshape(heads, 2 * (key + value), -1), [key, 2 * key, 2 * key + value], axis=1)
    queries, keys, values, gates = (part.reshape(-1, part.shape[-1]) for part in parts)
    layer = name.split(".")[2]
    return {f"blk.{layer}.attn_qkv.weight": np.concatenate([queries, keys, values]),
            f"blk.{layer}.attn_gate.weight": gates}  # fmt: skip


def stacked_streams(weights: Weights) -> Weights:
    """Gemma 3n's projections to the other streams and back."""
    result, stacks = {}, {"altup_projections": "altup_proj", "altup_unembed_projections": "altup_unembd_proj"}
    for name, values in weights.items():
        family = name.split(".")[1]
        if family not in stacks:
            result[name] = values
    for family, name in stacks.items():
        streams = [values for key, values in sorted(weights.items()) if key.startswith(f"model.{family}.")]
        result[f"{name}.weight"] = np.stack(streams)
    return result


def pieces(config: Config, weights: Weights) -> Weights:
    """The tensors that another number of tensors becomes, under their names in the file; others under their own."""
    if config["model_type"] == "gemma3n_text":
        weights = stacked_streams(weights)
    result: Weights = {}
    for name, values in stacked_experts(config, weights).items():
        if "kv_b_proj" in name:
            parts = split_latent(config, name, values)
            result |= {f"blk.{name.split('.')[2]}.attn_{part[-1]}_b.weight": rows for part, rows in parts.items()}
        elif "in_proj_qkvz" in name:
            result |= split_linear(config, name, values)
        else:
            result[name] = values
    return result
