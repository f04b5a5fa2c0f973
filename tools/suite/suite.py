#!/usr/bin/env python3
"""The score card of a machine: every goal's figure with its floor and aim. `lockstep bench --suite cpu` runs it.

    suite.py --program PATH-OF-LOCKSTEP [--out DIR] [--quick] [--pairs N] [--only ROW[,ROW]] [--checkpoint DIR] …

    options ─► Setting ─► plan ───────► measure ───► figures ───► report, picture
                          rows and      programs     pairs and    table, suite.json,
                          commands      in turn      verdicts     suite.svg, suite.html

Python 3.10, standard library only. docs/benchmarks.md explains the rows and the files.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time
from typing import NoReturn

if sys.version_info < (3, 10):
    print(f"lockstep: [tools/suite] found Python {sys.version.split()[0]}, expected 3.10 or newer; put a newer python3 "
          "into PATH", file=sys.stderr)
    sys.exit(4)

import plan
from children import Interrupted, Interruption
from figures import ChildRecord, ChildStatus, make_row
from measure import Workplace, measure
from picture import to_page, to_svg
from report import Machine, Report, rivals_of, to_json, to_table

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PAIRS, QUICK_PAIRS = 5, 2
BAD_USAGE, WRONG_MACHINE, INTERRUPTED = 2, 4, 130  # exit codes of lockstep
KNOWN_CODES = (1, 2, 3, 4, 5, 6, 7, 130)


class SuiteError(Exception):
    """Ends the suite, with the exit code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def say(line: str) -> None:
    print(f"[suite] {line}", file=sys.stderr, flush=True)


def refuse(text: str) -> NoReturn:
    raise SuiteError(BAD_USAGE, text)


