"""Reads GGUF files: the metadata, and the tensors in their stored form.

Supports only what the fetched models need: format version 3, little endian, and the element types F32, F16, BF16, Q4_0,
Q4_1, Q5_0, Q8_0, Q4_K and Q6_K. The layout follows the GGUF specification (github.com/ggml-org/ggml, docs/gguf.md), the
blocks ggml-quants.c:

    "GGUF" version:u32 tensors:u64 entries:u64
    entries × (key:string type:u32 value)                          metadata
    tensors × (name:string dims:u32 dim:u64[dims] type:u32 offset:u64)
    padding to `general.alignment`, then the data; offsets count from there

Dimensions are stored innermost first; `Tensor.shape` is outermost first, as everywhere else.
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = 32  # elements of a quantised block
SUPER_BLOCK = 256  # of the "K" types, which also scale the scales of smaller blocks


class GgufError(Exception):
    """The file is damaged, or contains something that this reader does not support."""


@dataclass(frozen=True)
class ElementType:
    """A block format: `elements` values in `size` bytes."""

    name: str
    elements: int
    size: int


ELEMENT_TYPES = {
    0: ElementType("F32", 1, 4),
    1: ElementType("F16", 1, 2),
    2: ElementType("Q4_0", BLOCK, 18),
    3: ElementType("Q4_1", BLOCK, 20),
    6: ElementType("Q5_0", BLOCK, 22),
    8: ElementType("Q8_0", BLOCK, 34),
    12: ElementType("Q4_K", SUPER_BLOCK, 144),
    14: ElementType("Q6_K", SUPER_BLOCK, 210),
    30: ElementType("BF16", 1, 2),
}

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class Tensor:
    """One tensor in its stored form."""

    name: str
    shape: tuple[int, ...]  # outermost first
    type: ElementType
    raw: memoryview


class GgufFile:
    """An open file: `metadata` by key, `tensors` by name. The data is mapped, not read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self._data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        self._at = 0
        if bytes(self._take(4)) != b"GGUF":
            raise GgufError(f"{path}: not a GGUF file")
        version, tensor_count, entry_count = self._scalar("<I"), self._scalar("<Q"), self._scalar("<Q")
        if version != 3:
            raise GgufError(f"{path}: found GGUF version {version}, expected 3")
        self.metadata: dict[str, Any] = {}
        for _ in range(entry_count):
            key = self._string()
            self.metadata[key] = self._value(self._scalar("<I"))
        self.tensors = self._read_tensors(tensor_count)

    def _take(self, size: int) -> memoryview:
        if self._at + size > len(self._data):
            raise GgufError(f"{self._path}: the file ends inside its header")
        self._at += size
        return self._data[self._at - size : self._at]

    def _scalar(self, layout: str) -> Any:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))[0]

    def _string(self) -> str:
        return self._take(self._scalar("<Q")).tobytes().decode("utf-8")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            element, count = self._scalar("<I"), self._scalar("<Q")
            return [self._value(element) for _ in range(count)]
        if kind not in _SCALARS:
            raise GgufError(f"{self._path}: unknown metadata type {kind}")
        return self._scalar(_SCALARS[kind])

    def _read_tensors(self, count: int) -> dict[str, Tensor]:
        headers = []
        for _ in range(count):
            name = self._string()
            dims = [self._scalar("<Q") for _ in range(self._scalar("<I"))]
            headers.append((name, tuple(reversed(dims)), self._scalar("<I"), self._scalar("<Q")))
        alignment = self.metadata.get("general.alignment", 32)
        data_start = (self._at + alignment - 1) // alignment * alignment
        return {name: self._tensor(name, shape, kind, data_start + offset) for name, shape, kind, offset in headers}

    def _tensor(self, name: str, shape: tuple[int, ...], kind: int, begin: int) -> Tensor:
        if kind not in ELEMENT_TYPES:
            known = ", ".join(t.name for t in ELEMENT_TYPES.values())
            raise GgufError(f"{self._path}: tensor {name} has element type {kind}, expected one of {known}")
        element = ELEMENT_TYPES[kind]
        values = math.prod(shape)
        size = values // element.elements * element.size
        if values % element.elements != 0 or begin + size > len(self._data):
            raise GgufError(f"{self._path}: tensor {name} {shape} does not fit its file")
        return Tensor(name, shape, element, self._data[begin : begin + size])
