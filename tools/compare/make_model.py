#!/usr/bin/env python3
"""Writes a checkpoint of a shape with meaningless weights, for engines that need files: config.json and
model.safetensors (transformers, vLLM, lockstep), model.gguf (llama.cpp and its relatives). Standard library only.

    make_model.py CONFIG DIR [--gguf] [--safetensors]           without either: both

Llama-shaped models only; bfloat16, norms of the GGUF in float32. Existing files are kept.
"""
from __future__ import annotations

import argparse
import array
import json
import os
import pathlib
import random
import struct
import sys
from dataclasses import dataclass
from typing import Any, BinaryIO, Callable

PATTERN = 1_000_003  # period of the weights in elements: a prime, so that no two rows of a matrix are equal
ALIGNMENT = 32  # of the data of a GGUF tensor

GGUF_TYPES = {"u32": 4, "f32": 6, "string": 8}  # of metadata values
GGUF_F32, GGUF_BF16 = 0, 30  # of tensors


@dataclass(frozen=True)
class Weight:
    name: str  # Hugging Face's
    gguf_name: str
    shape: tuple[int, ...]

    @property
    def is_norm(self) -> bool:
        return len(self.shape) == 1

    @property
    def count(self) -> int:
        return self.shape[0] * (self.shape[1] if len(self.shape) == 2 else 1)


def head_dim(config: dict[str, Any]) -> int:
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def weights_of(config: dict[str, Any]) -> list[Weight]:
    """The tensors of a Llama-shaped model."""
    hidden, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    query = config["num_attention_heads"] * head_dim(config)
    key = config["num_key_value_heads"] * head_dim(config)
    weights = [Weight("model.embed_tokens.weight", "token_embd.weight", (vocabulary, hidden))]
    for layer in range(config["num_hidden_layers"]):
        for name, gguf, shape in (("input_layernorm", "attn_norm", (hidden,)),
                                  ("self_attn.q_proj", "attn_q", (query, hidden)),
                                  ("self_attn.k_proj", "attn_k", (key, hidden)),
                                  ("self_attn.v_proj", "attn_v", (key, hidden)),
                                  ("self_attn.o_proj", "attn_output", (hidden, query)),
                                  ("post_attention_layernorm", "ffn_norm", (hidden,)),
                                  ("mlp.gate_proj", "ffn_gate", (inner, hidden)),
                                  ("mlp.up_proj", "ffn_up", (inner, hidden)),
                                  ("mlp.down_proj", "ffn_down", (hidden, inner))):
            weights.append(Weight(f"model.layers.{layer}.{name}.weight", f"blk.{layer}.{gguf}.weight", shape))
    weights.append(Weight("model.norm.weight", "output_norm.weight", (hidden,)))
    if not config.get("tie_word_embeddings", False):
        weights.append(Weight("lm_head.weight", "output.weight", (vocabulary, hidden)))
    return weights


def pattern() -> bytes:
    """bfloat16 numbers of either sign from 2**-7 to 2**-5: random signs and fractions under two exponents."""
    drawn = array.array("H", random.Random(1).randbytes(2 * PATTERN))
    return array.array("H", [number & 0x80FF | 0x3C00 for number in drawn]).tobytes()


def write_numbers(out: BinaryIO, count: int, numbers: bytes) -> None:
    while count > 0:
        taken = min(count, PATTERN)
        out.write(memoryview(numbers)[: 2 * taken])
        count -= taken


def write_safetensors(out: BinaryIO, config: dict[str, Any], numbers: bytes) -> None:
    header, offset = {}, 0
    weights = weights_of(config)
    for weight in weights:
        header[weight.name] = {"dtype": "BF16", "shape": weight.shape,
                               "data_offsets": [offset, offset + 2 * weight.count]}
        offset += 2 * weight.count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    out.write(struct.pack("<Q", len(text)) + text)
    for weight in weights:
        if weight.is_norm:
            out.write(b"\x80\x3f" * weight.count)  # ones
        else:
            write_numbers(out, weight.count, numbers)


