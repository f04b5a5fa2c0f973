"""HTML tables for notebooks, and the optional use of matplotlib."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from .errors import Error


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], notes: Sequence[str] = ()) -> str:
    """A table as HTML without styles; all texts are escaped. Numbers are aligned on the right."""
    def cell(value: Any) -> str:
        align = "" if isinstance(value, str) else ' style="text-align: right"'
        text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
        return f"<td{align}>{html.escape(text)}</td>"

    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    below = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    return (f"<table><caption>{html.escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"{below}")


def mebibytes(count: int) -> float:
    """Bytes as MiB."""
    return count / 2**20


def new_axes(what: str) -> Any:
    """Axes of matplotlib. Raises `lockstep.Error` (kind "unavailable") where it is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise Error(f"[python] cannot plot {what}: found no matplotlib, expected it; install matplotlib, or read the table",
                    "unavailable") from None
    try:
        from matplotlib import pyplot

        return pyplot.figure().add_subplot()
    except ImportError:  # a matplotlib without a working backend
        return Figure().add_subplot()
