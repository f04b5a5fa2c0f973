"""Serves protocol.py with llama-cpp-python (https://pypi.org/project/llama-cpp-python)."""
from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import sys
from typing import Any

import protocol

INSTALL = "pip install llama-cpp-python (compiles for some minutes; needs cmake and a C++ compiler)"


class Engine:
    """One context per job, so that none has more slots or a longer cache than needed."""

    def __init__(self, setup: protocol.Setup) -> None:
        if importlib.util.find_spec("llama_cpp") is None:
            raise protocol.Missing(INSTALL)
        self.version = "llama-cpp-python " + importlib.metadata.version("llama-cpp-python")
        if not setup:
            return
        import llama_cpp
        import numpy

        self._llama, self._numpy, self._setup = llama_cpp, numpy, setup
        self._quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self._quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        parameters = llama_cpp.llama_model_default_params()
        parameters.n_gpu_layers = 0
        self._model = llama_cpp.llama_model_load_from_file(setup["gguf"].encode(), parameters)
        if not self._model:
            raise RuntimeError(f"llama.cpp cannot load {setup['gguf']}")

    def _context(self, job: protocol.Job) -> Any:
        parameters = self._llama.llama_context_default_params()
        tokens = job["prompt_tokens"] + job.get("new_tokens", 0) + 1
        parameters.n_ctx = -(-tokens // 256) * 256 * job["batch"]
        parameters.n_batch = parameters.n_ctx
        parameters.n_ubatch = 512
        parameters.n_seq_max = job["batch"]
        parameters.n_threads = parameters.n_threads_batch = self._setup["threads"]
        context = self._llama.llama_init_from_model(self._model, parameters)
        if not context:
            raise RuntimeError("llama.cpp cannot make a context")
        return context

    def _decode(self, context: Any, rows: list[tuple[int, int, int, bool]]) -> None:
        """Rows of (id, position, sequence, whether to compute its logits)."""
        batch = self._llama.llama_batch_init(len(rows), 0, 1)
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, wanted
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
        code = self._llama.llama_decode(context, batch)
        self._llama.llama_batch_free(batch)
        if code != 0:
            raise RuntimeError(f"llama_decode returned {code}")

    def _choose(self, context: Any, row: int) -> int:
        """The most probable token after a row: greedy, like the others."""
        logits = self._llama.llama_get_logits_ith(context, row)
        return int(self._numpy.ctypeslib.as_array(logits, (self._setup["vocabulary"],)).argmax())

    def run(self, job: protocol.Job) -> tuple[float, int]:
        context = self._context(job)
        try:
            return self._run_in(context, job)
        finally:
            self._llama.llama_free(context)

    def _run_in(self, context: Any, job: protocol.Job) -> tuple[float, int]:
        last = job["prompt_tokens"] - 1
        rows = [(token, position, sequence, position == last)
                for sequence, prompt in enumerate(protocol.prompts(job, self._setup["vocabulary"]))
                for position, token in enumerate(prompt)]
        prefill_s = protocol.seconds_of(lambda: self._decode(context, rows))
        if job["kind"] == "prefill":
            return prefill_s, len(rows)
        tokens = [self._choose(context, (sequence + 1) * (last + 1) - 1) for sequence in range(job["batch"])]

        def decode() -> None:
            for step in range(protocol.decode_steps(job)):
                self._decode(context, [(token, last + 1 + step, i, True) for i, token in enumerate(tokens)])
                tokens[:] = [self._choose(context, i) for i in range(job["batch"])]

        return protocol.seconds_of(decode), job["batch"] * protocol.decode_steps(job)


if __name__ == "__main__":
    sys.exit(protocol.serve(Engine))
