#!/usr/bin/env python3
"""Compares Lockstep with other engines on one shape: every row in pairs, the engines in turn.

    compare.py --program PATH-OF-LOCKSTEP --config CONFIG [--threads N] [--pairs P] [--row ROW]… [--models DIR]
               [--rival NAME=PATH]… [--json OUT]

    row decode      ours   rival a   rival b   │  ours   rival a   rival b   │  …           one runs, the others are
    row prefill     ours   rival a   rival b   │  …                                         stopped (SIGSTOP)

Each rival is a separate process that loads its model once (protocol.py); ours is `lockstep bench`, which also measures
the machine's limits. A rival that is not installed is reported as missing, with the command that installs it. PATH is
llama-bench for ik and llama.cpp, and a Python interpreter for the others (default: the one that runs this). Standard
library only.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from typing import Any

import make_model

HERE = pathlib.Path(__file__).resolve().parent
OURS = "lockstep"
LOAD_S, JOB_S = 400.0, 240.0  # deadlines: vLLM compiles for a minute at every start

ROWS: dict[str, dict[str, Any]] = {
    "decode": {"kind": "decode", "prompt_tokens": 128, "new_tokens": 64, "batch": 1},
    "prefill-512": {"kind": "prefill", "prompt_tokens": 512, "batch": 1},
    "prefill-2048": {"kind": "prefill", "prompt_tokens": 2048, "batch": 1},
    "decode-8": {"kind": "decode", "prompt_tokens": 128, "new_tokens": 64, "batch": 8},
}


@dataclass(frozen=True)
class Kind:
    """The command of a rival, and its model file."""
    script: str
    format: str
    is_python: bool


KINDS = {
    "ik": Kind("run_llama_bench.py", "gguf", False),
    "llama.cpp": Kind("run_llama_bench.py", "gguf", False),
    "llama-cpp-python": Kind("run_llama_cpp_python.py", "gguf", True),
    "vllm": Kind("run_vllm.py", "safetensors", True),
    "transformers": Kind("run_transformers.py", "safetensors", True),
}


def say(text: str) -> None:
    print(f"[compare] {text}", file=sys.stderr, flush=True)


def words_of(name: str, path: str | None) -> list[str]:
    kind = KINDS[name]
    if kind.is_python:
        return [path or sys.executable, str(HERE / kind.script)]
    return [sys.executable, str(HERE / kind.script), path or ""]


class Failed(Exception):
    """A rival failed; the text is the reason."""


class Rival:
    """A rival's process and its output. Everything that it starts is in its process group."""

    def __init__(self, name: str, path: str | None) -> None:
        self.name, self.version, self.state, self.reason = name, "", "", ""
        self._words = words_of(name, path)
        self._process: subprocess.Popen[str] | None = None
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def check(self) -> bool:
        """Whether it is installed; a quick check."""
        self._start(["--check"])
        self._take_start(self._wait(60.0))
        self.stop()
        return self.state == "ran"

    def load(self, setup: dict[str, Any]) -> None:
        self._start([])
        self._send(setup)
        self._take_start(self._wait(LOAD_S))
        self._signal(signal.SIGSTOP)

    def run(self, job: dict[str, Any]) -> float:
        """Tokens per second of one job. Raises Failed."""
        self._signal(signal.SIGCONT)
        self._send(job)
        event = self._wait(JOB_S)
        self._signal(signal.SIGSTOP)
        if event.get("event") != "result" or not event.get("seconds", 0) > 0:
            raise Failed(event.get("reason", "it gave no result"))
        return event["tokens"] / event["seconds"]

    def fail(self, reason: str) -> None:
        self.state, self.reason = "failed", reason
        self.stop()

    def stop(self) -> None:
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._process.stdin.close()
            self._process = None

    def _start(self, more: list[str]) -> None:
        self._events = queue.Queue()
        try:
            self._process = subprocess.Popen([*self._words, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=subprocess.DEVNULL, text=True, process_group=0)
        except OSError as error:
            raise Failed(f"cannot start {self._words[0]}: {error.strerror}") from error
        threading.Thread(target=self._read, args=(self._process.stdout, self._events), daemon=True).start()

    @staticmethod
    def _read(stream: Any, events: queue.Queue[dict[str, Any] | None]) -> None:
        for line in stream:
            try:
                events.put(json.loads(line))
            except ValueError:
                continue  # not part of the protocol
        events.put(None)
        stream.close()

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except (OSError, AttributeError) as error:
            raise Failed("it ended") from error

    def _wait(self, seconds: float) -> dict[str, Any]:
        try:
            event = self._events.get(timeout=seconds)
        except queue.Empty as error:
            raise Failed(f"it said nothing for {seconds:g} s") from error
        if event is None:
            raise Failed("it ended without an answer")
        return event

    def _take_start(self, event: dict[str, Any]) -> None:
        self.version = event.get("version", "")
        self.state = {"ready": "ran", "missing": "missing"}.get(event.get("event", ""), "failed")
        self.reason = event.get("reason", "")
        if self.state == "failed":
            raise Failed(self.reason or "it did not start")

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)


