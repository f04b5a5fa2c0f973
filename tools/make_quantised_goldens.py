#!/usr/bin/env python3
"""Makes the goldens of the readers of quantised checkpoints: matrices packed and decoded by each format's own library.

    python tools/make_quantised_goldens.py

A development tool: it needs torch, transformers, numpy and, unpacked from their wheels into one folder of PYTHONPATH,
compressed-tensors 0.20.0 (with pydantic, loguru and psutil), auto-gptq 0.7.1 (of which only nn_modules) and autoawq
0.2.7.post3 (of which only awq/modules/linear/gemm.py and awq/utils/packing_utils.py are loaded). It writes
tests/runtime/checkpoint/goldens/quantised.json, which is committed; the tests need none of these packages.

A case is a config's `quantization_config`, the tensors of one module in the layout of the library that packed them, and
what that library decodes them to when it calculates in float32: FNV-1a 64 of the bytes and the first row. Scales keep
the type of the file; for decoding, they are converted to float32 first, because the libraries otherwise round products
to the type of the scales.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/python"))
import torch_without_cuda  # noqa: F401, E402  torch is importable where libraries of CUDA are missing

import numpy as np  # noqa: E402
import torch  # noqa: E402
from compressed_tensors.compressors import BaseCompressor  # noqa: E402
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme  # noqa: E402
from transformers.integrations.finegrained_fp8 import Fp8Dequantize  # noqa: E402

MODULE = "model.layers.0.self_attn.q_proj"
NAMES = {torch.int32: "I32", torch.int64: "I64", torch.int8: "I8", torch.uint8: "U8", torch.float16: "F16",
         torch.bfloat16: "BF16", torch.float32: "F32", torch.float8_e4m3fn: "F8_E4M3", torch.float8_e8m0fnu: "F8_E8M0"}
Tensors = dict[str, torch.Tensor]
Case = dict[str, Any]


def fnv1a(data: bytes) -> int:
    state = 0xCBF29CE484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return state


def stored(tensor: torch.Tensor) -> dict[str, Any]:
    tensor = tensor.detach().contiguous()
    flat = tensor.reshape(-1).view(torch.uint8) if tensor.numel() else tensor
    return {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "hex": flat.numpy().tobytes().hex()}


def case(name: str, config: dict[str, Any], tensors: Tensors, decoded: torch.Tensor, module: str = MODULE) -> Case:
    values = decoded.detach().to(torch.float32).contiguous().numpy()
    return {"name": name, "quantization_config": config,
            "tensors": {f"{module}.{part}": stored(tensor) for part, tensor in tensors.items()},
            "shape": list(values.shape), "fnv": str(fnv1a(values.tobytes())),
            "first_row": [float(value) for value in values[0]]}


def random_matrix(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, columns) * (0.25 + torch.rand(rows, 1))


# ---- compressed-tensors ----


def scales_of(weight: torch.Tensor, args: QuantizationArgs, rows_at_once: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and zeros for groups of columns, of `rows_at_once` rows together; not optimal, but all different."""
    rows, columns = weight.shape
    group = args.group_size if args.group_size and args.group_size > 0 else columns
    if args.strategy == "block":
        group = args.block_structure[1]
    groups, blocks = -(-columns // group), -(-rows // rows_at_once)
    padded = torch.zeros(blocks * rows_at_once, groups * group)
    padded[:rows, :columns] = weight
    parts = padded.reshape(blocks, rows_at_once, groups, group)
    low, high = parts.amin(dim=(1, 3)), parts.amax(dim=(1, 3))
    if args.symmetric:
        largest = {("int", 4): 7.5, ("int", 8): 127.5, ("float", 8): 448.0, ("float", 4): 6.0}[(args.type, args.num_bits)]
        return torch.maximum(-low, high) / largest, torch.zeros_like(low).to(torch.int8)
    scale = (high - low) / (2**args.num_bits - 1)
    half = 2 ** (args.num_bits - 1)
    return scale, torch.clamp(torch.round(-low / scale) - half, -half, half - 1).to(torch.int8)


def compressed(name: str, format: str, rows: int, columns: int, dtype: torch.dtype, activations: Any = None,
               rows_at_once: int = 1, **keys: Any) -> Case:
    args = QuantizationArgs(**keys)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, input_activations=activations)
    weight = random_matrix(rows, columns)
    scale, zeros = scales_of(weight, args, rows if args.strategy == "tensor" else rows_at_once)
    module: Tensors = {"weight": weight, "weight_scale": scale.to(dtype), "weight_zero_point": zeros}
    if args.strategy == "tensor":
        module["weight_scale"] = module["weight_scale"].reshape(1)
    if format == "nvfp4-pack-quantized":
        module["weight_global_scale"] = torch.tensor([448.0 * 6.0]) / weight.abs().max()
        local = (scale * module["weight_global_scale"]).to(torch.float8_e4m3fn)
        module["weight_scale"] = local.to(torch.float32)
    if format in ("mxfp4-pack-quantized", "mxfp8-quantized"):
        module["weight_scale"] = torch.exp2(torch.ceil(torch.log2(scale)))
    if args.symmetric:
        del module["weight_zero_point"]
    compressor = BaseCompressor.get_value_from_registry(format)
    packed = compressor.compress(module, scheme)
    as_float = {**packed}
    if as_float["weight_scale"].dtype in (torch.float16, torch.bfloat16):
        as_float["weight_scale"] = as_float["weight_scale"].float()
    decoded = compressor.decompress(as_float, scheme)["weight"]
    if format == "nvfp4-pack-quantized":  # the library's own product is in bfloat16
        float_scheme = compressor.decompress({**packed}, scheme)["weight"]
        local, whole = packed["weight_scale"].float(), packed["weight_global_scale"].float()
        ones = compressor.decompress({**packed, "weight_scale": torch.ones_like(packed["weight_scale"]),
                                      "weight_global_scale": torch.ones(1)}, scheme)["weight"].float()
        decoded = ones * (local / whole).repeat_interleave(16, dim=1)
        assert torch.allclose(decoded, float_scheme.float(), rtol=2e-2)
    group = json.loads(scheme.model_dump_json())
    config = {"quant_method": "compressed-tensors", "format": format, "ignore": ["lm_head"],
              "config_groups": {"group_0": group}}
    return case(name, config, packed, decoded)


