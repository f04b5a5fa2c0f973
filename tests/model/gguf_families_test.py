"""Every family that llama.cpp has gives the same tokens from a GGUF file.

    gguf_families_test.py PROGRAM [NAME …]

The models are those of tests/model/goldens: the golden has transformers' answers in float32, and tools/write_gguf.py
writes its weights as a GGUF file. The program must give the same tokens. A GGUF file cannot state everything that a
config.json can; a model with such a key gets another value of it (ADJUSTED) and must answer as from a directory.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import numpy  # noqa: E402
import safetensors.numpy  # noqa: E402
import write_gguf  # noqa: E402
from hashed_tensors import hashed_tensor  # noqa: E402

NO_WINDOW = {"sliding_window": None, "use_sliding_window": False}
NO_LIST = {"layer_types": None, "mlp_layer_types": None}
ADJUSTED = {
    "bloom_twelve_heads_residual_after_norm": {"apply_residual_connection_post_layernorm": False},
    "cohere2_mixed_windows": {"sliding_window_pattern": 4, "layer_types": None},
    "dots1_windows": {"sliding_window": None, "attention_bias": False, "layer_types": None},
    "gemma2_alternating_windows": {"query_pre_attn_scalar": 16},
    "gemma2_named_layers": {"query_pre_attn_scalar": 16, "layer_types": None},
    "gemma3_every_sixth_full": {"query_pre_attn_scalar": 16},
    "gemma3_nested_ropes": {"query_pre_attn_scalar": 16},
    "gemma3n_three_streams": {"vocab_size_per_layer_input": 259},
    "glm4_moe_lite_one_dense": {"first_k_dense_replace": 1},
    "gpt2_scaled_by_layer": {"scale_attn_by_inverse_layer_idx": False},
    "gpt_oss_mxfp4": {"swiglu_limit": 7.0},
    "gpt_oss_plain": {"swiglu_limit": 7.0},
    "llama4_text_chunks": {"use_qk_norm": True, "no_rope_layers": [1, 1, 1, 0], "attention_chunk_size": 8192,
                           "floor_scale": 8192, "attn_scale": 0.1},
    "mistral4_scaled_queries": {"rope_parameters": {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0,
        "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 8}},
    "mistral_window": NO_WINDOW,
    "mixtral_packed_window": NO_WINDOW,
    "qwen2_upper_windows_tied": NO_WINDOW | NO_LIST,
    "qwen3_5_moe": {"full_attention_interval": 2},
    "qwen3_mixed_windows_biases": NO_WINDOW | NO_LIST,
    "qwen3_moe_three_kv_heads": NO_WINDOW | NO_LIST,
    "qwen3_moe_unnormed_shares": {"norm_topk_prob": True},
    "qwen3_next_interleaved": {"decoder_sparse_step": 1, "mlp_only_layers": []},
    "starcoder2_window_tied": NO_WINDOW,
}
# What llama.cpp's files or its conversion do not have.
WITHOUT_COUNTERPART = {
    "deepseek_v2_greedy_biases": "biases of latent attention",
    "deepseek_v3_halves_biases": "biases of latent attention",
    "ernie4_5_moe_dense_ends": "a last layer without experts",
    "exaone_moe_mixed_windows": "a last layer without experts",
    "falcon_sequential": "attention before the MLP",
    "llama4_text_normed_heads": "experts in the first layer of two",
    "olmo3_windows_yarn": "two bases of frequencies",
    "qwen2_moe_shared_expert": "layers without experts",
    "qwen2_moe_sparse_steps": "layers without experts",
    "qwen3_moe_with_dense_layers": "layers without experts",
    "smollm3_windows_tied": "other layers without a rope than every fourth",
}


def cases(names):
    for path in sorted((ROOT / "tests/model/goldens").glob("family_*.json")):
        name = path.stem.removeprefix("family_")
        if name in WITHOUT_COUNTERPART or names and name not in names:
            continue
        golden = json.loads(path.read_text())
        if golden["config"]["model_type"] in write_gguf.ARCHITECTURES:
            yield name, golden


def answer(program, model, golden, folder):
    """The tokens of the golden's prompts, or what went wrong."""
    prompts, result = folder / "prompts.json", folder / "answers.json"
    prompts.write_text(json.dumps(golden["prompts"]))
    words = ["generate", "--model", model, "--ids-file", prompts, "--max-new-tokens", len(golden["tokens"][0]),
             "--ignore-eos", "--no-do-sample", "--dtype", "float32", "--json", result]  # fmt: skip
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        return f"exit {done.returncode}: {done.stderr.strip()}"
    return json.loads(result.read_text())["sequences"]


def expected_tokens(program, golden, config, weights, folder):
    if config == golden["config"]:
        return golden["tokens"]
    directory = folder / "directory"
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    safetensors.numpy.save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    return answer(program, directory, golden, folder)


def with_experts_everywhere(config, weights):
    """The layers without experts get those of the last layer."""
    last = f"model.layers.{config['num_hidden_layers'] - 1}.mlp."
    experts = {name.removeprefix(last): values for name, values in weights.items() if name.startswith(last)}
    result = {name: values for name, values in weights.items() if ".mlp." not in name}
    for layer in range(config["num_hidden_layers"]):
        result |= {f"model.layers.{layer}.mlp.{name}": values for name, values in experts.items()}
    return result


def with_full_table(config, weights):
    """The inputs of layers get zeros for the tokens that they lack, as in llama.cpp's conversion."""
    table = weights["model.embed_tokens_per_layer.weight"]
    padding = [(0, config["vocab_size"] - len(table)), (0, 0)]
    return weights | {"model.embed_tokens_per_layer.weight": numpy.pad(table, padding)}


ADJUSTED_WEIGHTS = {"gemma3n_three_streams": with_full_table, "qwen3_next_interleaved": with_experts_everywhere}
ADDED = ("first_k_dense_replace", "full_attention_interval", "sliding_window_pattern")  # to a config without them


def adjusted(name, golden):
    """The golden's config and weights as a GGUF file can have them."""
    weights = {tensor["name"]: hashed_tensor(golden["seed"], tensor) for tensor in golden["tensors"]}
    config = golden["config"] | {key: value for key, value in ADJUSTED.get(name, {}).items()
                                 if key in golden["config"] or key in ADDED}  # fmt: skip
    return config, ADJUSTED_WEIGHTS.get(name, lambda _, same: same)(config, weights)


def check(program, name, golden, folder):
    config, weights = adjusted(name, golden)
    model = folder / f"{name}.gguf"
    write_gguf.write(model, config, write_gguf.convert(config, weights))
    found, expected = answer(program, model, golden, folder), expected_tokens(program, golden, config, weights, folder)
    model.unlink()
    is_right = found == expected and isinstance(found, list)
    print("ok  " if is_right else f"FAIL {found}\n     {expected}\n    ", name, flush=True)
    return is_right


def main():
    program, names = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        failed = [name for name, golden in cases(names) if not check(program, name, golden, pathlib.Path(folder))]
    sys.exit(f"differ: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
