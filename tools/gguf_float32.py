"""Converts GGUF tensors to float32 arrays. Needs numpy."""

from __future__ import annotations

import numpy as np
from gguf_file import Tensor


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
    the low bits of bytes 0-3 and 4-7; the others are a nibble of bytes 8-11 with the two remaining bits there."""
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


_FROM = {
    "F32": _from_f32, "F16": _from_f16, "BF16": _from_bf16, "Q4_0": _from_q4_0, "Q4_1": _from_q4_1, "Q5_0": _from_q5_0,
    "Q8_0": _from_q8_0, "Q4_K": _from_q4_k, "Q6_K": _from_q6_k,
}  # fmt: skip


def to_float32(tensor: Tensor) -> np.ndarray:
    """The values, float32 of the tensor's shape."""
    return _FROM[tensor.type.name](np.frombuffer(tensor.raw, dtype=np.uint8)).reshape(tensor.shape)
