#!/usr/bin/env python3
"""Searches with every fuzzer of the preset fuzz for inputs that break a reader, and keeps what it finds.

    python tools/fuzz_all.py [--seconds 600] [--jobs 1] [NAME…]

NAME is an entry point of tests/fuzz without _fuzz; without names all are run, in the order of RISK. Build them before:
scripts/build fuzz fuzzers. A search begins with the committed corpus and what earlier ones have added in
build/fuzz/search/NAME/corpus; it writes inputs that crash, take LONGEST, or need much memory to
build/fuzz/search/NAME. build/fuzz/search/results.json has the processor seconds and executions of each program, so a
repeated run searches only for the seconds that a program lacks. The last line is the summary. Exit codes: 0 nothing found,
1 something found, 2 a program is missing. Needs only Python's standard library.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SEEDS = ROOT / "tests/fuzz/corpus"
LONGEST = 20  # processor seconds of an input
PATIENCE = 60  # seconds of an input, by the clock, until its processor seconds are looked at
KILLED = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, 72)  # 72: libFuzzer after SIGTERM or SIGINT
LARGEST = 65536  # bytes of an input, as in tests/fuzz/fuzz_driver.cpp
SLICE = 120  # seconds of one run of a program, by the clock; a result is kept after each

# Readers of files that come with a model, then of what clients send; the others follow by name.
RISK = ("gguf_header", "safetensors_header", "torch_file", "unpickler", "model_spec", "tokenizer_json",
        "tokenizer_settings", "chat_template", "http_request", "api_body", "rpc_request", "constraint_format",
        "quantisation_config", "graph_text")  # fmt: skip


def entry_points() -> list[str]:
    """Names of all, most at risk first."""
    names = sorted(source.name.removesuffix("_fuzz.cpp") for source in (ROOT / "tests/fuzz").glob("*_fuzz.cpp"))
    return sorted(names, key=lambda name: (RISK.index(name) if name in RISK else len(RISK), name))


@dataclass
class Results:
    """Of every program, by its digest."""

    path: Path
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> dict[str, Any]:
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def of(self, name: str, digest: str) -> dict[str, Any]:
        return self.read().get(name, {}).get(digest, {"seconds": 0, "executions": 0, "found": []})

    def add(self, name: str, digest: str, seconds: float, executions: int, found: list[str]) -> None:
        with self.lock:
            everything, one = self.read(), self.of(name, digest)
            one["seconds"] = round(one["seconds"] + seconds, 1)
            one["executions"] += executions
            one["found"] = sorted({*one["found"], *found})
            everything.setdefault(name, {})[digest] = one
            partial = self.path.with_suffix(".tmp")
            partial.write_text(json.dumps(everything, indent=1) + "\n")
            partial.replace(self.path)


def words_of(program: Path, name: str, own: Path, seconds: int) -> list[str]:
    return [str(program), f"-max_total_time={seconds}", f"-max_len={LARGEST}", f"-timeout={PATIENCE}",
            "-rss_limit_mb=2048", "-malloc_limit_mb=512", "-print_final_stats=1", "-print_funcs=0",
            f"-artifact_prefix={own}/", str(own / "corpus"), str(SEEDS / name)]  # fmt: skip


running: set[subprocess.Popen[bytes]] = set()


def end_all(_number: int, _frame: object) -> None:
    """SIGTERM ends the searches too; what the present ones have done does not count."""
    for child in list(running):
        child.kill()
    os._exit(128 + signal.SIGTERM)


def run(words: list[str], own: Path) -> tuple[int, float]:
    """Exit code and processor seconds; the output is in log.txt of `own`."""
    with (own / "log.txt").open("wb") as log:
        child = subprocess.Popen(words, stdout=log, stderr=log, cwd=own, stdin=subprocess.DEVNULL)
        running.add(child)
        _, status, use = os.wait4(child.pid, 0)
        running.discard(child)
        child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, use.ru_utime + use.ru_stime


def is_slow(program: Path, file: Path) -> bool:
    """Whether an input needs more than LONGEST of the processor: neighbours prolong a run by the clock."""
    _, seconds = run([str(program), f"-timeout={10 * PATIENCE}", str(file)], file.parent)
    return seconds > LONGEST


def search(programs: Path, name: str, results: Results, wanted: int) -> list[str]:
    """Runs one program until it has run for `wanted` seconds or has found something; returns its findings."""
    program, own = (programs / f"{name}_fuzz").absolute(), results.path.parent / name
    digest = hashlib.sha256(program.read_bytes()).hexdigest()[:16]
    (own / "corpus").mkdir(parents=True, exist_ok=True)
    while True:
        done = results.of(name, digest)
        left = wanted - done["seconds"]
        if done["found"] or left <= 0:
            break
        before = set(own.iterdir())
        code, seconds = run(words_of(program, name, own, max(1, min(round(left), SLICE))), own)
        text = (own / "log.txt").read_text(errors="replace")
        found = sorted(path.name for path in set(own.iterdir()) - before if path.name not in ("corpus", "log.txt"))
        for file in [file for file in found if file.startswith(("timeout-", "slow-unit-"))]:
            if not is_slow(program, own / file):
                (own / file).unlink()
                found.remove(file)
                code = 0
        if code in KILLED and not found:
            print(f"{name}: ended by a signal ({code})", flush=True)
            return [f"{name}: ended by a signal"]
        if code != 0 and not found:
            found = [f"exit code {code} without an input: see log.txt"]
        if found:
            (own / f"{found[0].split(':')[0]}.log").write_text(text)
        executions = re.search(r"number_of_executed_units:\s*(\d+)", text)
        counted = int(executions[1]) if executions else last_count(text)
        results.add(name, digest, max(seconds, 0.1), counted, found)
    done = results.of(name, digest)
    words = f": found {', '.join(done['found'])} in {own}" if done["found"] else ": nothing found"
    print(f"{name}: {done['seconds']:.0f} s, {done['executions']} executions{words}", flush=True)
    return [f"{name}/{file}" for file in done["found"]]


def last_count(text: str) -> int:
    """A program that ends early prints its executions in the progress lines alone."""
    counts = re.findall(r"^#(\d+)\s", text, re.MULTILINE)
    return int(counts[-1]) if counts else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=int, default=600, help="processor seconds of each program; default 600")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time; default 1")
    parser.add_argument("--build", type=Path, default=ROOT / "build/fuzz", help="folder of the build")
    parser.add_argument("--results", type=Path, help="folder of what is kept; default build/fuzz/search")
    options = parser.parse_args()
    kept = (options.results or options.build / "search").absolute()
    known = entry_points()
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"found {', '.join(unknown)}, expected some of {', '.join(known)}")
    signal.signal(signal.SIGTERM, end_all)
    names = options.names or known
    missing = [name for name in names if not (options.build / "bin" / f"{name}_fuzz").exists()]
    if missing:
        print(f"[fuzz_all] no program for {', '.join(missing)}; run scripts/build fuzz fuzzers", file=sys.stderr)
        return 2
    results = Results(kept / "results.json")
    kept.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        searches = pool.map(lambda name: search(options.build / "bin", name, results, options.seconds), names)
        found = [file for files in searches for file in files]
    words = f"found {len(found)} inputs" if found else "nothing found"
    print(f"{len(names)} fuzzers, {options.seconds} processor seconds each: {words}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
