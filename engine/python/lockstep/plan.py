"""Plans of tensor-parallel degrees, and the results of `lockstep sweep`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import _lockstep
from .calls import called
from .errors import InputError, bad_input
from .tables import html_table, mebibytes, new_axes


class Plan(dict[str, Any]):
    """The document of ``lockstep plan --json`` as a dict: "degrees", "best", "machine" and the sizes.

    Each of "degrees" has "degree" and "works"; one that works also "memory" (bytes of the fullest rank), "predicted",
    "speed_up", "efficiency", "fits" and "ranks". Others have a "reason". Notebooks show a table.
    """

    @property
    def best(self) -> int | None:
        """The recommended degree; None: no degree fits the memory budget."""
        return None if self["best"] is None else self["best"]["degree"]

    def __repr__(self) -> str:
        best = "none" if self["best"] is None else f"TP {self.best}: {self['best']['why']}"
        return f"<lockstep.Plan {self['model_type']} {self['dtype']}, best: {best}>"

    def _repr_html_(self) -> str:
        rows: list[tuple[Any, ...]] = []
        for degree in self["degrees"]:
            if not degree["works"]:
                rows.append((degree["degree"], degree["reason"]))
                continue
            memory, predicted = degree["memory"], degree["predicted"]
            heads, kv, of_global = (
                extent and ("{least}-{most}".format(**extent) if extent["least"] != extent["most"] else extent["most"])
                for extent in map(degree.get, ("query_heads", "key_value_heads", "global_key_value_heads")))
            if of_global is not None:
                kv = f"{kv}, without a window {of_global}"
            rows.append((degree["degree"], "over the budget" if degree["fits"] is False else "works", heads, kv,
                         mebibytes(memory["weights"]), mebibytes(memory["cache"]), mebibytes(memory["total"]),
                         predicted["decode_tokens_per_s"], predicted["prefill_tokens_per_s"],
                         degree["speed_up"]["decode"], degree["efficiency"]["decode"]))
        best = "best: none fits the budget" if self["best"] is None else f"best: TP {self.best}: {self['best']['why']}"
        return html_table(
            f"{self['model_type']}, {self['dtype']}, {self['batch_size']} sequences of {self['max_seq_len']} tokens",
            ("TP", "", "query heads", "KV heads", "weights MiB", "KV MiB", "sum MiB", "decode tokens/s", "prefill tokens/s",
             "speedup", "efficiency"), rows, [best, *self["machine"]["assumptions"]])

    def plot(self) -> Any:
        """Predicted decode speed by degree, as axes of matplotlib.

        Raises `lockstep.Error` (kind "unavailable") without matplotlib.
        """
        axes = new_axes("a plan")
        works = [degree for degree in self["degrees"] if degree["works"]]
        axes.plot([degree["degree"] for degree in works],
                  [degree["predicted"]["decode_tokens_per_s"] for degree in works], marker="o")
        axes.set_xlabel("tensor-parallel degree")
        axes.set_ylabel("decode tokens/s, predicted")
        return axes


class Sweep(dict[str, Any]):
    """The results.json of ``lockstep sweep`` as a dict: "points", "series", "verdicts", "machines", "model"."""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Sweep:
        """Reads the file, or the one in a sweep's folder.

        Raises `lockstep.InputError` for a file that is missing or is not a sweep's.
        """
        file = Path(path)
        file = file / "results.json" if file.is_dir() else file
        what = "cannot read a sweep"
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"[python] {what}: found {error.strerror or error} for {file}, expected results.json; give the "
                             "folder of lockstep sweep --out", "not_found") from None
        except ValueError:
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("points"), list):
            raise bad_input(what, f"no \"points\" in {file}", "the results.json of lockstep sweep", "give another file")
        return cls(found)

    def __repr__(self) -> str:
        return f"<lockstep.Sweep of {len(self['points'])} points>"

    def _repr_html_(self) -> str:
        columns = {"tp": "TP", "batch_size": "batch", "prompt_tokens": "prompt", "new_tokens": "new",
                   "decode_tokens_per_s": "decode tokens/s", "prefill_tokens_per_s": "prefill tokens/s", "ttft_s": "TTFT s",
                   "tpot_s": "TPOT s", "speed_up": "speedup", "efficiency": "efficiency", "status": "status"}
        return html_table("lockstep sweep", tuple(columns.values()),
                          [[point.get(name) for name in columns] for point in self["points"]], self.get("verdicts", []))

    def plot(self) -> Any:
        """Decode speed by degree, a line for each series, as axes of matplotlib.

        Raises `lockstep.Error` (kind "unavailable") without matplotlib.
        """
        axes = new_axes("a sweep")
        series = self.get("series") or [{"name": "", "points": range(len(self["points"]))}]
        for line in series:
            points = [self["points"][index] for index in line["points"]]
            points = [point for point in points if point.get("decode_tokens_per_s") is not None]
            axes.plot([point["tp"] for point in points], [point["decode_tokens_per_s"] for point in points], marker="o",
                      label=line["name"])
        axes.set_xlabel("tensor-parallel degree")
        axes.set_ylabel("decode tokens/s")
        axes.legend()
        return axes


def _degrees_of(tp: int | Iterable[int]) -> list[int]:
    degrees = [tp] if isinstance(tp, int) else list(tp)
    if not degrees or any(not isinstance(degree, int) or not 1 <= degree <= 4096 for degree in degrees):
        raise bad_input("cannot plan", f"tp={tp!r}", "degrees of 1 to 4096, such as range(1, 9)", "correct it")
    return degrees


def plan_of(engine: _lockstep.OpenModel, tp: int | Iterable[int], prompt_tokens: int | None, new_tokens: int,
            batch_size: int | None, max_seq_len: int | None, memory_budget: int | None, measure: bool,
            probe: str | os.PathLike[str] | None, machine: dict[str, float]) -> Plan:
    """The plan of an open model."""
    return Plan(json.loads(called(
        engine, "plan_json", degrees=_degrees_of(tp), prompt_tokens=prompt_tokens, new_tokens=new_tokens, batch_size=batch_size,
        max_seq_len=max_seq_len, memory_budget=memory_budget, machine=machine, measure=measure,
        probe=None if probe is None else os.fspath(probe))))
