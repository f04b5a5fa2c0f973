#!/usr/bin/env python3
"""The tokens per second of a server's splits of the same cores: replicas x ranks.

    splits.py --program PATH-OF-LOCKSTEP --model DIR --load PATH-OF-serve_load [--streams 16] [--rounds 5] [SPLIT…]

SPLIT: REPLICASxRANKS; default 1x2 2x1. All have as many slots as there are streams, and run by turns: a load for each in
every round, in another order each time. The client runs beside them, on any core. Standard library only.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import servers
from serve_loads import Loads

PROMPT_TOKENS, NEW_TOKENS, CAPACITY, LIMIT_S = 64, 96, 1024, 300


def start(arguments: argparse.Namespace, split: str) -> servers.Server:
    replicas, ranks = map(int, split.split("x"))
    port = servers.free_port()
    return servers.Server(split, [arguments.program, "serve", "--model", str(arguments.model), "--port", str(port), "--tp",
                                  str(ranks), "--replicas", str(replicas), "--batch-size",
                                  str(arguments.streams // replicas), "--max-seq-len", str(CAPACITY)],
                          port, arguments.model.name)


def tokens_per_s(arguments: argparse.Namespace, server: servers.Server, prompts: list[list[int]]) -> float:
    group = {"name": "streams", "streams": arguments.streams, "prompts": prompts, "max_tokens": NEW_TOKENS,
             "ignore_eos": True}
    plan = {"port": server.port, "model": server.model, "deadline_s": LIMIT_S, "seed": 1, "groups": [group]}
    done = subprocess.run([arguments.load], input=json.dumps(plan), capture_output=True, text=True, timeout=LIMIT_S + 30,
                          check=False)
    if done.returncode == 2 or not done.stdout:
        raise servers.Failed(f"the load client: {done.stderr.strip()[-300:]}")
    report = json.loads(done.stdout)
    errors = [turn["error"] for turn in report["turns"] if turn["error"]]
    if errors:
        raise servers.Failed(f"{server.name}: {len(errors)} turns failed, first: {errors[0]}")
    return report["all"]["tokens_per_s"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--load", required=True)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("splits", nargs="*", default=["1x2", "2x1"], metavar="SPLIT")
    arguments = parser.parse_args()
    loads, found = Loads(arguments.model), {split: [] for split in arguments.splits}
    running: list[servers.Server] = []
    try:
        for split in arguments.splits:
            running.append(start(arguments, split))
            tokens_per_s(arguments, running[-1], loads.id_prompts(arguments.streams, PROMPT_TOKENS, seed=99))
        for turn in range(arguments.rounds):
            prompts = loads.id_prompts(arguments.streams, PROMPT_TOKENS, turn)
            for server in running[turn % len(running):] + running[:turn % len(running)]:
                found[server.name].append(tokens_per_s(arguments, server, prompts))
    finally:
        for server in running:
            server.stop()
    first = found[arguments.splits[0]]
    for split, values in found.items():
        ratios = sorted(mine / other for mine, other in zip(values, first))
        print(f"{split}: {statistics.median(values):.0f} tokens/s ({min(values):.0f} … {max(values):.0f}); over "
              f"{arguments.splits[0]}: {statistics.median(ratios):.3f} ({ratios[0]:.3f} … {ratios[-1]:.3f})")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except servers.Failed as failure:
        print(f"splits.py: {failure}", file=sys.stderr)
        sys.exit(1)