INT8_TOKEN = QuantizationArgs(num_bits=8, type="int", strategy="token", dynamic=True)
FP8_TOKEN = QuantizationArgs(num_bits=8, type="float", strategy="token", dynamic=True)
FP8_TENSOR = QuantizationArgs(num_bits=8, type="float", strategy="tensor", dynamic=False)
FP8_GROUP = QuantizationArgs(num_bits=8, type="float", strategy="group", group_size=128, dynamic=True)


def compressed_cases() -> list[Case]:
    int4 = {"num_bits": 4, "type": "int", "strategy": "group"}
    int8_row = {"num_bits": 8, "type": "int", "strategy": "channel"}
    fp8 = {"num_bits": 8, "type": "float"}
    fp4 = {"num_bits": 4, "type": "float"}
    half, brain, single = torch.float16, torch.bfloat16, torch.float32
    return [
        compressed("w4a16", "pack-quantized", 13, 48, brain, **int4, group_size=16),
        compressed("w4a16 asymmetric", "pack-quantized", 13, 60, half, **int4, group_size=20, symmetric=False),
        compressed("w4a16 rows that end inside a word", "pack-quantized", 9, 45, single, num_bits=4, type="int", strategy="channel"),
        compressed("w8a16 asymmetric rows", "pack-quantized", 11, 43, brain, **int8_row, symmetric=False),
        compressed("w8a16 groups", "pack-quantized", 11, 48, brain, **{**int4, "num_bits": 8}, group_size=24),
        compressed("w8a8", "int-quantized", 13, 45, brain, INT8_TOKEN, **int8_row),
        compressed("w8a8 asymmetric", "int-quantized", 13, 45, half, INT8_TOKEN, **int8_row, symmetric=False),
        compressed("fp8 rows", "float-quantized", 13, 45, brain, FP8_TOKEN, **fp8, strategy="channel"),
        compressed("fp8 tensor", "float-quantized", 13, 45, single, FP8_TENSOR, **fp8, strategy="tensor"),
        compressed("fp8 blocks", "float-quantized", 20, 200, brain, FP8_GROUP, 16, **fp8, strategy="block", block_structure=[16, 128]),
        compressed("nvfp4", "nvfp4-pack-quantized", 13, 48, single, **fp4, strategy="tensor_group", group_size=16),
        compressed("mxfp4", "mxfp4-pack-quantized", 13, 64, single, **fp4, strategy="group", group_size=32),
        compressed("mxfp8", "mxfp8-quantized", 13, 64, single, **fp8, strategy="group", group_size=32),
    ]  # fmt: skip


# ---- GPTQ, AWQ ----


