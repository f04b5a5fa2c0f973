"""Converts GGUF tensors of types F32, Q4_1 and Q8_0 to bfloat16, in pure Python.

A table holds the possible values of a block of 32 quantised values: 16 for Q4_1, 255 for Q8_0. It is computed in
float32 like in ggml, and rounded. Then bytes.translate looks up all values of the block, once for the lower byte of a
bfloat16 and once for the upper one.
"""

from __future__ import annotations

import struct
from typing import Sequence

from gguf_file import BLOCK, Tensor

_LOW_NIBBLE = bytes(byte & 0x0F for byte in range(256))
_HIGH_NIBBLE = bytes(byte >> 4 for byte in range(256))


def _rounded(values: Sequence[float]) -> list[int]:
    """The bits of the nearest bfloat16 of each (ties to even), by way of float32. All values are finite."""
    count = len(values)
    return [(bits + 0x7FFF + (bits >> 16 & 1)) >> 16 for bits in struct.unpack(f"<{count}I", struct.pack(f"<{count}f", *values))]


def _joined(lower: list[bytes], upper: list[bytes]) -> bytes:
    """u16, of their lower and their upper bytes."""
    joined = bytearray(2 * sum(map(len, lower)))
    joined[0::2] = b"".join(lower)
    joined[1::2] = b"".join(upper)
    return bytes(joined)


def _from_f32(raw: memoryview) -> bytes:
    bits = _rounded(struct.unpack(f"<{len(raw) // 4}f", raw))
    return struct.pack(f"<{len(bits)}H", *bits)


def _from_q4_1(raw: memoryview) -> bytes:
    # scale:f16, minimum:f16, 16 bytes of nibbles: all low ones, then all high ones; value = scale · nibble + minimum
    lower, upper, rest = [], [], bytes(240)
    for scale, minimum, packed in struct.iter_unpack("<2e16s", raw):
        nibbles = packed.translate(_LOW_NIBBLE) + packed.translate(_HIGH_NIBBLE)
        table = _rounded([scale * nibble + minimum for nibble in range(16)])
        lower.append(nibbles.translate(bytes([bits & 0xFF for bits in table]) + rest))
        upper.append(nibbles.translate(bytes([bits >> 8 for bits in table]) + rest))
    return _joined(lower, upper)


def _from_q8_0(raw: memoryview) -> bytes:
    # scale:f16, 32 × i8; value = scale · i8
    rows = []
    for scale, *integers in struct.iter_unpack(f"<e{BLOCK}b", raw):
        rows.append(struct.pack(f"<{BLOCK}H", *_rounded([scale * integer for integer in integers])))
    return b"".join(rows)


_FROM = {"F32": _from_f32, "Q4_1": _from_q4_1, "Q8_0": _from_q8_0}


def to_bfloat16(tensor: Tensor) -> bytes:
    """The values, two bytes each."""
    return _FROM[tensor.type.name](tensor.raw)
