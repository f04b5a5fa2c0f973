#!/usr/bin/env python3
"""Runs a suite that takes hours in pieces, and records what was run in docs/long_runs.json.

    long_runs.py suite NAME FOLDER [--times N] [--beside N] [--keep] [--reports FOLDER] [--note TEXT] [-- CTEST ARGUMENT…]
    long_runs.py record NAME --seconds S --summary TEXT

`suite` runs the tests of the build folder FOLDER that ctest selects, each N times. A result is written the moment it is
there, to FOLDER/long_runs/NAME/results.jsonl: a run that was stopped goes on where it was. Results of other commits
count only with --keep; a test that failed at one of them runs again in all laps. --beside N keeps N busy loops running
beside the tests. Nothing is recorded while --reports has files, those of sanitizers. --note is added to the summary: what
else was there. The exit code is 1 after a failure.
`record` notes a finished run at the current commit; docs/support.md has a table of them (make_support_matrix.py).
Needs only Python's standard library, ctest and git.
"""
from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs/long_runs.json"
WRITTEN_HERE = {"docs/long_runs.json", "docs/support.md"}
# " 12/210 Test  #30: unit_test ...........   Passed    1.23 sec"; ctest prints one such line as a test ends.
ENDED = re.compile(r"^\s*\d+/\d+ Test\s+#(\d+): (\S+) \.*\s*(Passed|Skipped|Not Run|\*{3}\D*?)\s+([\d.]+) sec")


@dataclass(frozen=True)
class Result:
    """How one test ended once."""

    test: str
    lap: int  # of --times, from 0
    outcome: str  # passed, skipped or failed
    seconds: float
    commit: str


def git(*words: str) -> str:
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit_of_tree() -> str:
    """The short name of the current commit; marked where tracked files differ from it."""
    changed = {line[3:] for line in git("status", "--porcelain", "--untracked-files=no").splitlines()} - WRITTEN_HERE
    return git("rev-parse", "--short=8", "HEAD") + ("-changed" if changed else "")


def selected_tests(folder: Path, words: list[str]) -> dict[int, str]:
    """Names of tests by their numbers, as ctest counts them: those of -I."""

    def names(more: list[str]) -> list[str]:
        shown = subprocess.run(["ctest", "--test-dir", str(folder), "--show-only=json-v1", *more],
                               check=True, capture_output=True, text=True)  # fmt: skip
        return [test["name"] for test in json.loads(shown.stdout)["tests"]]

    chosen = set(names(words))
    return {number: name for number, name in enumerate(names([]), 1) if name in chosen}


