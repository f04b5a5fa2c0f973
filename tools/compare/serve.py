#!/usr/bin/env python3
"""Measures a model over HTTP: `lockstep serve` against the same engine without it, and against other servers.

    serve.py --program PATH-OF-LOCKSTEP --model DIR [--pairs P] [--row ROW]… [--rival NAME=PYTHON]… [--gguf FILE]
             [--json OUT] [--markdown OUT]

The engine is one rank with one thread on core 0; the door and the load client (serve_load, beside the program) are on
core 1. The two sides of a figure alternate (A B, B A, …); a figure is the median of the pairs, with their range. The
same client sends the same load to rivals, in turn with ours (servers.py). --gguf: the model for llama-cpp-python, which
make_gguf.py writes. Standard library only; needs two cores.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from typing import Any, Callable

import make_model
import servers
import serve_report
from serve_loads import Loads
from servers import Failed, Server

RUN_S = 300.0  # deadline of one load or one offline run
CAPACITY = 2560  # tokens of a slot
OURS = "lockstep"
# 32 rows of this shape take less time than the server needs for their tokens, so that the door is what limits.
TINY = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128, "hidden_act": "silu",
        "vocab_size": 49152, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}


def say(text: str) -> None:
    print(f"[serve] {text}", file=sys.stderr, flush=True)


class Steps:
    """Collects the steps of our engine while a load runs."""

    PERIOD_S = 0.1

    def __init__(self, server: Server) -> None:
        self._server, self._is_over = server, threading.Event()
        self._found: dict[int, dict[str, Any]] = {}
        self._last = max((step["number"] for step in self._server.get("/admin/status")["steps"]), default=0)
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Steps":
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._is_over.set()
        self._thread.join()
        self._look()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [step for step in self._found.values() if step["kind"] == kind]

    def _watch(self) -> None:
        while not self._is_over.wait(self.PERIOD_S):
            self._look()

    def _look(self) -> None:
        for step in self._server.get("/admin/status")["steps"]:
            if step["number"] > self._last:
                self._found[step["number"]] = step


class Bench:
    """What the rows use: servers, the load client, the engine without a server."""

    def __init__(self, arguments: argparse.Namespace, folder: pathlib.Path) -> None:
        self.arguments, self.folder = arguments, folder
        self.loads = Loads(arguments.model)
        self.rivals: dict[str, str] = {}  # installed ones: their Python
        self.absent: dict[str, str] = {}
        self.running: dict[str, Server] = {}

    def find_rivals(self) -> None:
        for word in self.arguments.rival:
            name, python = word.split("=", 1)
            reason = servers.missing(name, python)
            if not reason and name == "llama-cpp-python" and not self.arguments.gguf:
                reason = "found no --gguf, expected the model as make_gguf.py writes it"
            say(f"{name}: {reason or 'found'}")
            if reason:
                self.absent[name] = reason
            else:
                self.rivals[name] = python

    def tiny_model(self) -> pathlib.Path:
        folder = self.folder / "tiny"
        shape = self.folder / "tiny.json"
        shape.write_text(json.dumps(TINY))
        make_model.make(shape, folder, ("safetensors",))
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(self.arguments.model / name, folder / name)
        return folder

    def ours(self, slots: int, capacity: int = CAPACITY, model: pathlib.Path | None = None) -> Server:
        return servers.Ours(self.arguments.program, model or self.arguments.model, slots, capacity,
                            self.arguments.serve_option)

    def run_load(self, server: Server, groups: list[dict[str, Any]]) -> dict[str, Any]:
        """The client's report, with the CPU seconds of each process. Raises Failed when a turn has failed."""
        groups = [{**group, "fields": {**group.get("fields", {}), **server.fields}} for group in groups]
        plan = {"port": server.port, "model": server.model, "deadline_s": RUN_S, "seed": 1, "groups": groups}
        before = server.cpu()
        done = subprocess.run(["taskset", "-c", str(servers.CLIENT_CORE), self.arguments.load], input=json.dumps(plan),
                              capture_output=True, text=True, timeout=RUN_S + 30, check=False)
        if done.returncode == 2 or not done.stdout:
            raise Failed(f"the load client: {done.stderr.strip()[-300:]}")
        report = json.loads(done.stdout)
        errors = [turn["error"] for turn in report["turns"] if turn["error"]]
        if errors:
            raise Failed(f"{server.name}: {len(errors)} of {len(report['turns'])} turns failed, first: {errors[0]}")
        after = server.cpu()
        report["cpu_s"] = {**{part: after[part] - before[part] for part in after}, "client": report.pop("client_cpu_s")}
        return report

    def offline(self, prompts: list[list[int]], new_tokens: int) -> dict[str, float]:
        """tokens/s and TTFT of `lockstep generate` with these prompts in one batch; from their submission on."""
        rows, result = self.folder / "rows.json", self.folder / "result.json"
        rows.write_text(json.dumps(prompts))
        words = ["taskset", "-c", str(servers.ENGINE_CORE), self.arguments.program, "generate", "--model",
                 str(self.arguments.model), "--launch", "threads", "--tp", "1", "--threads", "1", "--bind-threads", "none",
                 "--ids-file", str(rows), "--batch-size", str(len(prompts)), "--max-new-tokens", str(new_tokens),
                 "--max-seq-len", str(CAPACITY), "--ignore-eos", "--no-do-sample", "--json", str(result)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_S, check=False)
        if done.returncode != 0:
            raise Failed(f"lockstep generate ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        answer = json.loads(result.read_text())
        wall = max(map(sum, answer["timings"]["token_latencies_s"]))
        return {"tokens_per_s": sum(map(len, answer["sequences"])) / wall, "ttft_s": answer["timings"]["ttft_s"]}

    def pairs(self, first: Callable[[int], Any], second: Callable[[int], Any]) -> list[tuple[Any, Any]]:
        """The results of both, pair by pair; the order within a pair alternates."""
        made = []
        for pair in range(self.arguments.pairs):
            if pair % 2 == 0:
                mine = first(pair)
                made.append((mine, second(pair)))
            else:
                theirs = second(pair)
                made.append((first(pair), theirs))
        return made

    def start_rivals(self) -> dict[str, Server]:
        """The rivals' servers, started once, since some compile for minutes; stopped while they are not measured."""
        for name, python in self.rivals.items():
            if name in self.running or name in self.absent:
                continue
            say(f"starts {name}")
            try:
                self.running[name] = servers.RIVALS[name](python, self.arguments.model, self.arguments.gguf, 32, CAPACITY)
                self.running[name].freeze()
            except Failed as failed:
                self.give_up(name, str(failed))
        return self.running

    def give_up(self, name: str, reason: str) -> None:
        self.absent[name] = reason
        say(f"{name}: {reason}")
        if name in self.running:
            self.running.pop(name).stop()

    def stop_rivals(self) -> None:
        for server in self.running.values():
            server.stop()

    def beside_rivals(self, slots: int, measure: Callable[[Server, int], Any]) -> dict[str, list[Any]]:
        """measure(server, pair) of ours and of each rival in turn; one that fails is left out from then on. The first
        run of each is a warm-up."""
        results: dict[str, list[Any]] = {}
        if not self.start_rivals():
            return results
        ours = self.ours(slots)
        try:
            for pair in range(-1, self.arguments.rival_pairs):
                for name, server in [(OURS, ours), *self.running.items()]:
                    server.thaw()
                    try:
                        result = measure(server, pair)
                    except (Failed, subprocess.TimeoutExpired) as failed:
                        if server is ours:
                            raise
                        self.give_up(name, str(failed)[:300])
                        continue
                    server.freeze()
                    if pair >= 0:
                        results.setdefault(name, []).append(result)
        finally:
            ours.stop()
        return results


def streams(bench: Bench, count: int) -> list[dict[str, Any]]:
    """tokens/s of concurrent streams against the same batch without a server; the door's share."""
    prompts, new_tokens = bench.loads.id_prompts(count, 64), 96
    group = {"name": "streams", "streams": count, "prompts": prompts, "max_tokens": new_tokens, "ignore_eos": True}
    server = bench.ours(count)
    try:
        bench.run_load(server, [{**group, "prompts": bench.loads.id_prompts(count, 64, seed=99), "max_tokens": 8}])
        made = bench.pairs(
            lambda pair: bench.run_load(server, [{**group, "prompts": bench.loads.id_prompts(count, 64, pair)}]),
            lambda pair: bench.offline(bench.loads.id_prompts(count, 64, pair), new_tokens))
    finally:
        server.stop()
    served = [report["all"]["tokens_per_s"] for report, _ in made]
    rows = [{"row": f"streams-{count}", "what": f"tokens/s of {count} streams over HTTP / the same batch offline",
             "ratios": [mine / offline["tokens_per_s"] for mine, (_, offline) in zip(served, made)], "goal": ">= 0.95",
             "detail": {"http": served, "offline": [offline["tokens_per_s"] for _, offline in made]},
             "cpu_s": [report["cpu_s"] for report, _ in made]},
            door_row(f"door-{count}", f"the door's share of a core, {count} streams, per 500 tokens/s",
                     [report for report, _ in made])]
    text = {**group, "prompts": bench.loads.text_prompts(count, 64)}
    rivals = bench.beside_rivals(count, lambda server, _: bench.run_load(server, [text])["all"]["tokens_per_s"])
    rows[0]["rivals"] = {"what": "tokens/s", "is_higher_better": True, "values": rivals}
    return rows


def door_row(name: str, what: str, reports: list[dict[str, Any]]) -> dict[str, Any]:
    return {"row": name, "what": what, "goal": "<= 0.05",
            "ratios": [500 * report["cpu_s"]["door"] / report["all"]["tokens"] for report in reports],
            "detail": {"tokens_per_s": [report["all"]["tokens_per_s"] for report in reports]},
            "cpu_s": [report["cpu_s"] for report in reports]}


def door_of_a_tiny_model(bench: Bench) -> list[dict[str, Any]]:
    server = bench.ours(32, 1024, bench.tiny_model())
    try:
        load = [{"name": "streams", "streams": 32, "prompts": bench.loads.id_prompts(32, 16), "max_tokens": 200,
                 "ignore_eos": True}]
        reports = [bench.run_load(server, load) for _ in range(bench.arguments.pairs + 1)][1:]
    finally:
        server.stop()
    return [door_row("door-tiny", "the same with a tiny model as fast as it goes", reports)]


def first_token(bench: Bench) -> list[dict[str, Any]]:
    """TTFT of a lone request minus the time of its prefill steps."""
    requests = 5
    server = bench.ours(8)

    def served(pair: int) -> list[float]:
        over = []
        for prompt in bench.loads.id_prompts(requests, 128, seed=pair):
            with Steps(server) as steps:
                load = [{"name": "lone", "prompts": [prompt], "max_tokens": 8, "ignore_eos": True}]
                ttft = bench.run_load(server, load)["all"]["ttft_s"]["p50"]
            over.append(ttft - sum(step["seconds"] for step in steps.of("prefill")))
        return over

    try:
        served(-1)
        over = [statistics.median(served(pair)) for pair in range(bench.arguments.pairs)]
    finally:
        server.stop()
    row = {"row": "ttft", "what": "TTFT of a lone request of 128 tokens minus its prefill steps, in ms",
           "ratios": [1e3 * seconds for seconds in over], "goal": "<= 5"}
    rivals = bench.beside_rivals(8, lambda server, pair: 1e3 * bench.run_load(
        server, [{"name": "lone", "requests": requests, "prompts": bench.loads.text_prompts(requests, 128, seed=pair),
                  "max_tokens": 8, "ignore_eos": True}])["all"]["ttft_s"]["p50"])
    row["rivals"] = {"what": "TTFT in ms", "is_higher_better": False, "values": rivals}
    return [row]


def mixed(bench: Bench) -> list[dict[str, Any]]:
    """Inter-token p99 while long prompts arrive among short chats, and what prefill loses."""
    server = bench.ours(8)

    def together(pair: int) -> dict[str, Any]:
        with Steps(server) as steps:
            report = bench.run_load(server, bench.loads.mixed(pair))
        decode, prefill = steps.of("decode"), steps.of("prefill")
        rows = max(step["rows"] for step in prefill)
        chunk = statistics.median(step["seconds"] for step in prefill if step["rows"] == rows)
        step_s = statistics.median(step["seconds"] for step in decode if step["rows"] >= bench.loads.CHATS)
        gaps = report["groups"]["chats"]["gap_s"]
        return {"p99_s": gaps["p99"], "p50_s": gaps["p50"], "chunk_s": chunk, "chunk_rows": rows, "step_s": step_s,
                "prefill": prefill_speed(prefill), "cpu_s": report["cpu_s"]}

    def alone(pair: int) -> float:
        with Steps(server) as steps:
            bench.run_load(server, bench.loads.only_long(pair))
        return prefill_speed(steps.of("prefill"))

    try:
        together(-1)
        made = bench.pairs(together, alone)
    finally:
        server.stop()
    both = [mine for mine, _ in made]
    detail = {key: [mine[key] for mine in both] for key in ("p99_s", "p50_s", "step_s", "chunk_s", "chunk_rows")}
    rows = [{"row": "gap", "what": "inter-token p99 of short chats beside long prompts / (decode step + chunk)",
             "ratios": [mine["p99_s"] / (mine["step_s"] + mine["chunk_s"]) for mine in both], "goal": "<= 1.1",
             "detail": detail, "cpu_s": [mine["cpu_s"] for mine in both]},
            {"row": "prefill-lost", "what": "prefill tokens/s lost beside chats (time of prefill steps)", "goal": "<= 0.15",
             "ratios": [1 - mine["prefill"] / theirs for mine, theirs in made],
             "detail": {"beside": [mine["prefill"] for mine in both], "alone": [theirs for _, theirs in made]}}]
    rivals = bench.beside_rivals(8, lambda server, pair: 1e3 * bench.run_load(
        server, bench.loads.mixed(pair))["groups"]["chats"]["gap_s"]["p99"])
    rows[0]["rivals"] = {"what": "inter-token p99 in ms", "is_higher_better": False, "values": rivals}
    return rows


def prefill_speed(steps: list[dict[str, Any]]) -> float:
    return sum(step["rows"] for step in steps) / sum(step["seconds"] for step in steps)


def second_turn(bench: Bench) -> list[dict[str, Any]]:
    def ratio(server: Server, pair: int) -> float:
        turns = bench.run_load(server, bench.loads.conversation(pair))["turns"]
        return turns[1]["ttft_s"] / turns[0]["ttft_s"]

    server = bench.ours(8)
    try:
        ratio(server, -1)
        ratios = [ratio(server, pair) for pair in range(bench.arguments.pairs)]
    finally:
        server.stop()
    row = {"row": "second-turn", "what": "TTFT of the second turn of a conversation of 2000 tokens / of the first",
           "ratios": ratios, "goal": "<= 0.10"}
    rivals = bench.beside_rivals(8, lambda server, pair: 1e3 * bench.run_load(
        server, bench.loads.conversation(pair))["turns"][1]["ttft_s"])
    row["rivals"] = {"what": "TTFT of the second turn in ms", "is_higher_better": False, "values": rivals}
    return [row]


ROWS: dict[str, Callable[[Bench], list[dict[str, Any]]]] = {
    "streams-8": lambda bench: streams(bench, 8), "streams-32": lambda bench: streams(bench, 32),
    "door-tiny": door_of_a_tiny_model, "ttft": first_token, "mixed": mixed, "second-turn": second_turn}


def measure(bench: Bench) -> dict[str, Any]:
    report: dict[str, Any] = {"model": bench.arguments.model.name, "pairs": bench.arguments.pairs, "rows": []}
    bench.find_rivals()
    for name in bench.arguments.row or ROWS:
        try:
            for row in ROWS[name](bench):
                report["rows"].append(row)
                say(f"done: {serve_report.line(row)}")
        except (Failed, subprocess.TimeoutExpired, ValueError, ZeroDivisionError) as failed:
            report["rows"].append({"row": name, "what": name, "failed": str(failed)})
            say(f"{name} failed: {failed}")
        report["absent"] = bench.absent
        if bench.arguments.json:  # row by row, so that an interruption loses one
            bench.arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    return report


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--load", help="serve_load; default: beside the program")
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--gguf", help="the same model for llama-cpp-python")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rival-pairs", type=int, default=3)
    parser.add_argument("--row", action="append", choices=list(ROWS))
    parser.add_argument("--rival", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--serve-option", action="append", default=[], help="handed on to lockstep serve")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    arguments = parser.parse_args(words)
    arguments.load = arguments.load or str(pathlib.Path(arguments.program).with_name("serve_load"))
    return arguments


def main() -> int:
    arguments = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are ended
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments, pathlib.Path(folder))
        try:
            report = measure(bench)
        finally:
            bench.stop_rivals()
    table = serve_report.markdown(report)
    if arguments.markdown:
        arguments.markdown.write_text(table)
    print(table)
    return 1 if any("failed" in row for row in report["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
