"""Serves protocol.py with llama.cpp or ik_llama.cpp, by their llama-bench and llama-batched-bench.

    run_llama_bench.py PATH-OF-LLAMA-BENCH        llama-batched-bench must be in the same folder
"""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import protocol

INSTALL = ("build it (cmake -B build -DGGML_NATIVE=ON && cmake --build build --target llama-bench llama-batched-bench) "
           "and give the path of llama-bench")
DEADLINE_S = 600.0


def parse_bench(text: str, prompt_tokens: int, new_tokens: int) -> tuple[float, int]:
    """Seconds and tokens of the test with these sizes, from the JSON of `llama-bench -o json`."""
    for test in json.loads(text[text.index("["):]):
        if (test["n_prompt"], test["n_gen"]) == (prompt_tokens, new_tokens):
            return test["avg_ns"] * 1e-9, prompt_tokens + new_tokens
    raise ValueError(f"llama-bench reported no test of {prompt_tokens} prompt and {new_tokens} new tokens")


def parse_batched(text: str, batch: int) -> tuple[float, int]:
    """Seconds and tokens of decoding `batch` sequences, from llama-batched-bench's JSON lines or its table."""
    for line in text.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            if row.get("pl") == batch:
                return float(row["t_tg"]), batch * int(row["tg"])
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) >= 10 and cells[0].isdigit() and int(cells[2]) == batch:  # PP TG B N_KV T_PP S_PP T_TG S_TG …
            return float(cells[6]), batch * int(cells[1])
    raise ValueError(f"llama-batched-bench reported no batch of {batch}")


class Engine:
    def __init__(self, setup: protocol.Setup) -> None:
        programs = [word for word in sys.argv[1:] if not word.startswith("-")]
        if not programs or not os.access(programs[0], os.X_OK):
            raise protocol.Missing(INSTALL)
        self._bench, self._setup = pathlib.Path(programs[0]).resolve(), setup
        self.version = str(self._bench.name)
        self._help = self._output([str(self._bench), "--help"])

    def _output(self, words: list[str], with_log: bool = False) -> str:
        with tempfile.TemporaryDirectory() as folder:  # some builds leave a log in their working folder
            ran = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 timeout=DEADLINE_S)
        if ran.returncode != 0 and "--help" not in words:
            raise RuntimeError(f"{pathlib.Path(words[0]).name} ended with {ran.returncode}: {ran.stderr[-300:].strip()}")
        return ran.stdout + ran.stderr if with_log else ran.stdout

    def _common(self) -> list[str]:
        return ["-m", str(pathlib.Path(self._setup["gguf"]).resolve()), "-t", str(self._setup["threads"])]

    def _run_batched(self, job: protocol.Job) -> tuple[float, int]:
        program = self._bench.with_name("llama-batched-bench")
        if not program.exists():
            raise RuntimeError(f"found no {program.name} beside {self._bench.name}, expected it for batches")
        tokens = (job["prompt_tokens"] + job["new_tokens"]) * job["batch"]
        words = [str(program), *self._common(), "-c", str(tokens), "-npp", str(job["prompt_tokens"]), "-ntg",
                 str(job["new_tokens"]), "-npl", str(job["batch"])]
        if "--output-format" in self._output([str(program), "--help"]):
            words += ["--output-format", "jsonl"]
        return parse_batched(self._output(words, with_log=True), job["batch"])  # ik_llama.cpp's table is in its log

    def run(self, job: protocol.Job) -> tuple[float, int]:
        if job["batch"] > 1:
            return self._run_batched(job)
        words = [str(self._bench), *self._common(), "-r", "1", "-o", "json"]
        if job["kind"] == "prefill":
            words += ["-p", str(job["prompt_tokens"]), "-n", "0"]
            return parse_bench(self._output(words), job["prompt_tokens"], 0)
        words += ["-p", "0", "-n", str(job["new_tokens"])]
        if "--n-depth" in self._help:
            words += ["-d", str(job["prompt_tokens"])]  # decode after a prompt; without it, from an empty cache
        return parse_bench(self._output(words), 0, job["new_tokens"])


if __name__ == "__main__":
    sys.exit(protocol.serve(Engine))