@dataclass
class Samples:
    """Tokens per second of every engine, pair by pair, and the limits measured with ours."""
    speeds: dict[str, list[float]] = field(default_factory=dict)
    limits: list[float] = field(default_factory=list)  # tokens/s that the probe allows


def run_ours(arguments: argparse.Namespace, job: dict[str, Any]) -> tuple[float, float]:
    """Tokens per second, and the most that the machine's limit allows. Raises Failed."""
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "bench.json"
        words = [arguments.program, "bench", "--random-weights", "--config", str(arguments.config), "--launch", "threads",
                 "--tp", "1", "--threads", str(arguments.threads), "--prompt-tokens", str(job["prompt_tokens"]),
                 "--new-tokens", str(job.get("new_tokens", 2)), "--batch-size", str(job["batch"]), "--repeats", "1",
                 "--warmup", "1", *arguments.bench_option, "--json", str(result)]
        try:
            ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=JOB_S,
                                 check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failed(f"lockstep bench: {error}") from error
        if ran.returncode != 0:
            raise Failed(f"lockstep bench ended with {ran.returncode}: {ran.stderr.strip()[-300:]}")
        report = json.loads(result.read_text())
    speed = report[job["kind"]]["tokens_per_s"]
    share = report[job["kind"]]["of_bandwidth" if job["kind"] == "decode" else "of_peak"]
    return speed, speed / share if share > 0 else 0.0


def measure_row(arguments: argparse.Namespace, job: dict[str, Any], rivals: list[Rival]) -> Samples:
    """Measures all pairs of one row. A rival that fails takes no further part."""
    samples = Samples()
    for rival in rivals:  # a warm-up for caches, pages and compilations
        attempt(rival, job)
    for pair in range(arguments.pairs):
        speed, limit = run_ours(arguments, job)
        samples.speeds.setdefault(OURS, []).append(speed)
        samples.limits.append(limit)
        for rival in rivals:
            if (theirs := attempt(rival, job)) is not None:
                samples.speeds.setdefault(rival.name, []).append(theirs)
        say(f"pair {pair + 1}: " + ", ".join(f"{name} {speeds[-1]:.4g}" for name, speeds in samples.speeds.items()))
    return samples


def attempt(rival: Rival, job: dict[str, Any]) -> float | None:
    if rival.state != "ran":
        return None
    try:
        return rival.run(job)
    except Failed as failed:
        rival.fail(str(failed))
        say(f"{rival.name} failed: {failed}")
        return None


