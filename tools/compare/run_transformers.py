"""Serves protocol.py with Hugging Face transformers and a static cache."""
from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from typing import Any

import protocol

INSTALL = "pip install torch transformers"


class Engine:
    def __init__(self, setup: protocol.Setup) -> None:
        if any(importlib.util.find_spec(name) is None for name in ("torch", "transformers")):
            raise protocol.Missing(INSTALL)
        versions = [f"{name} {importlib.metadata.version(name)}" for name in ("transformers", "torch")]
        self.version = ", ".join(versions) + ", static cache"
        if not setup:
            return
        import torch
        import transformers

        self._torch, self._transformers, self._setup = torch, transformers, setup
        torch.set_num_threads(setup["threads"])
        self._model = transformers.AutoModelForCausalLM.from_pretrained(setup["model"], torch_dtype=torch.bfloat16)
        self._model.eval()

    def _cache(self, job: protocol.Job) -> Any:
        tokens = job["prompt_tokens"] + job.get("new_tokens", 0) + 1
        static = self._transformers.StaticCache
        try:
            return static(config=self._model.config, max_cache_len=tokens)
        except TypeError:  # before 4.56
            return static(config=self._model.config, max_batch_size=job["batch"], max_cache_len=tokens, device="cpu",
                          dtype=self._torch.bfloat16)

    def _step(self, cache: Any, ids: Any, position: int) -> Any:
        where = self._torch.arange(position, position + ids.shape[1])
        logits = self._model(input_ids=ids, past_key_values=cache, cache_position=where, use_cache=True,
                             logits_to_keep=1).logits
        return logits[:, -1:].argmax(-1)

    def run(self, job: protocol.Job) -> tuple[float, int]:
        with self._torch.inference_mode():
            cache = self._cache(job)
            ids = self._torch.tensor(protocol.prompts(job, self._setup["vocabulary"]))
            last: dict[str, Any] = {}

            def prefill() -> None:
                last["ids"] = self._step(cache, ids, 0)

            def decode() -> None:
                for step in range(protocol.decode_steps(job)):
                    last["ids"] = self._step(cache, last["ids"], job["prompt_tokens"] + step)

            prefill_s = protocol.seconds_of(prefill)
            if job["kind"] == "prefill":
                return prefill_s, job["batch"] * job["prompt_tokens"]
            return protocol.seconds_of(decode), job["batch"] * protocol.decode_steps(job)


if __name__ == "__main__":
    sys.exit(protocol.serve(Engine))
