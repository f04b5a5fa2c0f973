"""What the calls of a model share: waits for their requests, and functions that look into it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import _lockstep
from .callbacks import is_of_transformers
from .errors import closed_meanwhile


def finished(what: str, pending: _lockstep.PendingRequests) -> list[list[_lockstep.Answer]]:
    """The answers of all requests, none of them cut short."""
    answers = pending.answers()
    for of_one in answers:
        refuse_cancelled(what, of_one)
    return answers


def refuse_cancelled(what: str, answers: list[_lockstep.Answer]) -> None:
    """Raises where an answer was cut short."""
    if any(answer.finish_reason == "cancelled" for answer in answers):
        raise closed_meanwhile(what)


def stream_to(streamer: Any, prompt: np.ndarray, pending: _lockstep.PendingRequests) -> None:
    """Calls the streamer as transformers does, on the caller's thread: the prompt, then each token."""
    convert: Callable[[np.ndarray], Any] = lambda ids: ids
    if is_of_transformers(streamer):
        convert = sys.modules["torch"].from_numpy
    streamer.put(convert(prompt[np.newaxis]))
    while (token := pending.next_token()) is not None:
        if token.id is not None:
            streamer.put(convert(np.asarray([token.id], np.int64)))
    streamer.end()


@contextmanager
def progress_bar(prompts: int, is_on: bool) -> Iterator[Callable[[int], None] | None]:
    """A function that moves a bar by that many prompts, on a terminal; None without a bar."""
    try:
        from tqdm import tqdm
    except ImportError:
        is_on = False
    if not is_on:
        yield None
        return
    with tqdm(total=prompts, unit="prompt", disable=None) as bar:
        yield bar.update


def show_progress(pending: _lockstep.PendingRequests) -> None:
    """Waits for all requests, and shows a bar on a terminal, where tqdm is installed."""
    done = 0
    with progress_bar(len(pending), True) as move:
        while move is not None and done < len(pending):
            before, done = done, pending.wait_done(done)
            move(done - before)


def called(open_model: Any, function: str, *arguments: Any, **keywords: Any) -> Any:
    """The result of `_lockstep.function(open_model, …)`, in the process of its rank 0."""
    if isinstance(open_model, _lockstep.OpenModel):
        return getattr(_lockstep, function)(open_model, *arguments, **keywords)
    return open_model.call(function, arguments, keywords)
