"""Models of GGUF files in block formats answer as those of the blocks' values in float32.

    gguf_blocks_test.py PROGRAM [NAME …]

So a format goes through whatever a family's reader does with rows, columns, experts and streams. The models are those of
gguf_families_test.py; matrices whose columns are whole blocks are quantised, except those that llama.cpp never does.
"""
import functools
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/model")]
import gguf  # noqa: E402
import gguf_families_test as families  # noqa: E402
import numpy  # noqa: E402
import write_gguf  # noqa: E402

TYPES = (gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.BF16)
FLOAT = gguf.GGMLQuantizationType.F32
NAMES = ("gemma3n_three_streams", "gemma4_mlp_beside_experts", "hy_v3_biases", "llama4_text_chunks", "llama_grouped",
         "qwen3_5_moe", "qwen3_next_interleaved")  # fmt: skip
NEVER_QUANTISED = ("conv1d", "ffn_gate_inp", "altup_correct", "altup_predict")
HEAD = 32  # of linear attention: a block


def with_whole_heads(golden):
    """Linear attention whose value heads are whole blocks."""
    config = golden["config"]
    if "linear_num_value_heads" not in config:
        return golden
    keys, values = config["linear_num_key_heads"] * HEAD, config["linear_num_value_heads"] * HEAD
    rows = {"in_proj_qkv.": 2 * keys + values, "conv1d.": 2 * keys + values, "in_proj_z.": values,
            "in_proj_qkvz.": 2 * keys + 2 * values, "linear_attn.norm.": HEAD}  # fmt: skip
    tensors = []
    for tensor in golden["tensors"]:
        shape = [*tensor["shape"]]
        shape[0] = next((count for part, count in rows.items() if part in tensor["name"]), shape[0])
        if "linear_attn.out_proj" in tensor["name"]:
            shape[1] = values
        tensors.append(tensor | {"shape": shape})
    sizes = {"linear_key_head_dim": HEAD, "linear_value_head_dim": HEAD}
    return golden | {"tensors": tensors, "config": config | sizes}


def type_for(kind, name, values):
    fits = values.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0] == 0
    return kind if fits and not any(part in name for part in NEVER_QUANTISED) else FLOAT


def check(program, name, kind, folder):
    golden = with_whole_heads(json.loads((ROOT / f"tests/model/goldens/family_{name}.json").read_text()))
    config, weights = families.adjusted(name, golden)
    converted = write_gguf.convert(config, weights)
    type_of = functools.partial(type_for, kind)
    for tensor, values in converted.tensors.items():
        if values.ndim > 1 and type_of(tensor, values) != FLOAT:
            blocks = gguf.quants.quantize(numpy.ascontiguousarray(values, numpy.float32), kind)
            converted.tensors[tensor] = gguf.quants.dequantize(blocks, kind)
    write_gguf.write(folder / "values.gguf", config, converted)
    write_gguf.write(folder / "blocks.gguf", config, converted, type_of)
    expected = families.answer(program, folder / "values.gguf", golden, folder)
    found = families.answer(program, folder / "blocks.gguf", golden, folder)
    is_right = found == expected and isinstance(found, list)
    print("ok  " if is_right else f"FAIL {found}\n     {expected}\n    ", name, kind.name, flush=True)
    return is_right


def main():
    program, names = sys.argv[1], sys.argv[2:] or NAMES
    with tempfile.TemporaryDirectory() as folder:
        failed = [(name, kind.name) for name in names for kind in TYPES
                  if not check(program, name, kind, pathlib.Path(folder))]  # fmt: skip
    sys.exit(f"differ: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
