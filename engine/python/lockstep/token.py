"""A streamed token."""

from __future__ import annotations

from typing import NamedTuple


class Token(NamedTuple):
    """A streamed token. `print(token, end="")` prints its text."""

    id: int | None  # None: only text, withheld until the end because a stop string could have begun in it
    text: str  # the whole characters that it completes, maybe none
    index: int = 0  # type: ignore[assignment]  # of the answer, with num_return_sequences

    def __str__(self) -> str:
        return self.text
