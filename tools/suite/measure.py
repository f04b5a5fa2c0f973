"""Runs the programs of a measurement in turn (A B A B …), each with a deadline, and collects their reports."""
from __future__ import annotations

import json
import pathlib
import shlex
from dataclasses import dataclass
from typing import Any, Callable

from children import CannotStart, Interruption, Outcome, run_child
from figures import ChildRecord, ChildStatus
from file_cache import CacheError, FileReading, drop_from_cache, read_files
from goals import Files
from plan import PlannedMeasurement, Side

REFUSALS = (2, 3)  # bad usage, unsupported: the program or its build does not support the row
OWN_MESSAGE = "lockstep: "
SHOWN_LINES = 6  # of a failed program's stderr


@dataclass(frozen=True)
class Workplace:
    """The common setting of the programs."""
    folder: pathlib.Path  # for results while a program runs
    threads: int          # that read files, for measurements of reading
    interruption: Interruption


def turns_of(measurement: PlannedMeasurement) -> list[tuple[int, Side]]:
    """Round and side of every start, in order. Pure."""
    return [(round_, side) for round_ in range(measurement.rounds) for side in measurement.sides]


def reason_of(errors: str) -> str:
    """The reason of a failed program: its last line with "lockstep: ", or else its last lines. Pure."""
    lines = [line for line in errors.splitlines() if line.strip(" \t\r-")]
    own = [line.partition(OWN_MESSAGE)[2] for line in lines if OWN_MESSAGE in line]
    return own[-1] if own else "\n".join(lines[-SHOWN_LINES:])


def _prepare(files: Files, checkpoint: pathlib.Path | None, threads: int) -> FileReading | None:
    """Puts the page cache into the state `files`, and times reading all files in that state."""
    if files is Files.AS_THEY_ARE or checkpoint is None:
        return None
    if files is Files.COLD:
        drop_from_cache(checkpoint)
    else:
        read_files(checkpoint, threads)
    reading = read_files(checkpoint, threads)
    if files is Files.COLD:
        drop_from_cache(checkpoint)
    return reading


def _result(path: pathlib.Path, record: ChildRecord, reading: FileReading | None) -> dict[str, Any] | None:
    """The program's report, with the suite's own measurements under "suite"."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(result, dict):
        return None
    result["suite"] = {"seconds": record.seconds}
    if reading:
        result["suite"]["files"] = {"bytes": reading.bytes, "read_s": reading.seconds}
    return result


def _take(record: ChildRecord, outcome: Outcome, path: pathlib.Path, reading: FileReading | None) -> None:
    record.code, record.seconds = outcome.shell_code, outcome.seconds
    if not outcome.succeeded:
        refused = not outcome.passed_deadline and record.code in REFUSALS
        record.status = ChildStatus.REFUSED if refused else ChildStatus.FAILED
        record.reason = ": ".join(filter(None, (str(outcome), reason_of(outcome.errors))))
        return
    record.result = _result(path, record, reading)
    if record.result is None:
        record.status, record.reason = ChildStatus.FAILED, "it ended with exit code 0 and wrote no result"


def _run_turn(measurement: PlannedMeasurement, round_: int, side: Side, place: Workplace) -> ChildRecord:
    path = place.folder / f"running-{measurement.id}-{side.name}.json"
    path.unlink(missing_ok=True)
    words = [*side.words, "--json", str(path)]
    record = ChildRecord(side.name, round_, shlex.join(words))
    try:
        reading = _prepare(side.files, measurement.checkpoint, place.threads)
        _take(record, run_child(words, measurement.deadline_s, place.interruption), path, reading)
    except CacheError as error:
        record.status, record.reason = ChildStatus.REFUSED, str(error)
    except CannotStart as error:
        record.status, record.reason, record.code = ChildStatus.FAILED, str(error), error.code
    finally:
        path.unlink(missing_ok=True)
    return record


def measure(measurement: PlannedMeasurement, place: Workplace, say: Callable[[str], None]) -> list[ChildRecord]:
    """The results of the programs; starts none after the first failure, because the next ones would take as long to
    fail. Raises Interrupted. Blocks."""
    records: list[ChildRecord] = []
    if measurement.absence:
        return records
    for round_, side in turns_of(measurement):
        record = _run_turn(measurement, round_, side, place)
        worked = record.status is ChildStatus.OK
        say(f"{measurement.id}, round {round_ + 1} of {measurement.rounds}, {side.name}: "
            f"{'ok' if worked else record.reason[:160]}; took {record.seconds:.1f} s")
        records.append(record)
        if not worked:
            break
    return records
