"""The last steps of a model."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _lockstep
from .calls import called
from .tables import html_table, new_axes

STEP = np.dtype([("number", np.int64), ("kind", "U8"), ("rows", np.int64), ("begin_s", np.float64), ("end_s", np.float64)])


@dataclass(frozen=True)
class Timeline:
    """The steps of rank 0 that the engine remembers (the last 4096), its slots and its ranks.

    `steps` is a numpy array with the fields "number" (from 1, since the start), "kind" ("prefill", "decode", "score"),
    "rows" (token rows), "begin_s" and "end_s" (seconds on the clock of `time.monotonic`), oldest first.
    `slots` have "use" ("free", "kept", "prefill", "decode"), "request", "tokens" and "new_tokens"; `ranks` have "state" and
    "resident" (bytes of the process). `read_s` is the time of this state, on the same clock.
    """

    steps: np.ndarray
    slots: list[dict[str, Any]]
    ranks: list[dict[str, Any]]
    read_s: float

    def seconds(self, kind: str | None = None) -> np.ndarray:
        """float64 [steps]: the duration of each step, or of each of one kind."""
        steps = self.steps if kind is None else self.steps[self.steps["kind"] == kind]
        durations: np.ndarray = steps["end_s"] - steps["begin_s"]
        return durations

    def __repr__(self) -> str:
        return f"<lockstep.Timeline of {len(self.steps)} steps>"

    def _repr_html_(self) -> str:
        rows = []
        for kind in sorted(set(self.steps["kind"].tolist())):
            seconds = self.seconds(kind) * 1e3
            of_kind = self.steps[self.steps["kind"] == kind]
            rows.append((kind, len(seconds), int(of_kind["rows"].sum()), float(np.median(seconds)), float(seconds.max())))
        return html_table(f"the last {len(self.steps)} steps", ("steps", "number", "rows", "median ms", "slowest ms"), rows)

    def plot(self) -> Any:
        """A bar for each step, a line for each kind, as axes of matplotlib; times in milliseconds since the first.

        Raises `lockstep.Error` (kind "unavailable") without matplotlib.
        """
        axes = new_axes("a timeline")
        kinds = sorted(set(self.steps["kind"].tolist()))
        for height, kind in enumerate(kinds):
            steps = self.steps[self.steps["kind"] == kind]
            begins = (steps["begin_s"] - self.steps["begin_s"].min()) * 1e3
            axes.broken_barh(list(zip(begins, self.seconds(kind) * 1e3)), (height - 0.4, 0.8))
        axes.set_yticks(range(len(kinds)), kinds)
        axes.set_xlabel("ms")
        return axes


def timeline_of(engine: _lockstep.OpenModel) -> Timeline:
    """The present timeline of an open model."""
    found = called(engine, "activity")
    return Timeline(np.array(found["steps"], STEP), found["slots"], found["ranks"], time.monotonic())