def read_results(file: Path, commit: str, keep: bool) -> list[Result]:
    """The results that count at `commit`."""
    if not file.exists():
        return []
    found = [Result(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    if not keep:
        return [result for result in found if result.commit == commit]
    failed = {r.test: place for place, r in enumerate(found) if r.outcome == "failed" and r.commit != commit}
    return [result for place, result in enumerate(found) if place > failed.get(result.test, -1)]


def missing_tests(tests: dict[int, str], results: list[Result], lap: int, times: int) -> list[int]:
    """Numbers of the tests without a result in `lap`; a failed one is run again where each runs once."""
    done = {r.test for r in results if r.lap == lap and (r.outcome != "failed" or times > 1)}
    return [number for number, name in tests.items() if name not in done]


def outcome_of(word: str) -> str:
    return {"Passed": "passed", "***Skipped": "skipped", "Skipped": "skipped"}.get(word.strip(), "failed")


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[list[subprocess.Popen]]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield loops
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run_tests(folder: Path, numbers: list[int], lap: int, commit: str, file: Path) -> None:
    """Appends a line to `file` for each test that ends; what ctest prints goes to output-LAP.txt beside it."""
    chosen = ",".join(map(str, ["0", "0", "0", *numbers]))
    command = ["ctest", "--test-dir", str(folder), "--output-on-failure", "--no-tests=error", "-j2", "-I", chosen]
    with open(file.parent / f"output-{lap}.txt", "a", encoding="utf-8") as output, \
            open(file, "a", encoding="utf-8") as lines, \
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, errors="replace") as ctest:  # fmt: skip
        for line in ctest.stdout:
            output.write(line)
            output.flush()
            if ended := ENDED.match(line):
                result = Result(ended[2], lap, outcome_of(ended[3]), float(ended[4]), commit)
                lines.write(json.dumps(asdict(result)) + "\n")
                lines.flush()
                print(f"lap {lap} {result.test}: {result.outcome}, {result.seconds} s", file=sys.stderr, flush=True)


def last_of_each(results: list[Result]) -> list[Result]:
    return list({(r.test, r.lap): r for r in results}.values())


def summary_of(results: list[Result], times: int, beside: int) -> str:
    judged = last_of_each(results)
    counts = {kind: sum(r.outcome == kind for r in judged) for kind in ("passed", "failed", "skipped")}
    skipped = sorted({r.test for r in judged if r.outcome == "skipped"})
    text = f"{len({r.test for r in judged})} tests"
    if times > 1:
        text += f", {times} times"
    if beside:
        text += f" beside {beside} busy loops"
    text += f": {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
    if skipped:
        text += f" ({', '.join(skipped)})"
    commits = sorted({r.commit for r in judged})
    return text + (f"; at commits {', '.join(commits)}" if len(commits) > 1 else "")


def run_suite(options: argparse.Namespace) -> int:
    commit = commit_of_tree()
    folder = options.folder.resolve()
    file = folder / "long_runs" / options.name / "results.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    tests = selected_tests(folder, options.words)
    with busy_loops(options.beside):
        for lap in range(options.times):
            numbers = missing_tests(tests, read_results(file, commit, options.keep), lap, options.times)
            if numbers:
                run_tests(folder, numbers, lap, commit, file)
    results = [r for r in read_results(file, commit, options.keep) if r.test in tests.values() and r.lap < options.times]
    judged = last_of_each(results)
    missing = len(tests) * options.times - len(judged)
    failed = sorted({r.test for r in judged if r.outcome == "failed"})
    for name in failed:
        print(f"{name}: failed; see {file.parent}/output-*.txt", file=sys.stderr)
    if missing:
        print(f"{missing} results are missing; run it again", file=sys.stderr)
    reports = sorted(options.reports.iterdir()) if options.reports and options.reports.exists() else []
    if reports:
        print(f"sanitizers reported {len(reports)} processes: see {options.reports}; remove what is mended, and the results "
              "of its tests", file=sys.stderr)  # fmt: skip
    summary = summary_of(results, options.times, options.beside) + (f"; {options.note}" if options.note else "")
    print(summary)
    if failed or missing or reports:
        return 1
    record(options.name, sum(r.seconds for r in judged), summary, commit)
    return 0


def record(name: str, seconds: float, summary: str, commit: str | None = None) -> None:
    runs = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    runs[name] = {"commit": commit or commit_of_tree(), "date": datetime.date.today().isoformat(),
                  "minutes": max(1, round(seconds / 60)), "cores": len(os.sched_getaffinity(0)),
                  "summary": summary}  # fmt: skip
    RECORD.write_text(json.dumps(runs, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    suite = commands.add_parser("suite")
    suite.add_argument("name")
    suite.add_argument("folder", type=Path)
    suite.add_argument("--times", type=int, default=1)
    suite.add_argument("--beside", type=int, default=0)
    suite.add_argument("--keep", action="store_true")
    suite.add_argument("--reports", type=Path)
    suite.add_argument("--note")
    noted = commands.add_parser("record")
    noted.add_argument("name")
    noted.add_argument("--seconds", type=float, required=True)
    noted.add_argument("--summary", required=True)
    words = sys.argv[1:]
    divide = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:divide])
    options.words = words[divide + 1 :]
    if options.command == "suite":
        return run_suite(options)
    record(options.name, options.seconds, options.summary)
    return 0


if __name__ == "__main__":
    sys.exit(main())