def parse(words: list[str]) -> argparse.Namespace:
    """The options of `lockstep bench --suite`, which explains them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, required=True, help="lockstep")
    parser.add_argument("--suite", choices=["cpu"], default="cpu")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("suite"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--only", action="append", default=[], metavar="ROW[,ROW]")
    parser.add_argument("--rival", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--rival-scripts", type=pathlib.Path, default=REPOSITORY / "tools" / "compare")
    parser.add_argument("--checkpoint", type=pathlib.Path)
    parser.add_argument("--launch-template", default="", metavar="WORDS")
    parser.add_argument("--child-deadline-s", type=float, default=300.0)
    parser.add_argument("--config", type=pathlib.Path, help="the model of every row")
    parser.add_argument("--tp", type=int, help="ranks of the rows about several")
    parser.add_argument("--threads", type=int, help="of each of those ranks")
    parser.add_argument("--probe-mib", type=int)
    return parser.parse_args(words)


def this_machine() -> Machine:
    cpu = ""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as about:
        for line in about:
            if line.startswith("model name"):
                cpu = line.partition(":")[2].strip()
                break
    return Machine(os.uname().nodename, cpu, len(os.sched_getaffinity(0)))


def version_of(program: str) -> str:
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
        return said.split()[1]
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        raise SuiteError(BAD_USAGE, f"--program: found {program}, expected lockstep: {error}") from error


def make_folder(path: pathlib.Path) -> pathlib.Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse(f"--out: found {path}, expected a folder that can be created and written: {error.strerror}")
    if not os.access(path, os.W_OK):
        refuse(f"--out: found {path}, expected a folder that can be written")
    return path.resolve()


def launch_of(template: str, ranks: int) -> plan.Launch:
    try:
        words = tuple(shlex.split(template))
    except ValueError as error:
        refuse(f"--launch-template: found {template}: {error}")
    if words == ("threads",):
        return plan.Launch(threads=True)
    if words and ranks > 1 and not any("{ranks}" in word for word in words):
        refuse(f'--launch-template: found "{template}", expected {{ranks}} in it; write for example '
               '"mpirun -n {ranks}"')
    return plan.Launch(words, threads=not words and shutil.which("mpirun") is None)


def compare_words(options: argparse.Namespace, folder: pathlib.Path) -> tuple[str, ...]:
    for rival in options.rival:
        name, _, path = rival.partition("=")
        if not name or not path:
            refuse(f'--rival: found "{rival}", expected NAME=PATH, such as ik=build/bin/llama-bench')
    script = options.rival_scripts.resolve() / "compare.py"
    if not script.is_file():
        return ()
    rivals = [word for rival in options.rival for word in ("--rival", rival)]
    return (sys.executable, str(script), "--models", str(folder / "models"), *rivals)


def setting_of(options: argparse.Namespace, folder: pathlib.Path, machine: Machine) -> plan.Setting:
    shape = plan.rank_shape(machine.cores, options.tp)
    shapes = REPOSITORY / "examples" / "shapes"
    config = options.config.resolve() if options.config else None
    collectives = options.program.resolve().parent / "collective_benchmark"
    return plan.Setting(
        cores=machine.cores, ranks=shape.ranks, threads=options.threads or shape.threads,
        program=str(options.program.resolve()), launch=launch_of(options.launch_template, shape.ranks),
        large=config or shapes / "llama-3.2-1b.json", small=config or shapes / "smollm2-135m.json",
        checkpoint=options.checkpoint.resolve() if options.checkpoint else None,
        shared=("--probe-mib", str(options.probe_mib)) if options.probe_mib else (),
        pairs=options.pairs or (QUICK_PAIRS if options.quick else PAIRS), repeats=1 if options.quick else 2,
        deadline_s=options.child_deadline_s,
        collectives=collectives if os.access(collectives, os.X_OK) else None, compare=compare_words(options, folder))


def selected(whole: plan.Plan, options: argparse.Namespace) -> plan.Plan:
    names = [name for list_ in options.only for name in list_.split(",")]
    try:
        return plan.only(whole, names) if names else whole
    except plan.UnknownRow as error:
        refuse(f"--only: {error}")


def run_all(chosen: plan.Plan, place: Workplace, report: Report) -> bool:
    """Runs every measurement into `report`; returns whether none was interrupted."""
    for number, measurement in enumerate(chosen.measurements, 1):
        try:
            report.children[measurement.id] = measure(
                measurement, place, lambda line: say(f"{number} of {len(chosen.measurements)}: {line}"))
        except Interrupted:
            return False
    return True


def add_rows(chosen: plan.Plan, report: Report) -> None:
    measurements = {measurement.id: measurement for measurement in chosen.measurements}
    for goal in chosen.goals:
        measurement = measurements[goal.measurement]
        row = make_row(goal, measurement, report.children.get(measurement.id, []))
        if measurement.id not in report.children and not measurement.absence:
            row.reason = "interrupted before it was measured"
        report.rows.append(row)
    report.rivals = rivals_of(report.children)


def write_report(folder: pathlib.Path, report: Report) -> None:
    for name, text in (("suite.json", to_json(report)), ("suite.svg", to_svg(report)), ("suite.html", to_page(report))):
        partial = folder / f"{name}.partial"
        try:
            partial.write_text(text, encoding="utf-8", errors="replace")
            partial.replace(folder / name)
        except OSError as error:
            refuse(f"--out: cannot write {folder / name}: {error.strerror}; name a folder on a disk that has room")
    print(to_table(report), end="", flush=True)
    say(f"report: {folder / 'suite.html'}")


def judge_children(children: dict[str, list[ChildRecord]]) -> None:
    """The first failed program determines the exit code; unavailable or missing rows are no failure."""
    for measurement, records in children.items():
        for record in records:
            if record.status is ChildStatus.FAILED:
                code = record.code if record.code in KNOWN_CODES else WRONG_MACHINE  # a launcher's own, or a signal
                raise SuiteError(code, f'the measurement "{measurement}" failed at "{record.side}": {record.reason}')


def run(options: argparse.Namespace, interruption: Interruption) -> None:
    machine = this_machine()
    folder = make_folder(options.out)
    setting = setting_of(options, folder, machine)
    chosen = selected(plan.plan_of(setting), options)
    report = Report(options.suite, version_of(setting.program), machine, setting.ranks, setting.threads, setting.pairs)
    interruption.watch()
    whole = run_all(chosen, Workplace(folder, machine.cores, interruption), report)
    report.unix_time = float(int(time.time()))
    add_rows(chosen, report)
    write_report(folder, report)
    if not whole:
        raise SuiteError(INTERRUPTED, "interrupted; the report holds what was measured until then")
    judge_children(report.children)


def main() -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")
    options = parse(sys.argv[1:])
    try:
        run(options, Interruption())
    except SuiteError as error:
        print(f"lockstep: [tools/suite] {error}", file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