def row_of(samples: Samples, pairs: int) -> dict[str, Any]:
    """The report of a row: ratios of ours to the rival with the highest median, pair by pair."""
    whole = {name: speeds for name, speeds in samples.speeds.items() if len(speeds) == pairs}
    ours = whole.pop(OURS)
    row: dict[str, Any] = {"ours": statistics.median(ours), "engines": {OURS: ours, **whole}}
    if all(limit > 0 for limit in samples.limits):
        row["limits"] = samples.limits
        row["of_limit"] = {name: statistics.median(speed / limit for speed, limit in zip(speeds, samples.limits))
                           for name, speeds in {OURS: ours, **whole}.items()}
    if whole:
        fastest = max(whole, key=lambda name: statistics.median(whole[name]))
        row |= {"fastest": statistics.median(whole[fastest]), "fastest_name": fastest,
                "ratios": [mine / theirs for mine, theirs in zip(ours, whole[fastest])]}
    return row


def installed(rivals: list[Rival]) -> list[Rival]:
    """The installed rivals; the others have a reason."""
    there = []
    for rival in rivals:
        try:
            if rival.check():
                there.append(rival)
        except Failed as failed:
            rival.fail(str(failed))
        say(f"{rival.name}: {'found ' + rival.version if rival.state == 'ran' else rival.state + ': ' + rival.reason}")
    return there


def load_all(arguments: argparse.Namespace, rivals: list[Rival]) -> None:
    folder = arguments.models / arguments.name
    make_model.make(arguments.config, folder, tuple({KINDS[rival.name].format for rival in rivals}))
    vocabulary = json.loads(arguments.config.read_text())["vocab_size"]
    for rival in rivals:
        try:
            rival.load({"model": str(folder), "gguf": str(folder / "model.gguf"), "threads": arguments.threads,
                        "vocabulary": vocabulary})
        except Failed as failed:
            rival.fail(str(failed))
            say(f"{rival.name} failed: {failed}")


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    paths = dict(word.split("=", 1) for word in arguments.rival)
    rivals = [Rival(name, paths.get(name)) for name in KINDS]
    report: dict[str, Any] = {"rows": {}}
    try:
        there = installed(rivals)
        if there:
            load_all(arguments, there)
            for name in arguments.row or ROWS:
                say(f"{arguments.name}, {name}")
                report["rows"][name] = row_of(measure_row(arguments, ROWS[name], there), arguments.pairs)
        else:
            report["absent"] = "none of the rivals is installed: " + ", ".join(KINDS)
    finally:
        for rival in rivals:
            rival.stop()
    report["rivals"] = [{"name": rival.name, "version": rival.version, "state": rival.state, "reason": rival.reason}
                        for rival in rivals]
    return report


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--config", type=pathlib.Path, required=True)
    parser.add_argument("--name", default="model", help="of the shape: its folder in --models")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--row", action="append", choices=list(ROWS))
    parser.add_argument("--models", type=pathlib.Path, default=pathlib.Path("models"))
    parser.add_argument("--rival", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--bench-option", action="append", default=[], help="handed on to lockstep bench")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args(words)
    for word in arguments.rival:
        if word.partition("=")[0] not in KINDS or "=" not in word:
            parser.error(f"--rival: found {word}, expected NAME=PATH with one of {', '.join(KINDS)}")
    return arguments


def to_text(report: dict[str, Any]) -> str:
    lines = []
    for name, row in report["rows"].items():
        shares = row.get("of_limit", {})
        for engine, speeds in row["engines"].items():
            share = f"   {shares[engine]:.2f} of the probe" if engine in shares else ""
            lines.append(f"{name:<14}{engine:<20}{statistics.median(speeds):>10.4g} tokens/s "
                         f"({min(speeds):.4g} … {max(speeds):.4g}, {len(speeds)}){share}")
        if "ratios" in row:
            lines.append(f"{name:<14}{'over ' + row['fastest_name']:<20}{statistics.median(row['ratios']):>10.3f} "
                         f"({min(row['ratios']):.3f} … {max(row['ratios']):.3f})")
    lines += [f"{rival['name']:<20}{rival['state']}: {rival['reason'] or rival['version']}"
              for rival in report["rivals"]]
    return "\n".join(lines)


def main() -> int:
    arguments = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that rivals are ended
    try:
        report = compare(arguments)
    except Failed as failed:
        print(f"compare.py: {failed}", file=sys.stderr)
        return 1
    print(to_text(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
