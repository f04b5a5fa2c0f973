"""Reads server-sent events, and the time between them. Standard library only."""
from __future__ import annotations

import http.client
import time
from typing import Iterator

DONE = b"[DONE]"


def events(answer: http.client.HTTPResponse) -> Iterator[tuple[bytes, float]]:
    """(data, seconds since the event before it, or since the answer's head) of each event; comments are none. DONE is the
    last event of a complete stream."""
    last = time.monotonic()
    for line in answer:
        if not line.startswith(b"data: "):
            continue
        now = time.monotonic()
        yield line[len(b"data: "):].strip(), now - last
        last = now
