"""The results of a suite as a table and as JSON. Pure."""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from figures import ChildRecord, Row, Verdict, short_number
from goals import Better, Limits


@dataclass(frozen=True)
class Machine:
    host: str
    cpu: str
    cores: int


@dataclass(frozen=True)
class Rival:
    """Another engine and its state in compare.py."""
    name: str
    version: str = ""
    state: str = ""   # "ran", "missing", "failed"
    reason: str = ""  # how to install it, or why it failed


@dataclass
class Report:
    suite: str
    version: str
    machine: Machine
    ranks: int  # of rows about several ranks
    threads: int
    pairs: int
    unix_time: float = 0.0  # of its end
    rows: list[Row] = field(default_factory=list)
    rivals: list[Rival] = field(default_factory=list)
    children: dict[str, list[ChildRecord]] = field(default_factory=dict)  # by measurement


def rivals_of(children: dict[str, list[ChildRecord]]) -> list[Rival]:
    """The rivals in the results of `children`, each once; ran if it ran in any of them."""
    rivals: dict[str, Rival] = {}
    for records in children.values():
        for record in records:
            named = record.result.get("rivals", []) if isinstance(record.result, dict) else []
            for each in (each for each in named if isinstance(each, dict)):
                rival = Rival(*(str(each.get(key, "")) for key in ("name", "version", "state", "reason")))
                if rival.name not in rivals or rival.state == "ran":
                    rivals[rival.name] = rival
    return list(rivals.values())


def summary(report: Report) -> str:
    """"9 of 28 rows measured: 6 reach the aim, 1 more the floor, 2 lie below it; 19 missing"."""
    counts = {verdict: sum(row.verdict is verdict for row in report.rows) for verdict in Verdict}
    measured = sum(count for verdict, count in counts.items() if verdict.is_measured)
    text = (f"{measured} of {len(report.rows)} rows measured: {counts[Verdict.AIM]} reach the aim, "
            f"{counts[Verdict.FLOOR]} more the floor, {counts[Verdict.BELOW]} lie below it")
    others = (verdict for verdict in Verdict if not verdict.is_measured and counts[verdict])
    return "; ".join([text, *(f"{counts[verdict]} {verdict.value}" for verdict in others)])


def limit_text(limits: Limits, value: float) -> str:
    return f"{'≥' if limits.better is Better.HIGHER else '≤'} {short_number(value)}"


def beside_text(row: Row) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.beside.items())


def _row_text(row: Row) -> str:
    limits = row.goal.limits
    median = short_number(row.spread.median) if row.spread else "–"
    line = (f"{row.goal.id:<26}{median:>8}{limit_text(limits, limits.floor):>9}{limit_text(limits, limits.aim):>9}"
            f"  {row.verdict.value:<14}")
    if row.spread:
        line += f"{short_number(row.spread.min)} … {short_number(row.spread.max)}, {len(row.pairs)} pair(s)"
    return "".join(f"{text}\n" for text in (
        line, *(f"      {text}" for text in (row.goal.name, beside_text(row), row.reason) if text)))


def to_table(report: Report) -> str:
    machine = report.machine
    lines = [f"suite {report.suite} of lockstep {report.version} on {machine.host}: {machine.cores} cores, "
             f"{machine.cpu}\n"
             f"rows about several ranks: {report.ranks} of {report.threads} thread(s); "
             f"{report.pairs} pairs asked for\n",
             f"\n{'row':<26}{'median':>8}{'floor':>9}{'aim':>9}  {'verdict':<14}least … most\n"]
    lines += [_row_text(row) for row in report.rows]
    if report.rivals:
        lines.append("\nother engines\n")
    lines += [f"  {rival.name:<20}{rival.state:<9}{rival.version if rival.state == 'ran' else rival.reason}\n"
              for rival in report.rivals]
    return "".join([*lines, f"\n{summary(report)}\n"])


def _row_json(row: Row) -> dict[str, Any]:
    limits = row.goal.limits
    document: dict[str, Any] = {"id": row.goal.id, "name": row.goal.name, "better": limits.better.value,
                                "floor": limits.floor, "aim": limits.aim, "verdict": row.verdict.value,
                                "pairs": row.pairs}
    if row.spread:
        document |= {"median": row.spread.median, "min": row.spread.min, "max": row.spread.max,
                     "quartiles": [row.spread.lower, row.spread.upper]}
    if row.reason:
        document["reason"] = row.reason
    if row.beside:
        document["beside"] = row.beside
    return document


def _child_json(measurement: str, child: ChildRecord) -> dict[str, Any]:
    document: dict[str, Any] = {"measurement": measurement, "side": child.side, "round": child.round,
                                "command": child.command, "code": child.code, "seconds": child.seconds}
    if child.reason:
        document["reason"] = child.reason
    if child.result is not None:
        document["result"] = child.result
    return document


def to_json(report: Report) -> str:
    """The document suite.json; docs/benchmarks.md lists its fields."""
    machine, rivals = report.machine, report.rivals
    document = {
        "suite": report.suite, "version": report.version, "unix_time": report.unix_time,
        "machine": {"host": machine.host, "cpu": machine.cpu, "cores": machine.cores},
        "ranks": report.ranks, "threads": report.threads, "pairs": report.pairs, "summary": summary(report),
        "rows": [_row_json(row) for row in report.rows],
        "rivals": [{"name": rival.name, "version": rival.version, "state": rival.state, "reason": rival.reason}
                   for rival in rivals],
        "children": [_child_json(measurement, child) for measurement, records in report.children.items()
                     for child in records]}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
