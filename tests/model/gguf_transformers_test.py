"""Files of tools/write_gguf.py are those of llama.cpp: transformers' own reader of GGUF makes the same models of them.

    gguf_transformers_test.py [NAME …]

Needs torch, transformers and gguf. A model is right if it chooses every token of the golden.
"""
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/python")]
import torch_without_cuda  # noqa: E402, F401, before torch
import torch  # noqa: E402
import transformers  # noqa: E402
import write_gguf  # noqa: E402
from hashed_tensors import hashed_tensor  # noqa: E402

# The architectures that transformers reads, with the golden's config: of metadata it reads only a part. It does not
# divide Falcon's groups of heads, and not Phi-3's frequencies.
READ_BY_TRANSFORMERS = ("llama_grouped", "llama_nine_heads_llama3_tied", "qwen2_no_window", "qwen3_no_window_tied",
                        "qwen3_moe_three_kv_heads", "gpt2_bare_names", "bloom_eight_heads", "nemotron_three_kv_heads",
                        "gemma2_named_layers", "gemma3_every_sixth_full", "starcoder2_window_tied", "stablelm_parallel",
                        "stablelm_sequential", "minimax_m2_three_kv_heads", "falcon_one_kv_head_tied",
                        "phi3_window_partial_rotary", "gemma2_alternating_windows", "gpt2_scaled_by_layer")  # fmt: skip


@torch.no_grad()
def chooses_the_tokens(model, golden):
    for prompt, tokens in zip(golden["prompts"], golden["tokens"]):
        logits = model(torch.tensor([prompt + tokens]), use_cache=False).logits[0]
        if logits[len(prompt) - 1 : -1].argmax(-1).tolist() != tokens:
            return False
    return True


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    failed = []
    for name in sys.argv[1:] or READ_BY_TRANSFORMERS:
        golden = json.loads((ROOT / f"tests/model/goldens/family_{name}.json").read_text())
        weights = {tensor["name"]: hashed_tensor(golden["seed"], tensor) for tensor in golden["tensors"]}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "m.gguf"
            write_gguf.write(path, golden["config"], write_gguf.convert(golden["config"], weights))
            (pathlib.Path(folder) / "config.json").write_text(json.dumps(golden["config"]))
            config = transformers.AutoConfig.from_pretrained(folder)
            try:
                model = transformers.AutoModelForCausalLM.from_pretrained(
                    folder, gguf_file="m.gguf", config=config, dtype=torch.float32)  # fmt: skip
                right = chooses_the_tokens(model.eval(), golden)
            except Exception as error:  # noqa: BLE001
                print(f"  {type(error).__name__}: {error}"[:300])
                right = False
        print("ok  " if right else "FAIL", name, flush=True)
        failed += [] if right else [name]
    sys.exit(f"differ: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