def gptq(name: str, bits: int, group: int, symmetric: bool, ordered: bool = False, version: int = 1) -> Case:
    from auto_gptq.nn_modules.qlinear.qlinear_cuda import QuantLinear

    rows, columns = 32, 64
    group_of = torch.arange(columns) // group
    if ordered:
        group_of = group_of[torch.randperm(columns)]
    groups, half = columns // group, 2 ** (bits - 1)
    codes = torch.randint(0, 2**bits, (rows, columns))
    scales = (0.01 + 0.1 * torch.rand(rows, groups)).to(torch.float16)
    zeros = torch.full((rows, groups), half) if symmetric else torch.randint(1, 2**bits, (rows, groups))
    weight = (codes - zeros[:, group_of]) * scales[:, group_of].float()
    linear = torch.nn.Linear(columns, rows, bias=False)
    linear.weight.data = weight
    packed = QuantLinear(bits, group, columns, rows, bias=False, weight_dtype=torch.float16)
    packed.pack(linear, scales.float().clone(), zeros.float().clone(), group_of.to(torch.int32))
    tensors = {"qweight": packed.qweight, "qzeros": packed.qzeros, "scales": scales.t().contiguous(),
               "g_idx": group_of.to(torch.int32)}
    packed.scales, packed.autogptq_cuda_available = tensors["scales"].float(), False
    decoded = packed(torch.eye(columns)).t()
    assert torch.equal(decoded, weight)
    config = {"quant_method": "gptq", "bits": bits, "group_size": group if groups > 1 else -1, "sym": symmetric,
              "desc_act": ordered, "checkpoint_format": "gptq"}
    if version == 2:  # zeros as they are
        ones = sum(1 << (bits * i) for i in range(32 // bits))
        words = tensors["qzeros"].numpy().astype(np.int64) % 2**32 + ones
        tensors["qzeros"] = torch.from_numpy(words.astype(np.uint32).view(np.int32))
        config["checkpoint_format"] = "gptq_v2"
    return case(name, config, tensors, decoded)


def awq_library() -> tuple[types.ModuleType, types.ModuleType]:
    """Its modules for packing, without the package, which imports much more."""
    found = next(Path(folder) / "awq" for folder in sys.path if (Path(folder) / "awq/utils/packing_utils.py").exists())
    for name in ("awq", "awq.utils", "awq.utils.module", "awq.utils.utils", "awq.modules", "awq.modules.linear"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["awq.utils.module"].try_import = lambda name: (None, "")
    sys.modules["awq.utils.utils"].get_best_device = lambda: "cpu"

    def load(name: str) -> types.ModuleType:
        spec = importlib.util.spec_from_file_location(name, found.parent / (name.replace(".", "/") + ".py"))
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    packing = load("awq.utils.packing_utils")
    return load("awq.modules.linear.gemm"), packing


def awq(name: str, group: int) -> Case:
    gemm, packing = awq_library()
    rows, columns = 32, 60
    groups = columns // group
    codes, zeros = torch.randint(0, 16, (rows, columns)), torch.randint(0, 16, (rows, groups))
    scales = (0.01 + 0.1 * torch.rand(rows, groups)).to(torch.float16)
    group_of = torch.arange(columns) // group
    linear = torch.nn.Linear(columns, rows, bias=False)
    linear.weight.data = (codes - zeros[:, group_of]) * scales[:, group_of].float()
    packed = gemm.WQLinear_GEMM.from_linear(linear, 4, group, scales=scales.t().contiguous(), zeros=zeros.t().contiguous())
    tensors = {"qweight": packed.qweight, "qzeros": packed.qzeros, "scales": packed.scales}
    decoded = packing.dequantize_gemm(packed.qweight, packed.qzeros, packed.scales.float(), 4, group).t()
    assert torch.equal(decoded, linear.weight.data)
    config = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"}
    return case(name, config, tensors, decoded)


# ---- FP8, MXFP4 ----


def fp8(name: str, scale_type: torch.dtype) -> Case:
    rows, columns = 128, 256
    weight = torch.randn(rows, columns).to(torch.float8_e4m3fn)
    scale = torch.exp2(torch.randint(-9, -5, (1, 2)).float()).to(scale_type)
    decoded = Fp8Dequantize(None)._dequantize_one(weight, scale, output_dtype=torch.float32)
    tensors = {"weight": weight[:16], "weight_scale_inv": scale}
    config = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    return case(name, config, tensors, decoded[:16])


def main() -> None:
    torch.manual_seed(28)
    cases = [
        *compressed_cases(),
        gptq("gptq", 4, 16, True),
        gptq("gptq asymmetric", 4, 32, False),
        gptq("gptq v2 in 8 bits", 8, 32, False, version=2),
        gptq("gptq of whole rows", 8, 64, True),
        gptq("gptq in another order", 4, 16, False, ordered=True),
        awq("awq", 20),
        fp8("fp8 of DeepSeek", torch.float32),
        fp8("fp8 of DeepSeek with exponents", torch.float8_e8m0fnu),
    ]
    path = ROOT / "tests/runtime/checkpoint/goldens/quantised.json"
    path.write_text(json.dumps({"cases": cases}, indent=1) + "\n")
    print(path, path.stat().st_size, "bytes,", len(cases), "cases")


if __name__ == "__main__":
    main()