def string_of(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def entry_of(key: str, kind: str, value: Any) -> bytes:
    data = {"u32": lambda: struct.pack("<I", value), "f32": lambda: struct.pack("<f", value),
            "string": lambda: string_of(value)}[kind]()
    return string_of(key) + struct.pack("<I", GGUF_TYPES[kind]) + data


def metadata(config: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """The file for llama.cpp; without a vocabulary, because prompts are ids."""
    return [("general.architecture", "string", "llama"), ("general.name", "string", "random weights"),
            ("general.alignment", "u32", ALIGNMENT), ("general.file_type", "u32", 32),  # mostly bfloat16
            ("llama.block_count", "u32", config["num_hidden_layers"]),
            ("llama.context_length", "u32", config["max_position_embeddings"]),
            ("llama.embedding_length", "u32", config["hidden_size"]),
            ("llama.feed_forward_length", "u32", config["intermediate_size"]),
            ("llama.attention.head_count", "u32", config["num_attention_heads"]),
            ("llama.attention.head_count_kv", "u32", config["num_key_value_heads"]),
            ("llama.attention.key_length", "u32", head_dim(config)),
            ("llama.attention.value_length", "u32", head_dim(config)),
            ("llama.attention.layer_norm_rms_epsilon", "f32", config["rms_norm_eps"]),
            ("llama.rope.dimension_count", "u32", head_dim(config)),
            ("llama.rope.freq_base", "f32", float(config.get("rope_theta", 10000.0))),
            ("llama.vocab_size", "u32", config["vocab_size"]), ("tokenizer.ggml.model", "string", "no_vocab")]


def write_gguf_head(out: BinaryIO, weights: list[Weight], entries: list[bytes]) -> None:
    """What precedes the tensors. Version 3 of the format: github.com/ggml-org/ggml, docs/gguf.md."""
    out.write(b"GGUF" + struct.pack("<IQQ", 3, len(weights), len(entries)))
    out.write(b"".join(entries))
    offset = 0
    for weight in weights:
        kind, size = (GGUF_F32, 4) if weight.is_norm else (GGUF_BF16, 2)
        dims = tuple(reversed(weight.shape))  # innermost first
        out.write(string_of(weight.gguf_name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset))
        offset += -(-size * weight.count // ALIGNMENT) * ALIGNMENT
    out.write(bytes(-out.tell() % ALIGNMENT))


def write_gguf(out: BinaryIO, config: dict[str, Any], numbers: bytes) -> None:
    weights = weights_of(config)
    write_gguf_head(out, weights, [entry_of(*entry) for entry in metadata(config)])
    for weight in weights:
        if weight.is_norm:
            out.write(struct.pack("<f", 1.0) * weight.count)
        else:
            write_numbers(out, weight.count, numbers)
        out.write(bytes(-out.tell() % ALIGNMENT))


def write_whole(path: pathlib.Path, write: Callable[[BinaryIO], None]) -> None:
    """Writes the file atomically."""
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb") as out:
        write(out)
    os.replace(partial, path)


def make(config_file: pathlib.Path, folder: pathlib.Path, formats: tuple[str, ...] = ("safetensors", "gguf")) -> None:
    config = json.loads(config_file.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "config.json", lambda out: out.write((json.dumps(config, indent=2) + "\n").encode()))
    writers = {"safetensors": write_safetensors, "gguf": write_gguf}
    wanted = [name for name in formats if not (folder / f"model.{name}").exists()]
    numbers = pattern() if wanted else b""
    for name in wanted:
        write_whole(folder / f"model.{name}", lambda out, write=writers[name]: write(out, config, numbers))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    for name in ("safetensors", "gguf"):
        parser.add_argument(f"--{name}", dest="formats", action="append_const", const=name)
    arguments = parser.parse_args()
    make(arguments.config, arguments.folder, tuple(arguments.formats or ("safetensors", "gguf")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
