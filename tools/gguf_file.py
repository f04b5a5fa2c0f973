"""Reads GGUF files: the metadata, and the tensors dequantised to float32.

Only what our models need: format version 3, little endian, and the element types F32, F16, BF16, Q4_0, Q4_1, Q5_0,
Q8_0, Q4_K and Q6_K. The layout is that of the GGUF specification (github.com/ggml-org/ggml, docs/gguf.md), the blocks
are those of ggml-quants.c:

    "GGUF" version:u32 tensors:u64 entries:u64
    entries × (key:string type:u32 value)                          metadata
    tensors × (name:string dims:u32 dim:u64[dims] type:u32 offset:u64)
    padding to `general.alignment`, then the data; offsets count from there

Dimensions are stored innermost first; `Tensor.shape` is outermost first, as everywhere else.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import numpy as np

BLOCK = 32  # elements of a quantised block
SUPER_BLOCK = 256  # of the "K" types, which scale the scales of smaller blocks once more


class GgufError(Exception):
    """The file is damaged, or holds something this reader does not know."""


def _from_f32(raw: np.ndarray) -> np.ndarray:
    return raw.view("<f4").astype(np.float32)


def _from_f16(raw: np.ndarray) -> np.ndarray:
    return raw.view("<f2").astype(np.float32)


def _from_bf16(raw: np.ndarray) -> np.ndarray:
    return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _half(blocks: np.ndarray, at: int) -> np.ndarray:
    """The binary16 at byte `at` of every block, as float32 [blocks, 1]."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: np.ndarray) -> np.ndarray:
    """u8 [blocks, 16] → [blocks, 32]: all low nibbles, then all high ones."""
    return np.concatenate([packed & 0x0F, packed >> 4], axis=1)


def _from_q4_0(raw: np.ndarray) -> np.ndarray:
    blocks = raw.reshape(-1, 18)  # scale:f16, 16 bytes of nibbles; value = scale · (nibble − 8)
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]).astype(np.int8) - 8).astype(np.float32)


def _from_q4_1(raw: np.ndarray) -> np.ndarray:
    blocks = raw.reshape(-1, 20)  # scale:f16, minimum:f16, 16 bytes of nibbles; value = scale · nibble + minimum
    return _half(blocks, 0) * _nibbles(blocks[:, 4:]).astype(np.float32) + _half(blocks, 2)


def _from_q5_0(raw: np.ndarray) -> np.ndarray:
    blocks = raw.reshape(-1, 22)  # scale:f16, 32 fifth bits, 16 bytes of nibbles; value = scale · (5 bits − 16)
    fifth = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little")
    values = (_nibbles(blocks[:, 6:]) | fifth << 4).astype(np.int8) - 16
    return _half(blocks, 0) * values.astype(np.float32)


def _from_q8_0(raw: np.ndarray) -> np.ndarray:
    blocks = raw.reshape(-1, 34)  # scale:f16, 32 × i8; value = scale · i8
    return np.ascontiguousarray(blocks[:, 2:]).view(np.int8).astype(np.float32) * _half(blocks, 0)


def _six_bit_scales(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u8 [blocks, 12] → the scales and the minima of 8 blocks of 32, u8 [blocks, 8] each. The first four of either are
    the low bits of bytes 0-3 and 4-7; the others are a nibble of bytes 8-11 with the two bits left over there."""
    first, second, rest = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([first & 0x3F, rest & 0x0F | first >> 2 & 0x30], axis=1)
    minima = np.concatenate([second & 0x3F, rest >> 4 | second >> 2 & 0x30], axis=1)
    return scales, minima


def _from_q4_k(raw: np.ndarray) -> np.ndarray:
    # scale:f16, scale of the minima:f16, 12 bytes of scales, 8 × 32 nibbles; value = scale · nibble − minimum
    blocks = raw.reshape(-1, 144)
    scales, minima = _six_bit_scales(blocks[:, 4:16])
    scales = (_half(blocks, 0) * scales.astype(np.float32))[:, :, None]
    minima = (_half(blocks, 2) * minima.astype(np.float32))[:, :, None]
    # 32 bytes hold two blocks: one in the low nibbles, the next in the high ones.
    packed = blocks[:, 16:].reshape(-1, 4, 32)
    nibbles = np.stack([packed & 0x0F, packed >> 4], axis=2).reshape(-1, 8, 32)
    return scales * nibbles.astype(np.float32) - minima


def _from_q6_k(raw: np.ndarray) -> np.ndarray:
    # 128 bytes of low nibbles, 64 of high bit pairs, 16 × i8 scales, scale:f16; value = scale · (6 bits − 32)
    blocks = raw.reshape(-1, 210)
    scales = _half(blocks, 208) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    low, high = blocks[:, :128].reshape(-1, 2, 64), blocks[:, 128:192].reshape(-1, 2, 32)
    low = np.concatenate([low & 0x0F, low >> 4], axis=2)
    high = np.concatenate([high >> shift & 0x03 for shift in (0, 2, 4, 6)], axis=2)
    values = (low | high << 4).astype(np.int8) - 32
    return scales[:, :, None] * values.reshape(-1, 16, 16).astype(np.float32)


@dataclass(frozen=True)
class ElementType:
    """How `elements` values lie in `size` bytes."""

    name: str
    elements: int
    size: int
    dequantise: Callable[[np.ndarray], np.ndarray]


ELEMENT_TYPES = {
    0: ElementType("F32", 1, 4, _from_f32),
    1: ElementType("F16", 1, 2, _from_f16),
    2: ElementType("Q4_0", BLOCK, 18, _from_q4_0),
    3: ElementType("Q4_1", BLOCK, 20, _from_q4_1),
    6: ElementType("Q5_0", BLOCK, 22, _from_q5_0),
    8: ElementType("Q8_0", BLOCK, 34, _from_q8_0),
    12: ElementType("Q4_K", SUPER_BLOCK, 144, _from_q4_k),
    14: ElementType("Q6_K", SUPER_BLOCK, 210, _from_q6_k),
    30: ElementType("BF16", 1, 2, _from_bf16),
}

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class Tensor:
    """One tensor as it lies in the file."""

    name: str
    shape: tuple[int, ...]  # outermost first
    type: ElementType
    raw: np.ndarray  # u8

    def to_float32(self) -> np.ndarray:
        """The values, float32 of `shape`."""
        return self.type.dequantise(self.raw).reshape(self.shape)


class GgufFile:
    """An open file: `metadata` by key, `tensors` by name. The data is mapped, not read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._data = np.memmap(path, dtype=np.uint8, mode="r")
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

    def _take(self, size: int) -> np.ndarray:
        if self._at + size > len(self._data):
            raise GgufError(f"{self._path}: the file ends inside its header")
        self._at += size
        return self._data[self._at - size : self._at]

    def _scalar(self, layout: str) -> Any:
        return struct.unpack(layout, self._take(struct.calcsize(layout)).tobytes())[0]

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
        values = int(np.prod(shape))
        size = values // element.elements * element.size
        if values % element.elements != 0 or begin + size > len(self._data):
            raise GgufError(f"{self._path}: tensor {name} {shape} does not fit its file")
        return Tensor(name, shape, element, self._data[begin : begin + size])
