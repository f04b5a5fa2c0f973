"""Tensors whose values are a hash of their names, as the goldens of families have them (tests/model/hashed_weights.h)."""

from __future__ import annotations

from typing import Any

import numpy as np

Tensor = dict[str, Any]  # an element of a golden's "tensors"
U64 = np.uint64


def fnv1a_bytes(data: bytes) -> int:
    state = 0xCBF29CE484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return state


def fnv1a(text: str) -> int:
    return fnv1a_bytes(text.encode())


def hashed_bits(seed: int, name: str, count: int) -> np.ndarray:
    """`count` numbers of 24 bits."""
    with np.errstate(over="ignore"):
        x = U64(fnv1a(f"{seed}/{name}")) + np.arange(1, count + 1, dtype=U64) * U64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
        x = x ^ (x >> U64(31))
    return (x >> U64(40)).astype(np.int64)


def hashed_units(seed: int, name: str, count: int) -> np.ndarray:
    """`count` numbers in [-1, 1), float32."""
    return (hashed_bits(seed, name, count) - 2**23).astype(np.float32) / np.float32(2**23)


def hashed_tensor(seed: int, tensor: Tensor) -> np.ndarray:
    name, count = tensor["name"], int(np.prod(tensor["shape"]))
    if tensor["dtype"] == "U8":
        lowest, highest = tensor["lowest"], tensor["highest"]
        values = lowest + hashed_bits(seed, name, count) % (highest - lowest + 1)
        return values.astype(np.uint8).reshape(tensor["shape"])
    values = np.float32(tensor["centre"]) + np.float32(tensor["spread"]) * hashed_units(seed, name, count)
    return values.reshape(tensor["shape"])
