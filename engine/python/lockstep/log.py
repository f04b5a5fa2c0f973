"""Log lines of ranks in Python's logging."""

from __future__ import annotations


def log_line(rank: int, level: str, line: str) -> None:
    """Gives a line of a rank to the logger "lockstep". `level`: "error", "warning", "info" or "debug"."""
    import logging

    logging.getLogger("lockstep").log(getattr(logging, level.upper()), "rank %d: %s", rank, line)
