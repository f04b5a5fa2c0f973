"""The report of serve.py as a table: figures against their goals, and rivals against ours."""
from __future__ import annotations

import statistics
from typing import Any

OURS = "lockstep"


def median(row: dict[str, Any]) -> float:
    return statistics.median(row["ratios"])


def is_met(row: dict[str, Any]) -> bool:
    sign, goal = row["goal"].split()
    return median(row) >= float(goal) if sign == ">=" else median(row) <= float(goal)


def span(values: list[float]) -> str:
    return f"{statistics.median(values):.3g} ({min(values):.3g} … {max(values):.3g})"


def cpu(row: dict[str, Any]) -> str:
    """Median CPU seconds of each part."""
    taken = row.get("cpu_s", [])
    return ", ".join(f"{part} {statistics.median(one[part] for one in taken):.3g}" for part in (taken[0] if taken else {}))


def line(row: dict[str, Any]) -> str:
    return f"{row['row']}: {span(row['ratios'])}, goal {row['goal']}: {'met' if is_met(row) else 'NOT met'}"


def rival_cells(row: dict[str, Any]) -> list[list[str]]:
    """A line for each rival: its figure beside ours."""
    rivals = row.get("rivals", {})
    values = rivals.get("values", {})
    lines = []
    for name, theirs in values.items():
        if name == OURS:
            continue
        ours = values[OURS]
        mine, other = statistics.median(ours), statistics.median(theirs)
        is_ahead = mine > other if rivals["is_higher_better"] else mine < other
        lines.append([row["row"], rivals["what"], name, span(theirs), span(ours), "yes" if is_ahead else "no"])
    return lines


def table(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in rows)


def markdown(report: dict[str, Any]) -> str:
    lines, rivals = [], []
    for row in report["rows"]:
        if "failed" in row:
            lines.append([f"`{row['row']}`", row["what"], "failed: " + row["failed"][:120], "", "", ""])
            continue
        lines.append([f"`{row['row']}`", row["what"], span(row["ratios"]), row["goal"], "yes" if is_met(row) else "no",
                      cpu(row)])
        rivals += rival_cells(row)
    text = f"{report['model']}, median (minimum … maximum) of {report['pairs']} pairs.\n\n"
    text += table(["row", "figure", "measured", "goal", "met", "CPU seconds"], lines)
    if rivals:
        text += "\n" + table(["row", "figure", "rival", "rival's", "ours", "ahead"], rivals)
    for name, reason in report["absent"].items():
        text += f"\n{name}: not measured: {reason}\n"
    return text
