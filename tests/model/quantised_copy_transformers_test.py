"""Transformers reads what `lockstep quantise` writes, and chooses the tokens that Lockstep chooses from it.

    quantised_copy_transformers_test.py LOCKSTEP [NAME …]

Needs torch, transformers and compressed-tensors. The models are those of the goldens of families.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/python")]
import torch_without_cuda  # noqa: E402, F401, before torch
import safetensors.numpy  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from hashed_tensors import hashed_tensor  # noqa: E402

NAMES = ("llama_nine_heads_llama3_tied", "llama_one_kv_head_biases_linear", "qwen3_no_window_tied", "mixtral_hub")
WEIGHTS = ("q4:8", "q8:8")
DEADLINE = 120  # seconds
TOLERANCE = 1e-4  # of the largest logit


def lockstep(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], timeout=DEADLINE, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{arguments[0]}: {done.stderr}")


def write_model(folder, golden):
    weights = {tensor["name"]: hashed_tensor(golden["seed"], tensor) for tensor in golden["tensors"]}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(golden["config"]))
    safetensors.numpy.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def tokens_of_lockstep(program, model, folder, golden):
    rows, answer = folder / "rows.json", folder / "answer.json"
    rows.write_text(json.dumps(golden["prompts"]))
    lockstep(program, "generate", "--model", model, "--ids-file", rows, "--batch-size", len(golden["prompts"]),
             "--max-new-tokens", 8, "--no-do-sample", "--dtype", "float32", "--json", answer)
    return json.loads(answer.read_text())["sequences"]


@torch.no_grad()
def chooses(model, prompt, tokens):
    """Whether transformers' model, too, takes `tokens` after `prompt`, up to logits that are as good as equal."""
    logits = model(torch.tensor([prompt + tokens]), use_cache=False).logits[0, len(prompt) - 1 : -1]
    chosen = logits.gather(1, torch.tensor(tokens)[:, None])[:, 0]
    return bool((logits.amax(dim=1) - chosen <= TOLERANCE * logits.abs().max()).all())


def answers_agree(program, name, weights):
    golden = json.loads((ROOT / f"tests/model/goldens/family_{name}.json").read_text())
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        write_model(folder / "model", golden)
        lockstep(program, "quantise", "--model", folder / "model", "--weights", weights, "--out", folder / "copy")
        ours = tokens_of_lockstep(program, folder / "copy", folder, golden)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder / "copy", dtype=torch.float32).eval()
        assert "compressed" in type(model.hf_quantizer).__name__.lower(), "transformers did not see a quantised model"
        return all(chooses(model, prompt, tokens) for prompt, tokens in zip(golden["prompts"], ours, strict=True))


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    failed = []
    for name in sys.argv[2:] or NAMES:
        for weights in WEIGHTS:
            agree = answers_agree(sys.argv[1], name, weights)
            print("ok  " if agree else "FAIL", name, weights, flush=True)
            failed += [] if agree else [f"{name} {weights}"]
    sys.exit(f"differ: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
