#!/usr/bin/env python3
"""Makes tests/runtime/checkpoint/goldens/gguf_blocks.json: bytes of matrices in GGUF's block formats, and their values.

    python tools/make_gguf_goldens.py

Every byte is random, except that factors are finite; the values are those of the PyPI package gguf, in float32.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import gguf
import numpy as np

GOLDEN = Path(__file__).resolve().parent.parent / "tests/runtime/checkpoint/goldens/gguf_blocks.json"
ROWS, BLOCKS = 2, 3
# Bytes in a block at which a factor in float16 begins.
FACTORS = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2],
           "Q6_K": [208], "MXFP4": []}  # fmt: skip


def main() -> None:
    formats = []
    for name, factors in FACTORS.items():
        kind = gguf.GGMLQuantizationType[name]
        size = gguf.GGML_QUANT_SIZES[kind][1]
        random = np.random.default_rng(zlib.crc32(name.encode()))
        blocks = random.integers(0, 256, (ROWS, BLOCKS, size), dtype=np.uint8)
        for at in factors:
            halves = random.normal(0, 0.05, (ROWS, BLOCKS)).astype(np.float16)
            blocks[:, :, at : at + 2] = halves[..., None].view(np.uint8)
        if name == "MXFP4":
            blocks[:, :, 0] = random.integers(0, 250, (ROWS, BLOCKS))
            blocks[0, 0, 0] = 0
        values = gguf.quants.dequantize(blocks.reshape(ROWS, -1), kind)
        formats.append({"name": name, "bytes": blocks.tobytes().hex(), "values": values.astype(float).tolist()})
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in formats)
    GOLDEN.write_text(f'{{"rows":{ROWS},"formats":[\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
