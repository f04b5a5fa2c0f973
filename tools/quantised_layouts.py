"""The layouts of quantised matrices in files: random tensors of each, and what they decode to in float32.

tools/make_quantised_model_goldens.py makes tiny models of them. A tensor is described as in the goldens of families,
by a hash of its name (tools/make_family_goldens.py), with these types beside F32 and U8:

    F16, BF16              floats as of F32, then rounded
    I32, I8, U8, F8_E8M0   bytes from `lowest` to `highest`, as many as the elements have
    F8_E4M3                codes of magnitudes from `lowest` to `highest`; with `signed` the bits' lowest bit is the sign
    order                  I32 [K]: column c is in group (c · step mod K) / group
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

Tensor = dict[str, Any]  # an element of a golden's "tensors"
Arrays = dict[str, np.ndarray]  # by the name after that of the module; F16 and BF16 as their values
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
AWQ_SHIFTS = np.array([0, 16, 4, 20, 8, 24, 12, 28])  # of outputs 0 to 7 in a word


@dataclass(frozen=True)
class Layout:
    """How a matrix [N, K] is stored."""

    kind: str  # gptq, gptq_v2, awq, packed, bytes, blocks, nvfp4, mxfp4
    bits: int = 4
    group: int = 0  # columns; 0: a whole row
    zeros: bool = False
    scale: str = "F16"
    whole: bool = False  # one scale for all
    floats: bool = False  # bytes: e4m3
    step: int = 0  # gptq: of the order of columns
    input_scale: float = 0.0  # of static activations

    def groups(self, columns: int) -> int:
        return -(-columns // (self.group or columns))


def words(name: str, rows: int, columns: int, lowest: int = 0, highest: int = 255) -> Tensor:
    return {"name": name, "shape": [rows, columns], "dtype": "I32", "lowest": lowest, "highest": highest}


def scales(name: str, shape: list[int], layout: Layout, largest: float) -> Tensor:
    """So that the largest code becomes about 0.35."""
    centre = 0.35 / largest
    return {"name": name, "shape": shape, "dtype": layout.scale, "centre": centre, "spread": centre / 2}


def tensors_of(module: str, rows: int, columns: int, layout: Layout) -> list[Tensor]:
    """The tensors of `module`, in the order of their names in the format."""
    groups, per_word = layout.groups(columns), 32 // layout.bits
    largest = 2 ** (layout.bits - 1) * (1.5 if layout.zeros else 1.0)
    found: list[Tensor] = []
    if layout.kind in ("gptq", "gptq_v2", "awq"):
        middle = 2 ** (layout.bits - 1) - (layout.kind == "gptq")
        byte = middle * 17 if layout.bits == 4 else middle
        zeros = (0, 255) if layout.zeros else (byte, byte)
        shape = (columns, rows // per_word) if layout.kind == "awq" else (columns // per_word, rows)
        found = [words(f"{module}.qweight", *shape), words(f"{module}.qzeros", groups, rows // per_word, *zeros),
                 scales(f"{module}.scales", [groups, rows], layout, largest)]  # fmt: skip
        if layout.step:
            found.append({"name": f"{module}.g_idx", "shape": [columns], "dtype": "order", "step": layout.step,
                          "group": layout.group})  # fmt: skip
    elif layout.kind == "packed":
        found = [words(f"{module}.weight_packed", rows, columns // per_word),
                 scales(f"{module}.weight_scale", [rows, groups], layout, largest)]  # fmt: skip
        if layout.zeros:
            found.append(words(f"{module}.weight_zero_point", rows // per_word, groups))
    elif layout.kind == "bytes" and not layout.floats:
        found = [{"name": f"{module}.weight", "shape": [rows, columns], "dtype": "I8", "lowest": 0, "highest": 255},
                 scales(f"{module}.weight_scale", [rows, groups], layout, largest)]  # fmt: skip
    elif layout.kind in ("bytes", "blocks"):
        shape = [1] if layout.whole else [rows, groups]
        if layout.kind == "blocks":
            shape = [-(-rows // 128), -(-columns // 128)]
        name = "weight_scale_inv" if layout.kind == "blocks" else "weight_scale"
        found = [small_floats(f"{module}.weight", [rows, columns], 0, 0x58, signed=True),
                 scales(f"{module}.{name}", shape, layout, 16.0)]  # fmt: skip
    else:
        found = [{"name": f"{module}.weight_packed", "shape": [rows, columns // 2], "dtype": "U8", "lowest": 0,
                  "highest": 255}]  # fmt: skip
        if layout.kind == "mxfp4":
            found.append({"name": f"{module}.weight_scale", "shape": [rows, groups], "dtype": "U8", "lowest": 119,
                          "highest": 123})  # fmt: skip
        else:
            found += [small_floats(f"{module}.weight_scale", [rows, groups], 0x30, 0x40),
                      constant(f"{module}.weight_global_scale", 20.0)]  # fmt: skip
    if layout.input_scale:
        found.append(constant(f"{module}.input_scale", layout.input_scale))
    return found


def small_floats(name: str, shape: list[int], lowest: int, highest: int, signed: bool = False) -> Tensor:
    return {"name": name, "shape": shape, "dtype": "F8_E4M3", "lowest": lowest, "highest": highest, "signed": signed}


def constant(name: str, value: float) -> Tensor:
    return {"name": name, "shape": [1], "dtype": "F32", "centre": value, "spread": 0.0}


def hashed_array(tensor: Tensor, bits: Any, units: Any) -> np.ndarray:
    """The elements of a tensor; `bits(name, count)` and `units(name, count)` are the hashes."""
    name, shape, dtype = tensor["name"], tensor["shape"], tensor["dtype"]
    count = int(np.prod(shape))
    if dtype == "order":
        columns = np.arange(count) * tensor["step"] % count
        return (columns // tensor["group"]).astype(np.int32)
    if dtype in ("F32", "F16", "BF16"):
        values = np.float32(tensor["centre"]) + np.float32(tensor["spread"]) * units(name, count)
        if dtype == "F16":
            values = values.astype(np.float16).astype(np.float32)
        if dtype == "BF16":
            values = torch.from_numpy(values).to(torch.bfloat16).float().numpy()
        return values.reshape(shape)
    width = tensor["highest"] - tensor["lowest"] + 1
    numbers = bits(name, count * (4 if dtype == "I32" else 1))
    if dtype == "F8_E4M3" and tensor["signed"]:
        data = (tensor["lowest"] + numbers // 2 % width + numbers % 2 * 128).astype(np.uint8)
    else:
        data = (tensor["lowest"] + numbers % width).astype(np.uint8)
    types = {"I32": np.uint32, "I8": np.int8}
    return data.view(types.get(dtype, np.uint8)).reshape(shape)


def float_of_e4m3(codes: np.ndarray) -> np.ndarray:
    return torch.from_numpy(codes.copy()).view(torch.float8_e4m3fn).float().numpy()


def unpack_rows(packed: np.ndarray, bits: int, order: np.ndarray | None = None) -> np.ndarray:
    """The codes in words [R, C], along the rows: [R, C · 32 / bits]."""
    shifts = (np.arange(32 // bits) * bits if order is None else order).astype(np.uint32)
    codes = (packed[:, :, None] >> shifts) & np.uint32(2**bits - 1)
    return codes.reshape(len(packed), -1)


def decoded(arrays: Arrays, layout: Layout) -> np.ndarray:
    """The matrix [N, K] in float32: one product of a code's value and its scale, as every format defines it."""
    bits = layout.bits
    if layout.kind in ("gptq", "gptq_v2", "awq"):
        order = AWQ_SHIFTS if layout.kind == "awq" else None
        packed = arrays["qweight"]
        codes = unpack_rows(packed, bits, order).T if layout.kind == "awq" else unpack_rows(packed.T, bits)
        zeros = unpack_rows(arrays["qzeros"], bits, order).T.astype(np.int64) + (layout.kind == "gptq")
        columns = np.arange(codes.shape[1]) // (layout.group or codes.shape[1])
        columns = arrays.get("g_idx", columns)
        numbers = codes.astype(np.int64) - zeros[:, columns]
        return numbers.astype(np.float32) * arrays["scales"].T[:, columns].astype(np.float32)
    if layout.kind == "packed":
        codes = unpack_rows(arrays["weight_packed"], bits).astype(np.int64)
        zeros = np.full(arrays["weight_scale"].shape, 2 ** (bits - 1))
        if layout.zeros:
            zeros = unpack_rows(np.ascontiguousarray(arrays["weight_zero_point"].T), bits).T.astype(np.int64)
        columns = np.arange(codes.shape[1]) // (layout.group or codes.shape[1])
        return (codes - zeros[:, columns]).astype(np.float32) * arrays["weight_scale"][:, columns].astype(np.float32)
    if layout.kind in ("bytes", "blocks"):
        values = float_of_e4m3(arrays["weight"]) if layout.floats else arrays["weight"].astype(np.float32)
        if layout.kind == "blocks":
            rows, columns = np.arange(values.shape[0]) // 128, np.arange(values.shape[1]) // 128
            return values * arrays["weight_scale_inv"].astype(np.float32)[rows][:, columns]
        return values * arrays["weight_scale"].astype(np.float32)
    nibbles = arrays["weight_packed"]
    values = E2M1[np.stack([nibbles & 15, nibbles >> 4], axis=-1).reshape(len(nibbles), -1)]
    if layout.kind == "mxfp4":
        scale = np.exp2(arrays["weight_scale"].astype(np.float32) - 127)
    else:
        scale = float_of_e4m3(arrays["weight_scale"]) / arrays["weight_global_scale"].astype(np.float32)
    return values * np.repeat(scale, values.shape[1] // scale.shape[1], axis=1)
