"""Computes figures of pairs from the sides' reports: a goal's formula, its spread and its verdict. Pure."""
from __future__ import annotations

import enum
import json
import math
from dataclasses import dataclass, field
from typing import Any

from goals import Better, Goal, Limits, Shown
from plan import AbsenceKind, PlannedMeasurement

EACH = "/*"
Results = dict[str, Any]  # reports of the sides of one round, by name, without failed sides


class ChildStatus(enum.Enum):
    OK = "ok"
    REFUSED = "refused"  # an option is unknown or unsupported
    FAILED = "failed"


@dataclass
class ChildRecord:
    """The result of one program of a measurement."""
    side: str
    round: int = 0
    command: str = ""
    status: ChildStatus = ChildStatus.OK
    code: int = 0  # as a shell gives it
    seconds: float = 0.0
    reason: str = ""    # why it failed
    result: Any = None  # its report; None unless it succeeded


class NoFigure(Exception):
    """A formula cannot be computed from the reports; the text is the reason."""


def short_number(value: float) -> str:
    """Three digits, or all digits before the point: "0.458", "61.3", "11394"."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _element(found: Any, step: str) -> Any:
    """The target of one step of a pointer; None if it does not exist."""
    if step.startswith("["):
        key, _, number = step[1:-1].partition("=")
        matches = (each for each in found if isinstance(each, dict) and json.dumps(each.get(key)) == number)
        return next(matches, None) if isinstance(found, list) else None
    return found.get(step) if isinstance(found, dict) else None


def _find(document: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        document = _element(document, step)
    return document


def operand_values(operand: str, results: Results) -> list[float]:
    """One value, or those of every element of a list. Raises NoFigure."""
    side, _, pointer = operand.partition(":")
    missing = NoFigure(f'the result of "{side}" has no number at {pointer}')
    document = results.get(side)
    if EACH in pointer:
        path, _, rest = pointer.partition(EACH)
        elements = _find(document, path)
        numbers = [_find(element, rest) for element in elements] if isinstance(elements, list) else []
    else:
        numbers = [_find(document, pointer)]
    if not numbers or not all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in numbers):
        raise missing
    return [float(number) for number in numbers]


def _combined(sign: str, product: list[float], values: list[float], operand: str) -> list[float]:
    if len(product) == 1:
        product = product * len(values)
    if len(values) == 1:
        values = values * len(product)
    if len(values) != len(product):
        raise NoFigure(f"found {len(values)} values at {operand}, expected {len(product)}")
    try:
        return [a * b if sign == "×" else a / b for a, b in zip(product, values)]
    except ZeroDivisionError as error:
        raise NoFigure("a figure cannot be computed: found a division by 0") from error


def figure_values(figure: str, results: Results) -> list[float]:
    """The values of a formula in one round, one for each pair. Raises NoFigure."""
    product, sign = [1.0], "×"
    for word in figure.split():
        if word in ("×", "÷"):
            sign = word
        else:
            values = operand_values(word, results) if ":" in word else [float(word)]
            product = _combined(sign, product, values, word)
    if not all(map(math.isfinite, product)):
        raise NoFigure("a figure cannot be computed: it is not finite")
    return product


@dataclass(frozen=True)
class PairSpread:
    median: float
    min: float
    max: float
    lower: float  # quartiles
    upper: float


def _quantile(ordered: list[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def pair_spread(values: list[float]) -> PairSpread:
    """The spread of at least one value; quartiles are interpolated like the median."""
    ordered = sorted(values)
    return PairSpread(_quantile(ordered, 0.5), ordered[0], ordered[-1], _quantile(ordered, 0.25),
                      _quantile(ordered, 0.75))


class Verdict(enum.Enum):
    AIM = "aim"
    FLOOR = "pass"
    BELOW = "below"
    FAILED = "failed"
    NOT_AVAILABLE = "not available"
    MISSING = "missing"

    @property
    def is_measured(self) -> bool:
        return self in (Verdict.AIM, Verdict.FLOOR, Verdict.BELOW)


def judge(limits: Limits, figure: float) -> Verdict:
    def reaches(limit: float) -> bool:
        return figure >= limit if limits.better is Better.HIGHER else figure <= limit

    if reaches(limits.aim):
        return Verdict.AIM
    return Verdict.FLOOR if reaches(limits.floor) else Verdict.BELOW


def of_aim(limits: Limits, figure: float) -> float:
    """1 if the aim is just reached, more if it is exceeded, whichever direction is better."""
    if limits.better is Better.HIGHER:
        return figure / limits.aim
    return limits.aim / figure if figure > 0 else math.inf


@dataclass
class Row:
    """A line of the report."""
    goal: Goal
    verdict: Verdict = Verdict.FAILED
    pairs: list[float] = field(default_factory=list)  # in the order of measurement
    spread: PairSpread | None = None                  # of `pairs`; None if there are none
    reason: str = ""                                  # why there are no pairs, or fewer than requested
    beside: dict[str, str] = field(default_factory=dict)  # medians with their units, as text


def _beside(shown: tuple[Shown, ...], rounds: list[Results]) -> dict[str, str]:
    texts = {}
    for each in shown:
        values: list[float] = []
        for results in rounds:
            try:
                values += operand_values(each.operand, results)
            except NoFigure:
                continue
        if values:
            texts[each.name] = f"{short_number(pair_spread(values).median * each.scale)} {each.unit}"
    return texts


def _rounds(measurement: PlannedMeasurement, children: list[ChildRecord]) -> list[Results]:
    rounds: list[Results] = [{} for _ in range(measurement.rounds)]
    for child in children:
        if child.status is ChildStatus.OK:
            rounds[child.round].setdefault(child.side, child.result)
    return rounds


def _explain(row: Row, children: list[ChildRecord]) -> None:
    """The best reason: an absent requirement before a failed program before a missing result."""
    for child in children:
        if child.status is not ChildStatus.OK:
            row.reason = f'"{child.side}": {child.reason}'
            row.verdict = Verdict.NOT_AVAILABLE if child.status is ChildStatus.REFUSED else Verdict.FAILED
            break
    for child in children:
        if isinstance(child.result, dict) and isinstance(child.result.get("absent"), str):
            row.reason, row.verdict = child.result["absent"], Verdict.MISSING
            break


def make_row(goal: Goal, measurement: PlannedMeasurement, children: list[ChildRecord]) -> Row:
    """The row of `goal`, from the results of its measurement's programs."""
    row = Row(goal)
    if measurement.absence:
        row.verdict = (Verdict.MISSING if measurement.absence.kind is AbsenceKind.MISSING else Verdict.NOT_AVAILABLE)
        row.reason = measurement.absence.reason
        return row
    rounds = _rounds(measurement, children)
    for results in rounds:
        try:
            row.pairs += figure_values(goal.figure, results)
        except NoFigure as error:
            if not row.reason:
                row.reason, row.verdict = str(error), Verdict.NOT_AVAILABLE
    _explain(row, children)
    if row.pairs:
        row.spread = pair_spread(row.pairs)
        row.verdict = judge(goal.limits, row.spread.median)
        row.beside = _beside(goal.beside, rounds)
    return row
