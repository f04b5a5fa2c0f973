"""Writes a Hugging Face model as a GGUF file, changing what llama.cpp's conversion changes, for tests of the reader.

    convert(config, weights)     config.json and tensors by name ─► architecture, keys, tensors by GGUF's names
    write(path, converted, ...)  a file of one type of matrices, or of one type per tensor

Names of tensors are those of the PyPI package gguf. What changes beside names, by llama.cpp's convert_hf_to_gguf.py:
rows of q and k where heads turn by neighbours, 1 added to norms of 1 + w, q, k and v of each head in order, matrices of
GPT-2 transposed, experts stacked, divisors of frequencies as tensors (gguf_conversions.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, Callable

import gguf
import numpy as np
from gguf_conversions import OLD_BUFFERS, QWEN_LINEAR, SHIFTED, Config, Weights, changed, first, mxfp4_rows, pieces, sizes

ARCHITECTURES = {
    "bloom": "bloom", "cohere": "command-r", "cohere2": "cohere2", "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2", "dots1": "dots1", "ernie4_5": "ernie4_5", "ernie4_5_moe": "ernie4_5-moe",
    "exaone4": "exaone4", "exaone_moe": "exaone-moe", "falcon": "falcon", "gemma2": "gemma2",
    "gemma3_text": "gemma3", "gemma3n_text": "gemma3n", "gemma4_text": "gemma4", "glm4": "glm4",
    "glm4_moe": "glm4moe", "glm4_moe_lite": "deepseek2", "gpt2": "gpt2", "gpt_neox": "gptneox",
    "gpt_oss": "gpt-oss", "granite": "granite", "granitemoe": "granitemoe", "hunyuan_v1_dense": "hunyuan-dense", "hy_v3": "hy_v3", "llama": "llama",
    "llama4_text": "llama4", "minimax_m2": "minimax-m2", "ministral3": "mistral3", "mistral": "llama",
    "mistral4": "mistral4", "mixtral": "llama", "nemotron": "nemotron", "olmo2": "olmo2",
    "olmo3": "olmo2", "olmoe": "olmoe", "phi": "phi2", "phi3": "phi3", "qwen2": "qwen2", "qwen2_moe": "qwen2moe",
    "qwen3": "qwen3", "qwen3_5_moe_text": "qwen35moe", "qwen3_5_text": "qwen35", "qwen3_moe": "qwen3moe",
    "qwen3_next": "qwen3next", "seed_oss": "seed_oss", "smollm3": "smollm3", "stablelm": "stablelm",
    "starcoder2": "starcoder2",
}  # fmt: skip
NAMES_AS = {"hy_v3": "glm4moe"}  # newer than the package gguf; its tensors are of the same kinds
DRAFTING = {"glm4_moe", "glm4_moe_lite", "hy_v3"} | QWEN_LINEAR - {"qwen3_next"}  # files have these layers too


@dataclass
class Converted:
    architecture: str
    keys: dict[str, Any]  # after the architecture's name, or whole if it has another first part
    tensors: Weights


def rope_of(config: Config) -> dict[str, Any]:
    """The rotary embedding in one notation; that of layers without a window where there are two."""
    rope = dict(first(config, "rope_scaling", default=None) or first(config, "rope_parameters", default=None) or {})
    rope = dict(rope.get("full_attention", rope))
    for name, other in (("rope_theta", "rotary_emb_base"), ("partial_rotary_factor", "rotary_pct")):
        if name not in rope and (value := first(config, name, other)) is not None:
            rope[name] = value
    rope.setdefault("rope_type", rope.get("type", "default"))
    return rope


def llama3_factors(rope: dict[str, Any], head: int) -> np.ndarray:
    """What the wavelengths are multiplied with."""
    low, high, original = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
    factors = []
    for i in range(0, head, 2):
        wave = 2 * math.pi * rope["rope_theta"] ** (i / head)
        smooth = (original / wave - low) / (high - low)
        factors.append(1.0 if wave < original / high else rope["factor"] if wave > original / low
                       else 1 / ((1 - smooth) / rope["factor"] + smooth))  # fmt: skip
    return np.array(factors, np.float32)


def rope_keys(config: Config, head: int, tensors: Weights) -> dict[str, Any]:
    rope = rope_of(config)
    usual_part = {"gpt_neox": 0.25, "stablelm": 0.25, "phi": 0.5, "nemotron": 0.5, "glm4": 0.5, "glm4_moe": 0.5,
                  **dict.fromkeys(QWEN_LINEAR, 0.25)}  # fmt: skip
    part = rope.get("partial_rotary_factor", usual_part.get(config["model_type"], 1.0))
    keys: dict[str, Any] = {"rope.dimension_count": int(head * part)}
    if rope.get("alpha"):  # Hunyuan's stretching
        rope["rope_theta"] *= rope["alpha"] ** (head / (head - 2))
    if "rope_theta" in rope:
        keys["rope.freq_base"] = float(rope["rope_theta"])
    kind = rope["rope_type"]
    if kind in ("linear", "yarn"):
        keys |= {"rope.scaling.type": kind, "rope.scaling.factor": float(rope["factor"])}
    if kind == "yarn":
        keys["rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
        for name in ("beta_fast", "beta_slow"):
            if name in rope:
                keys[f"rope.scaling.yarn_{name}"] = float(rope[name])
        if rope.get("mscale_all_dim"):
            unit = 0.1 if "kv_lora_rank" in config else 1.0
            keys["rope.scaling.yarn_log_multiplier"] = unit * rope["mscale_all_dim"]
        if "llama_4_scaling_beta" in rope and config["model_type"] != "mistral4":
            keys["attention.temperature_scale"] = float(rope["llama_4_scaling_beta"])
    if kind == "llama3":
        tensors["rope_freqs.weight"] = llama3_factors({"rope_theta": 10000.0, **rope}, head)
    if kind in ("longrope", "su"):
        keys |= {"rope.scaling.type": "longrope"}
        keys["rope.scaling.original_context_length"] = config["original_max_position_embeddings"]
        for length in ("short", "long"):
            tensors[f"rope_factors_{length}.weight"] = np.array(rope[f"{length}_factor"], np.float32)
    return keys


COPIED = {
    "attention.sliding_window": ("sliding_window",), "attn_logit_softcapping": ("attn_logit_softcapping",),
    "final_logit_softcapping": ("final_logit_softcapping",), "embedding_scale": ("embedding_multiplier",),
    "residual_scale": ("residual_multiplier",), "attention.scale": ("attention_multiplier",),
    "logit_scale": ("logit_scale", "logits_scaling"), "use_parallel_residual": ("use_parallel_residual",),
    "expert_count": ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"),
    "expert_used_count": ("num_experts_per_tok", "moe_k"), "expert_feed_forward_length": ("moe_intermediate_size",),
    "expert_shared_feed_forward_length": ("shared_expert_intermediate_size",),
    "expert_shared_count": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "leading_dense_block_count": ("first_k_dense_replace", "moe_layer_start_index"),
    "expert_weights_scale": ("routed_scaling_factor", "router_scaling_factor"), "expert_group_count": ("n_group",),
    "expert_group_used_count": ("topk_group",),
    "interleave_moe_layer_step": ("moe_layer_interval", "interleave_moe_layer_step"),
    "attention.q_lora_rank": ("q_lora_rank",), "attention.kv_lora_rank": ("kv_lora_rank",),
    "attention.shared_kv_layers": ("num_kv_shared_layers",), "altup.active_idx": ("altup_active_idx",),
    "altup.num_inputs": ("altup_num_inputs",), "embedding_length_per_layer_input": ("hidden_size_per_layer_input",),
}  # fmt: skip


def keys_of(config: Config, tensors: Weights) -> dict[str, Any]:
    hidden, layers, heads, kv, head = sizes(config)
    model_type = config["model_type"]
    inner = first(config, "intermediate_size", "n_inner", "ffn_hidden_size", default=4 * hidden)
    keys: dict[str, Any] = {
        "context_length": first(config, "max_position_embeddings", "n_positions", "seq_length", default=2048),
        "block_count": layers, "embedding_length": hidden, "feed_forward_length": inner,
        "attention.head_count": heads, "attention.head_count_kv": kv,
    }  # fmt: skip
    epsilon = first(config, "rms_norm_eps")
    if epsilon is None or model_type in ("bloom", "cohere", "cohere2", "gpt2", "nemotron", "starcoder2", "stablelm"):
        epsilon = first(config, "layer_norm_epsilon", "layer_norm_eps", "norm_epsilon", "norm_eps")
        keys["attention.layer_norm_epsilon"] = float(epsilon if epsilon is not None else 1e-5)
    else:
        keys["attention.layer_norm_rms_epsilon"] = float(epsilon)
    if config.get("head_dim") is not None or model_type in SHIFTED:
        keys |= {"attention.key_length": head, "attention.value_length": head}
    for key, names in COPIED.items():
        if (value := first(config, *names)) is not None:
            keys[key] = value
    drafting = first(config, "num_nextn_predict_layers", "mtp_num_hidden_layers", default=0)
    if drafting and model_type in DRAFTING:
        keys |= {"block_count": layers + drafting, "nextn_predict_layers": drafting}
    if config.get("norm_topk_prob") or "norm_topk_prob" in config and "kv_lora_rank" not in config:
        keys["expert_weights_norm"] = config["norm_topk_prob"]
    if model_type in ("gpt_oss", "minimax_m2"):
        keys["expert_feed_forward_length"] = inner
    if config.get("layer_types") and model_type not in {"gpt_oss", "llama4_text"} | QWEN_LINEAR:
        keys["attention.sliding_window_pattern"] = [kind == "sliding_attention" for kind in config["layer_types"]]
    if model_type in ("gemma3_text", "gemma3n_text"):
        ropes = config.get("rope_parameters") or {}
        keys["rope.freq_base_swa"] = float(first(ropes.get("sliding_attention", {}), "rope_theta",
                                                 default=config.get("rope_local_base_freq", 10000.0)))  # fmt: skip
    if "kv_lora_rank" in config:
        return keys | latent_keys(config, tensors)
    if model_type == "gemma4_text":
        return keys | gemma4_keys(config, tensors)
    keys |= OTHER_KEYS.get(model_type, lambda _: {})(config)
    if model_type not in ("gpt2", "bloom"):
        keys |= rope_keys(config, head, tensors)
    if "rotary_dim" in config:
        keys["rope.dimension_count"] = config["rotary_dim"]
    return keys


def latent_keys(config: Config, tensors: Weights) -> dict[str, Any]:
    """One key/value head, whose width is that of the latent and of the rotated key."""
    rotated, rank = config["qk_rope_head_dim"], config["kv_lora_rank"]
    return rope_keys(config, rotated, tensors) | {
        "attention.head_count_kv": 1, "attention.key_length": rank + rotated, "attention.value_length": rank,
        "attention.key_length_mla": config["qk_nope_head_dim"] + rotated,
        "attention.value_length_mla": config["v_head_dim"], "rope.dimension_count": rotated,
    } | ({"expert_gating_func": 2} if config["model_type"] == "deepseek_v3" else {})  # fmt: skip


def gemma3n_keys(config: Config) -> dict[str, Any]:
    """What the gates drop, as a multiple of the deviation."""
    parts = config["activation_sparsity_pattern"]
    return {"activation_sparsity_scale": [NormalDist().inv_cdf(part) if part > 0 else -math.inf for part in parts]}


def llama4_keys(config: Config) -> dict[str, Any]:
    keys = {"expert_feed_forward_length": config["intermediate_size"],
            "feed_forward_length": config["intermediate_size_mlp"]}  # fmt: skip
    whole = config.get("layer_types") and all(kind == "full_attention" for kind in config["layer_types"])
    return keys | ({"attention.sliding_window": 0} if whole else {})


def hy_v3_keys(config: Config) -> dict[str, Any]:
    shared = config["moe_intermediate_size"] * config.get("num_shared_experts", 1)
    return {"expert_shared_feed_forward_length": shared, "expert_weights_norm": config.get("route_norm", True),
            "expert_gating_func": 2}  # fmt: skip


def qwen_linear_keys(config: Config) -> dict[str, Any]:
    """Linear attention, under the names of state-space models."""
    values = config["linear_num_value_heads"]
    keys = {
        "ssm.conv_kernel": config["linear_conv_kernel_dim"], "ssm.state_size": config["linear_key_head_dim"],
        "ssm.group_count": config["linear_num_key_heads"], "ssm.time_step_rank": values,
        "ssm.inner_size": config["linear_value_head_dim"] * values,
        "full_attention_interval": config.get("full_attention_interval", 4),
    }  # fmt: skip
    if config["model_type"] != "qwen3_next":
        sections = rope_of(config).get("mrope_section", [11, 11, 10])
        keys["rope.dimension_sections"] = [*sections, 0][:4]
    return keys


OTHER_KEYS: dict[str, Callable[[Config], dict[str, Any]]] = {
    "gemma3n_text": gemma3n_keys, "llama4_text": llama4_keys, "hy_v3": hy_v3_keys,
    **dict.fromkeys(QWEN_LINEAR, qwen_linear_keys),
}  # fmt: skip


def gemma4_keys(config: Config, tensors: Weights) -> dict[str, Any]:
    """Heads of the layers without a window, their rope, and layers that share a cache."""
    layers, kinds, inner = config["num_hidden_layers"], config["layer_types"], config["intermediate_size"]
    usual_ropes = {"full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e6},
                   "sliding_attention": {"rope_theta": 10000.0}}  # fmt: skip
    ropes = config.get("rope_parameters") or usual_ropes
    own = next(iter((config.get("per_layer_config") or {}).values()), {})
    full = first(config, "global_head_dim", default=own.get("head_dim", 512))
    shared = config.get("num_kv_shared_layers", 0)
    turning = int(full * ropes["full_attention"].get("partial_rotary_factor", 1.0) / 2)
    tensors["rope_freqs.weight"] = np.array([1.0] * turning + [1e30] * (full // 2 - turning), np.float32)
    keys = {
        "attention.key_length": full, "attention.value_length": full, "attention.key_length_swa": config["head_dim"],
        "attention.shared_kv_layers": shared, "rope.freq_base": float(ropes["full_attention"]["rope_theta"]),
        "rope.freq_base_swa": float(ropes["sliding_attention"]["rope_theta"]),
        "embedding_length_per_layer_input": config.get("hidden_size_per_layer_input") or 0,
    }  # fmt: skip
    if config.get("use_double_wide_mlp"):
        keys["feed_forward_length"] = [inner * (1 if layer < layers - shared else 2) for layer in range(layers)]
    kv = config.get("num_global_key_value_heads") or own.get("num_key_value_heads")
    if kv is not None:
        usual = config["num_key_value_heads"]
        keys["attention.head_count_kv"] = [usual if kind == "sliding_attention" else kv for kind in kinds]
    if config.get("enable_moe_block"):
        keys |= {"expert_used_count": config["top_k_experts"]}
    return keys


def convert(config: Config, weights: Weights) -> Converted:
    model_type = config["model_type"]
    architecture = ARCHITECTURES[model_type]
    like = NAMES_AS.get(architecture, architecture)
    number = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == like)
    names = gguf.get_tensor_name_map(number, sizes(config)[1])
    tensors: Weights = {}
    for name, values in pieces(config, weights).items():
        if name.endswith(OLD_BUFFERS):
            continue
        if model_type == "bloom":
            name = name.removeprefix("transformer.")
        if name.startswith(("blk.", "altup_")):
            tensors[name] = values
            continue
        found = names.get_type_and_name(name.replace(".dt_bias", ".dt_proj.bias"), try_suffixes=(".weight", ".bias"))
        if found is None and name.endswith(".e_score_correction_bias"):
            found = (None, f"blk.{name.split('.')[2]}.exp_probs_b")
        if found is None:
            raise ValueError(f"{model_type}: no name for {name}")
        has_suffix = found[1].endswith((".weight", ".bias")) or name.endswith(("A_log", "expert_bias"))
        suffix = "" if has_suffix else ".bias" if name.endswith("bias") else ".weight"
        values = changed(config, name, values)
        tensors[found[1] + suffix] = values.reshape(-1) if "exp_probs_b" in found[1] else values
    keys = keys_of(config, tensors)
    return Converted(architecture, keys, tensors)


def add_key(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def add_tokens(writer: gguf.GGUFWriter, config: Config) -> None:
    """A vocabulary of as many characters."""
    count = config["vocab_size"]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>"] + [chr(0x4E00 + i) for i in range(1, count)])
    writer.add_token_scores([0.0] * count)
    writer.add_token_types([2] + [1] * (count - 1))
    ends = config.get("eos_token_id")
    if ends is not None:
        writer.add_eos_token_id(ends[0] if isinstance(ends, list) else ends)
    for key, add in (("bos_token_id", writer.add_bos_token_id), ("pad_token_id", writer.add_pad_token_id)):
        if config.get(key) is not None:
            add(config[key])


TypeOf = Callable[[str, np.ndarray], gguf.GGMLQuantizationType]


def float32(_name: str, _values: np.ndarray) -> gguf.GGMLQuantizationType:
    return gguf.GGMLQuantizationType.F32


def write(path: Path, config: Config, converted: Converted, type_of: TypeOf = float32, **options: Any) -> None:
    """Writes the file; vectors stay in float32. `options` go to the package's writer (split_max_tensors …)."""
    writer = gguf.GGUFWriter(path, converted.architecture, **options)
    for key, value in converted.keys.items():
        add_key(writer, f"{converted.architecture}.{key}", value)
    add_tokens(writer, config)
    for name, values in converted.tensors.items():
        if name.endswith(".scales"):
            continue
        if name.endswith(".blocks"):
            rows = mxfp4_rows(values, converted.tensors[name.removesuffix(".blocks") + ".scales"])
            writer.add_tensor(name.removesuffix(".blocks"), rows, raw_dtype=gguf.GGMLQuantizationType.MXFP4)
            continue
        kind = type_of(name, values) if values.ndim > 1 else gguf.GGMLQuantizationType.F32
        data = np.ascontiguousarray(values, np.float32)
        if kind == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(name, data)
        else:
            writer.add_tensor(name, gguf.quants.quantize(data, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
