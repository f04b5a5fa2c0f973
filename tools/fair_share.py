"""How fast a model runs beside busy loops of other programs, of the share of the cores that is fair.

    fair_share.py PROGRAM CONFIG [--loops 1,2,4] [--rounds 5] [--launch 2x1,1x2] [--prompt-tokens 256] [--new-tokens 64]
                  [--json FILE]

CONFIG is a config.json; the weights are generated, in bfloat16. RANKSxTHREADS is a launch. One `lockstep bench` runs each:
before every repetition this program starts or ends busy loops, so that each round has a quiet repetition and one beside
each number of loops, in turn. With N cores and k loops a fair share is N / (N + k) of the quiet speed of the same round.
Prints the median (least … most) over the rounds, prefill and decode. Needs only Python's standard library, and a machine
where nothing else runs.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from long_runs import busy_loops

PHASES = ("prefill", "decode")
SETTLED = 0.3  # seconds after loops have begun or ended
LIMIT = 1800.0  # seconds of a bench


def repetitions_beside(words: list[str], loads: list[int]) -> list[dict]:
    """The repetitions of the bench `words`, each beside as many busy loops as `loads` says, after a first quiet one."""
    own, other = socket.socketpair()
    with tempfile.TemporaryDirectory() as folder, own, other:
        out = Path(folder) / "bench.json"
        own.settimeout(LIMIT)
        bench = subprocess.Popen([*words, "--warmup", "1", "--repeats", str(len(loads)), "--barrier", str(other.fileno()),
                                  "--json", str(out)], pass_fds=[other.fileno()], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # fmt: skip
        other.close()
        try:
            loops = contextlib.ExitStack()
            for load in [0, *loads]:
                if own.recv(1) == b"":
                    raise SystemExit(f"the bench ended: {bench.stderr.read()}")
                loops.close()  # those of the repetition before
                loops.enter_context(busy_loops(load))
                time.sleep(SETTLED)
                own.send(b".")
            if bench.wait(LIMIT) != 0:
                raise SystemExit(f"the bench failed: {bench.stderr.read()}")
        finally:
            loops.close()
            bench.kill()
            bench.wait()
            bench.stderr.close()
        return json.loads(out.read_text())["repetitions"]


def shares_of(repetitions: list[dict], loads: list[int], cores: int) -> dict[int, dict[str, list[float]]]:
    """{loops: {phase: a share for each round}}; a round begins with its quiet repetition."""
    shares: dict[int, dict[str, list[float]]] = {}
    quiet: dict[str, float] = {}
    for repetition, load in zip(repetitions, loads, strict=True):
        speeds = {phase: repetition[f"{phase}_tokens_per_s"] for phase in PHASES}
        if load == 0:
            quiet = speeds
            continue
        of_load = shares.setdefault(load, {phase: [] for phase in PHASES})
        for phase in PHASES:
            of_load[phase].append(speeds[phase] / quiet[phase] * (cores + load) / cores)
    return shares


def in_words(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} … {max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("config")
    parser.add_argument("--loops", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--launch", default="2x1,1x2")
    parser.add_argument("--prompt-tokens", type=int, default=256)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--json")
    options = parser.parse_args()
    loads = [0, *map(int, options.loops.split(","))] * options.rounds
    cores = len(os.sched_getaffinity(0))
    found = {}
    for launch in options.launch.split(","):
        ranks, threads = launch.split("x")
        words = [options.program, "bench", "--random-weights", "--config", options.config, "--dtype", "bf16", "--launch",
                 "processes", "--tp", ranks, "--threads", threads, "--prompt-tokens", str(options.prompt_tokens),
                 "--new-tokens", str(options.new_tokens)]
        repetitions = repetitions_beside(words, loads)
        quiet = [one for one, load in zip(repetitions, loads, strict=True) if load == 0]
        for phase in PHASES:
            print(f"{launch} quiet, {phase} tokens/s: {in_words([one[f'{phase}_tokens_per_s'] for one in quiet])}")
        found[launch] = shares_of(repetitions, loads, cores)
        for load, shares in found[launch].items():
            print(f"{launch} beside {load}, of the fair share: " + "; ".join(f"{p} {in_words(shares[p])}" for p in PHASES),
                  flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
