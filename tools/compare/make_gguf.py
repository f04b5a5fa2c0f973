#!/usr/bin/env python3
"""Writes a GGUF of a Llama-shaped Hugging Face directory, with its weights, tokenizer and chat template, for llama.cpp
and its relatives. Standard library only.

    make_gguf.py DIR FILE          DIR: config.json, model.safetensors (bfloat16), tokenizer.json, tokenizer_config.json

For tokenizers of the kind of GPT-2 (byte-level BPE). The split pattern is named by --pre, llama.cpp's name for it.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import struct
import sys
from typing import Any, BinaryIO

import make_model

GGUF_I32, GGUF_STRING, GGUF_ARRAY = 5, 8, 9  # types of metadata
NORMAL, CONTROL = 1, 3  # types of tokens


class Safetensors:
    """A model.safetensors; tensors are bytes."""

    def __init__(self, path: pathlib.Path) -> None:
        data = path.read_bytes()
        size = struct.unpack_from("<Q", data)[0]
        self._header, self._data = json.loads(data[8: 8 + size]), memoryview(data)[8 + size:]

    def __getitem__(self, name: str) -> memoryview:
        entry = self._header[name]
        if entry["dtype"] != "BF16":
            raise ValueError(f"{name}: found {entry['dtype']}, expected BF16")
        begin, end = entry["data_offsets"]
        return self._data[begin:end]


def rotated_pairs(rows: memoryview, count: int, heads: int) -> bytes:
    """GGUF's order of query and key rows: the two rows of a rotated pair side by side. Hugging Face keeps all first
    rows of a head, then all second ones."""
    size, of_head = len(rows) // count, count // heads
    order = [head + row + half for head in range(0, count, of_head) for row in range(of_head // 2)
             for half in (0, of_head // 2)]
    return b"".join(rows[row * size: (row + 1) * size] for row in order)


def widened(values: memoryview) -> bytes:
    """bfloat16 to float32."""
    return b"".join(b"\0\0" + values[i: i + 2] for i in range(0, len(values), 2))


def strings(key: str, texts: list[str]) -> bytes:
    return (make_model.string_of(key) + struct.pack("<IIQ", GGUF_ARRAY, GGUF_STRING, len(texts))
            + b"".join(map(make_model.string_of, texts)))


def numbers(key: str, values: list[int]) -> bytes:
    return (make_model.string_of(key) + struct.pack("<IIQ", GGUF_ARRAY, GGUF_I32, len(values))
            + struct.pack(f"<{len(values)}i", *values))


def tokenizer_entries(folder: pathlib.Path, config: dict[str, Any], pre: str) -> list[bytes]:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokens = [""] * config["vocab_size"]
    kinds = [NORMAL] * len(tokens)
    for text, token in tokenizer["model"]["vocab"].items():
        tokens[token] = text
    for added in tokenizer["added_tokens"]:
        tokens[added["id"]] = added["content"]
        kinds[added["id"]] = CONTROL if added["special"] else NORMAL
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in tokenizer["model"]["merges"]]
    end = config["eos_token_id"]
    entries = [make_model.entry_of("tokenizer.ggml.model", "string", "gpt2"),
               make_model.entry_of("tokenizer.ggml.pre", "string", pre), strings("tokenizer.ggml.tokens", tokens),
               numbers("tokenizer.ggml.token_type", kinds), strings("tokenizer.ggml.merges", merges),
               make_model.entry_of("tokenizer.ggml.bos_token_id", "u32", config["bos_token_id"]),
               make_model.entry_of("tokenizer.ggml.eos_token_id", "u32", end[0] if isinstance(end, list) else end)]
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    if "chat_template" in settings:
        entries.append(make_model.entry_of("tokenizer.chat_template", "string", settings["chat_template"]))
    return entries


def write(out: BinaryIO, folder: pathlib.Path, pre: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    stored, weights = Safetensors(folder / "model.safetensors"), make_model.weights_of(config)
    entries = [make_model.entry_of(*entry) for entry in make_model.metadata(config) if entry[0] != "tokenizer.ggml.model"]
    entries += tokenizer_entries(folder, config, pre)
    make_model.write_gguf_head(out, weights, entries)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for weight in weights:
        data = stored[weight.name]
        rotated = next((count for name, count in heads.items() if f".{name}." in weight.gguf_name), None)
        if rotated:
            data = rotated_pairs(data, weight.shape[0], rotated)
        out.write(widened(data) if weight.is_norm else data)
        out.write(bytes(-out.tell() % make_model.ALIGNMENT))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--pre", default="smollm")
    arguments = parser.parse_args()
    make_model.write_whole(arguments.file, lambda out: write(out, arguments.folder, arguments.pre))
    return 0


if __name__ == "__main__":
    sys.exit(main())
