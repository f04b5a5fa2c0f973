#!/usr/bin/env python3
"""Makes the goldens of quantised models: results of Hugging Face transformers, in float32, for their decoded weights.

    python tools/make_quantised_model_goldens.py [--only NAME …]

A development tool: it needs torch, transformers, safetensors and numpy. It writes
tests/model/goldens/quantised/family_*.json, which are committed, in the form of tools/make_family_goldens.py: the tests
rebuild the checkpoint, with its quantised tensors, from the hash. tools/quantised_layouts.py has the layouts and decodes
them; before anything is written, its decoder must agree to the bit with the libraries of the formats, on the matrices
of tests/runtime/checkpoint/goldens/quantised.json.

Where a format quantises activations, transformers' model quantises the inputs of its linear modules in the same way
(`rounded`): symmetric, the largest magnitude of a token, or of 128 of its columns, becomes 127 or 448.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/python"))
import torch_without_cuda  # noqa: F401, E402  torch is importable where libraries of CUDA are missing

import hashed_tensors  # noqa: E402
import make_family_goldens as families  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from family_variants import LLAMA, MIXTRAL, QWEN3_MOE, Variant  # noqa: E402
from quantised_layouts import Layout, decoded, hashed_array, tensors_of  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402

GOLDENS = ROOT / "tests/model/goldens/quantised"
LIBRARIES = ROOT / "tests/runtime/checkpoint/goldens/quantised.json"
LEAST_TIE_DISTANCES = {"floats": 1e-7, "integers": 4e-7}  # of the largest value beside it
PROMPT_LENGTHS, NEW_TOKENS = [1, 8, 23], 16

SIZES = {"hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 2, "vocab_size": 128,
         "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 16, "torch_dtype": "float16",
         "tie_word_embeddings": False, "rms_norm_eps": 1e-5}  # fmt: skip
WIDER = {"intermediate_size": 144}  # a multiple of 24


@dataclass(frozen=True)
class Quantised:
    config: dict[str, Any]  # quantization_config
    layout: Layout
    sizes: dict[str, Any] = field(default_factory=dict)
    base: dict[str, Any] = field(default_factory=lambda: LLAMA)
    activations: str = ""  # int8, e4m3, e4m3 groups, e4m3 static
    prompt_lengths: list[int] = field(default_factory=lambda: PROMPT_LENGTHS)
    new_tokens: int = NEW_TOKENS
    # Endings of modules with another layout; None: elements.
    others: dict[str, Layout | None] = field(default_factory=dict)
    stacks: str = ""  # experts in tensors [experts, ...]: "nested" as NAME.weight_scale, "flat" as NAME_scale


def compressed(form: str, weights: dict[str, Any], activations: dict[str, Any] | None = None) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": {"symmetric": True, "dynamic": False, **weights},
             "input_activations": activations, "output_activations": None}  # fmt: skip
    return {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed",
            "ignore": ["lm_head", "re:.*block_sparse_moe.gate$"], "config_groups": {"group_0": group}}  # fmt: skip


def gptq(bits: int, group: int, **more: Any) -> dict[str, Any]:
    return {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": True, "desc_act": False, **more}


INT4 = {"num_bits": 4, "type": "int", "strategy": "group"}
INT8 = {"num_bits": 8, "type": "int", "strategy": "channel"}
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
FP4 = {"num_bits": 4, "type": "float"}
BY_TOKEN = {"strategy": "token", "symmetric": True, "dynamic": True}

MODELS = {
    "gptq": Quantised(gptq(4, 32), Layout("gptq", group=32)),
    "gptq_rules": Quantised(
        gptq(8, 24, sym=False, lm_head=True, checkpoint_format="gptq_v2",
             dynamic={"-:.*\\.1\\.self_attn\\.o_proj": {}, "+:.*down_proj": {"bits": 4, "group_size": 48}}),
        Layout("gptq_v2", 8, 24, zeros=True), WIDER,
        others={"layers.1.self_attn.o_proj": None, "down_proj": Layout("gptq_v2", 4, 48, zeros=True)}),
    "gptq_in_another_order": Quantised(
        gptq(4, 32, sym=False, desc_act=True), Layout("gptq", group=32, zeros=True, step=7)),
    "awq": Quantised(
        {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm",
         "modules_to_not_convert": ["lm_head"]}, Layout("awq", group=32, zeros=True)),
    "w4a16": Quantised(compressed("pack-quantized", {**INT4, "group_size": 24, "symmetric": False}),
                       Layout("packed", 4, 24, zeros=True, scale="BF16"), {**WIDER, "torch_dtype": "bfloat16"}),
    "w4a16_experts": Quantised(compressed("pack-quantized", {**INT4, "group_size": 32}),
                               Layout("packed", 4, 32), base=MIXTRAL),
    "w4a16_tied": Quantised(compressed("pack-quantized", {**INT4, "group_size": 32}), Layout("packed", 4, 32),
                            {"tie_word_embeddings": True}),
    "w8a16": Quantised(compressed("pack-quantized", INT8), Layout("packed", 8)),
    "w8a8": Quantised(compressed("int-quantized", INT8, {"num_bits": 8, "type": "int", **BY_TOKEN}),
                      Layout("bytes", 8), activations="int8"),
    "fp8_rows": Quantised(compressed("float-quantized", FP8, {"num_bits": 8, "type": "float", **BY_TOKEN}),
                          Layout("bytes", 8, floats=True, scale="BF16"), {"torch_dtype": "bfloat16"},
                          activations="e4m3"),
    "fp8_static": Quantised(
        compressed("float-quantized", {**FP8, "strategy": "tensor"},
                   {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}),
        Layout("bytes", 8, floats=True, scale="F32", whole=True, input_scale=0.03), activations="e4m3 static"),
    "fp8_blocks": Quantised({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
                            Layout("blocks", 8, 128, floats=True, scale="F32"), activations="e4m3 groups"),
    "w8a8_experts": Quantised(compressed("int-quantized", INT8, {"num_bits": 8, "type": "int", **BY_TOKEN}),
                              Layout("bytes", 8), {"num_local_experts": 5}, base=MIXTRAL, activations="int8",
                              prompt_lengths=[1, 7], new_tokens=8),  # more values meet more near ties
    "fp8_blocks_experts": Quantised(
        {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128],
         "modules_to_not_convert": ["lm_head", "mlp.gate"]},
        Layout("blocks", 8, 128, floats=True, scale="F32"), {"moe_intermediate_size": 144, "num_experts": 5},
        base=QWEN3_MOE, activations="e4m3 groups"),
    "w4a16_stacks": Quantised(
        {**compressed("pack-quantized", {**INT4, "group_size": 24, "symmetric": False}),
         "ignore": ["lm_head", "re:.*mlp.gate$"]}, Layout("packed", 4, 24, zeros=True), {"moe_intermediate_size": 48, "num_experts": 5},
        base=QWEN3_MOE, stacks="nested"),
    "fp8_blocks_stacks": Quantised(
        {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128],
         "modules_to_not_convert": ["lm_head", "mlp.gate"]},
        Layout("blocks", 8, 128, floats=True, scale="F32"), {"moe_intermediate_size": 144, "num_experts": 5},
        base=QWEN3_MOE, activations="e4m3 groups", stacks="flat", prompt_lengths=[1, 7], new_tokens=8),
    "nvfp4": Quantised(compressed("nvfp4-pack-quantized", {**FP4, "strategy": "tensor_group", "group_size": 16}),
                       Layout("nvfp4", 4, 16)),
    "mxfp4": Quantised(compressed("mxfp4-pack-quantized", {**FP4, "strategy": "group", "group_size": 32}),
                       Layout("mxfp4", 4, 32)),
}  # fmt: skip


def is_near_tie(codes: torch.Tensor, floats: bool) -> bool:
    """Whether some value lies so near the middle of two codes that another order of sums may round it otherwise. Below
    1 codes of floats are so close that it does not matter."""
    magnitudes = codes.abs().double()
    steps = 2.0 ** (torch.floor(torch.log2(magnitudes.clamp(min=1.0))) - 3) if floats else 1.0
    least = LEAST_TIE_DISTANCES["floats" if floats else "integers"] * magnitudes.amax(dim=-1, keepdim=True)
    is_near = (magnitudes / steps % 1 - 0.5).abs() * steps < least
    return bool((is_near & (magnitudes > (1 if floats else 0))).any())


NEAR_TIES: list[bool] = []  # of each call of `rounded`


def rounded(x: torch.Tensor, activations: str, input_scale: float) -> torch.Tensor:
    """The activations that a product reads, decoded."""

    def to_e4m3(values: torch.Tensor) -> torch.Tensor:
        NEAR_TIES.append(is_near_tie(values, floats=True))
        return torch.clamp(values, -448.0, 448.0).to(torch.float8_e4m3fn).float()

    if activations == "e4m3 static":
        return to_e4m3(x / input_scale) * input_scale
    if activations == "e4m3 groups":
        parts = [rounded(part, "e4m3", 0.0) for part in x.split(128, dim=-1)]
        return torch.cat(parts, dim=-1)
    largest = x.abs().amax(dim=-1, keepdim=True)
    if activations == "int8":
        scale = largest / 127
        NEAR_TIES.append(is_near_tie(torch.nan_to_num(x / scale), floats=False))
        return torch.where(scale > 0, torch.round(x / scale) * scale, 0.0)
    scale = largest / 448
    return torch.where(scale > 0, to_e4m3(x / scale) * scale, 0.0)


def assert_decodes_as_libraries() -> None:
    types = {"I32": np.uint32, "I8": np.int8, "U8": np.uint8, "F16": np.float16, "F32": np.float32, "I64": np.int64}
    kinds = {"pack-quantized": "packed", "int-quantized": "bytes", "float-quantized": "bytes",
             "nvfp4-pack-quantized": "nvfp4", "mxfp4-pack-quantized": "mxfp4"}  # fmt: skip
    checked = set()
    for case in json.loads(LIBRARIES.read_text())["cases"]:
        config, arrays = case["quantization_config"], {}
        for name, tensor in case["tensors"].items():
            data = np.frombuffer(bytes.fromhex(tensor["hex"]), types.get(tensor["dtype"], np.uint8))
            if tensor["dtype"] == "BF16":
                data = (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
            arrays[name.rpartition(".")[2]] = data.reshape(tensor["shape"])
        if config["quant_method"] == "compressed-tensors":
            weights = config["config_groups"]["group_0"]["weights"]
            if config["format"] not in kinds or weights["strategy"] == "block" or "asymmetric" in case["name"]:
                continue
            if arrays.get("weight_shape", [0, 0])[1] * weights["num_bits"] % 32:
                continue  # rows that end inside a word
            group = weights["group_size"] if weights["strategy"].endswith("group") else 0
            layout = Layout(kinds[config["format"]], weights["num_bits"], group, floats=weights["type"] == "float")
        elif config["quant_method"] == "fp8":
            if case["tensors"]["model.layers.0.self_attn.q_proj.weight_scale_inv"]["dtype"] != "F32":
                continue
            layout = Layout("blocks", 8, 128, floats=True)
        else:
            kind = config["quant_method"] if config.get("checkpoint_format") != "gptq_v2" else "gptq_v2"
            layout = Layout(kind, config["bits"], max(0, config["group_size"]))
        values = decoded(arrays, layout)
        assert values.astype(np.float32)[0].tolist() == case["first_row"], case["name"]
        state = hashed_tensors.fnv1a_bytes(values.astype(np.float32).tobytes())
        assert str(state) == case["fnv"], case["name"]
        checked.add(layout.kind)
    assert checked == {"gptq", "gptq_v2", "awq", "packed", "bytes", "blocks", "nvfp4", "mxfp4"}, checked


class RoundedExperts(TorchFunctionMode):
    """Rounds the input of every linear function while a module of experts runs."""

    def __init__(self, model: Quantised):
        super().__init__()
        self.model = model

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.nn.functional.linear:
            args = (rounded(args[0], self.model.activations, self.model.layout.input_scale), *args[1:])
        return function(*args, **(kwargs or {}))

    def attach(self, experts: torch.nn.Module) -> None:
        experts.register_forward_pre_hook(lambda *_: self.__enter__() and None)
        experts.register_forward_hook(lambda *_: self.__exit__(None, None, None))


def part_of(module: str, name: str) -> str:
    """ "weight_scale" of NAME.weight_scale or NAME_scale."""
    rest = name.removeprefix(module)
    return rest[1:] if rest.startswith(".") else f"weight{rest}"


class Builder:
    """One model: its tensors, and transformers' model of the decoded ones."""

    def __init__(self, name: str, model: Quantised):
        self.name, self.model = name, model
        self.config = {**model.base, **SIZES, **model.sizes, "quantization_config": model.config}
        plain = {key: value for key, value in self.config.items() if key != "quantization_config"}
        self.variant = Variant(f"Llama ({name})", plain)
        self.elements, self.quantised = [], {}
        for tensor in families.tensors_of(self.variant):
            layout = self.layout_of(tensor["name"])
            if layout is None:
                self.elements.append(tensor)
            elif model.stacks and ".experts." in tensor["name"]:
                self.add_stack(tensor, layout)
            else:
                module = tensor["name"].removesuffix(".weight")
                self.quantised[module] = (layout, tensors_of(module, *tensor["shape"], layout))
        self.tensors = self.elements + [tensor for _, parts in self.quantised.values() for tensor in parts]

    def add_stack(self, tensor: dict[str, Any], layout: Layout) -> None:
        """Adds the stacks of all experts when the first of them comes."""
        before, _, rest = tensor["name"].partition(".experts.")
        number, _, projection = rest.removesuffix(".weight").partition(".")
        rows, columns = tensor["shape"]
        if number != "0" or projection == "up_proj":
            return
        if projection == "gate_proj":
            projection, rows = "gate_up_proj", 2 * rows
        module = f"{before}.experts.{projection}"
        parts = tensors_of(module, rows, columns, layout)
        for part in parts:
            part["shape"] = [self.config["num_experts"], *part["shape"]]
            if self.model.stacks == "flat":
                part["name"] = part["name"].replace(".weight_", "_").removesuffix(".weight")
        self.quantised[module] = (layout, parts)

    def weights_of(self, module: str, arrays: dict[str, np.ndarray], layout: Layout) -> dict[str, np.ndarray]:
        """The decoded matrices of a module, by name."""
        if not self.model.stacks or ".experts." not in module:
            return {f"{module}.weight": np.ascontiguousarray(decoded(arrays, layout))}
        before, _, projection = module.partition(".experts.")
        found = {}
        for expert in range(self.config["num_experts"]):
            matrix = decoded({part: stack[expert] for part, stack in arrays.items()}, layout)
            names = ["gate_proj", "up_proj"] if projection == "gate_up_proj" else [projection]
            for name, rows in zip(names, np.split(matrix, len(names)), strict=True):
                found[f"{before}.experts.{expert}.{name}.weight"] = np.ascontiguousarray(rows)
        return found

    def layout_of(self, name: str) -> Layout | None:
        module = name.removesuffix(".weight")
        if module == "lm_head":
            return self.model.layout if self.model.config.get("lm_head") else None
        matrix = module.endswith("_proj") or ".experts." in module
        if not name.endswith(".weight") or not matrix:
            return None
        for ending, layout in self.model.others.items():
            if module.endswith(ending):
                return layout
        return self.model.layout

    def load(self, seed: int) -> transformers.PreTrainedModel:
        weights = {tensor["name"]: hashed_tensors.hashed_tensor(seed, tensor) for tensor in self.elements}
        for module, (layout, parts) in self.quantised.items():
            arrays = {part_of(module, part["name"]): hashed_array(
                part, lambda *of: hashed_tensors.hashed_bits(seed, *of), lambda *of: hashed_tensors.hashed_units(seed, *of))
                for part in parts}  # fmt: skip
            weights.update(self.weights_of(module, arrays, layout))
        model = families.load_model(self.variant.config, weights)
        if self.model.activations:
            model.set_experts_implementation("eager")
            for name, module in model.named_modules():
                if isinstance(module, torch.nn.Linear) and name in self.quantised:
                    module.register_forward_pre_hook(lambda _, inputs: (
                        rounded(inputs[0], self.model.activations, self.model.layout.input_scale),))  # fmt: skip
                if name.endswith(".experts"):
                    RoundedExperts(self.model).attach(module)
        return model

    def golden(self) -> dict[str, Any]:
        jobs = families.prompts_of(self.config["vocab_size"], self.model.prompt_lengths, "prompts")
        for seed in range(1, 2000):
            model = self.load(seed)
            runs = []
            NEAR_TIES.clear()
            for prompt in reversed(jobs):
                run = families.clear_greedy(model, prompt, self.model.new_tokens, families.MOST_REPEATS)
                if run is None or len(set(run[0])) < families.LEAST_DIFFERENT or any(NEAR_TIES):
                    break
                runs.insert(0, run)
            if len(runs) == len(jobs):
                return self.described(seed, jobs, runs)
        raise SystemExit(f"{self.name}: no seed gave clear choices")

    def described(self, seed: int, jobs: list[list[int]], runs: list[Any]) -> dict[str, Any]:
        scale = max(float(np.abs(logits).max()) for _, logits in runs)
        steps = [0, self.model.new_tokens - 1]
        margin = min(float(families.margins_of(logits).min()) for _, logits in runs) / scale
        return {
            "family": "Llama", "window": "none", "stored": "hub", "config": self.config, "seed": seed,
            "tensors": self.tensors, "prompts": jobs, "tokens": [tokens for tokens, _ in runs],
            "scale": families.significant(np.array([scale]))[0],
            "least_margin_of_scale": families.significant(np.array([margin]), 3)[0],
            "logit_steps": steps,
            "logits": [families.significant(logits[steps]) for _, logits in runs],
            "versions": families.versions(),
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the goldens of quantised models.")
    parser.add_argument("--only", nargs="+", default=list(MODELS), choices=list(MODELS), metavar="NAME")
    chosen = parser.parse_args().only
    assert_decodes_as_libraries()
    for name in chosen:
        families.write(GOLDENS / f"family_{name}.json", Builder(name, MODELS[name]).golden())


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    main()
