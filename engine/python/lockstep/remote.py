"""Calls of a model whose ranks are in other processes.

    submit ─► number ─► the process of rank 0 ─► its OpenModel ─► events of that number ─► RemotePending ─► the caller
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import _lockstep
from .calls import called
from .errors import Error
from .outputs import AnswerCopy

Event = tuple[str, Any]  # "tokens", "rows": more follow; "answered", "value", "failed": the last one
_LAST = ("answered", "value", "failed")


class StreamedCopy(NamedTuple):
    """A `StreamedToken` of another process."""

    index: int  # type: ignore[assignment]  # as StreamedToken has it, not tuple's
    id: int | None
    text: str


@dataclass
class Call:
    """What a caller asks for, in a form that other processes can read."""

    kind: str  # "generate", "score", "facts", "counters", "function"
    rows: list[Any]  # of a function: its name, arguments and keywords
    changes: list[tuple[str, str]]  # of the model's generation options
    top: int = 0
    streams: bool = False
    special_text: bool = False


def refuse_callbacks(process: Any, is_met: Any, allowed: Any, launch: str) -> None:
    if process is not None or is_met is not None or allowed is not None:
        raise Error(f"[python] cannot call processors, criteria or prefix_allowed_tokens_fn: found {launch}, whose "
                    "ranks are in other processes, expected the process of rank 0; use launch='threads', or 'inside' with "
                    "script='first'", "unsupported")


class RemotePending:
    """The requests of one call, as `_lockstep.PendingRequests` and `PendingTexts`. Fed by another thread."""

    def __init__(self, call: Call, cancel: Callable[[], None]) -> None:
        self.call = call
        self.delivered = 0  # tokens
        self._skipped = 0
        self._cancel = cancel
        self._changed = threading.Condition()
        self._tokens: deque[StreamedCopy] = deque()
        self._rows: dict[int, list[AnswerCopy]] = {}  # answers of requests that are done
        self._last: Event | None = None
        self._listener: Callable[[], None] | None = None

    def feed(self, event: Event) -> None:
        name, value = event
        with self._changed:
            if name == "tokens":
                new = value[self._skipped:]
                self._skipped -= len(value) - len(new)
                self._tokens.extend(new)
                self.delivered += len(new)
            elif name == "rows":
                self._rows |= value
            elif self._last is None:
                self._last = event
            self._changed.notify_all()
            listener = self._listener
        if listener is not None:
            listener()

    def expect_again(self) -> None:
        """The call is made again: its first tokens are known."""
        self._skipped = self.delivered

    def _wait(self, is_met: Callable[[], bool]) -> None:
        with self._changed:
            while not is_met() and self._last is None:
                self._changed.wait(1.0)  # Ctrl-C interrupts it

    def _value(self) -> Any:
        self._wait(lambda: False)
        assert self._last is not None
        name, value = self._last
        if name == "failed":
            raise value
        return value

    def __len__(self) -> int:
        return len(self.call.rows)

    def is_done(self) -> bool:
        return self._last is not None

    def wait_done(self, seen: int) -> int:
        self._wait(lambda: len(self._rows) > seen)
        return len(self) if self._last is not None else len(self._rows)

    def cancel(self) -> None:
        if self._last is None:
            self._cancel()
            self._wait(lambda: False)

    def next_token(self) -> StreamedCopy | None:
        self._wait(lambda: bool(self._tokens))
        return self.take_token()

    def take_token(self) -> StreamedCopy | None:
        with self._changed:
            return self._tokens.popleft() if self._tokens else None

    def set_listener(self, function: Callable[[], None]) -> None:
        with self._changed:
            self._listener = function
        function()

    def answers(self) -> list[list[AnswerCopy]]:
        self._value()
        return [self._rows[row] for row in range(len(self))]

    def answers_if_done(self, row: int) -> list[AnswerCopy] | None:
        if self._last is not None:
            self._value()  # raises the failure of any
        return self._rows.get(row)

    def scores(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._value()
        return rows

    def value(self) -> Any:
        return self._value()


class CallRunner:
    """Runs calls on the OpenModel of this process; their events go to `emit(number, event)`, from several threads."""

    def __init__(self, open_model: Any, emit: Callable[[int, Event], None]) -> None:
        self._open = open_model
        self._emit = emit
        self._pending: dict[int, Any] = {}
        self._cancelled: set[int] = set()
        self._mutex = threading.Lock()

    def start(self, number: int, call: Call) -> None:
        threading.Thread(target=self._run, args=(number, call), name=f"lockstep call {number}", daemon=True).start()

    def cancel(self, number: int) -> None:
        with self._mutex:
            pending = self._pending.get(number)
            self._cancelled.add(number)
        if pending is not None:
            pending.cancel()

    def _run(self, number: int, call: Call) -> None:
        try:
            self._emit(number, self._last_event(number, call))
        except Exception as error:  # noqa: BLE001: whatever it is, the caller gets it
            self._emit(number, ("failed", error))
        finally:
            with self._mutex:
                self._pending.pop(number, None)
                self._cancelled.discard(number)

    def _last_event(self, number: int, call: Call) -> Event:
        if call.kind in ("facts", "counters"):
            return "value", getattr(self._open, call.kind)()
        if call.kind == "function":
            name, arguments, keywords = call.rows
            return "value", called(self._open, name, *arguments, **keywords)
        if call.kind == "score":
            return "value", self._open.submit_texts(call.rows, call.top).scores()
        config = self._open.generation_config()
        for name, value in call.changes:
            config.set(name, value)
        pending = self._open.submit(rows=call.rows, config=config, streams=call.streams, special_text=call.special_text,
                                    process=None, is_met=None, allowed=None)
        with self._mutex:
            self._pending[number] = pending
            is_cancelled = number in self._cancelled
        if is_cancelled:
            pending.cancel()
        while call.streams and (token := pending.next_token()) is not None:
            self._emit(number, ("tokens", [StreamedCopy(token.index, token.id, token.text)]))
        done, missing = 0, set(range(len(pending)))
        while missing:
            done = pending.wait_done(done)
            rows = {row: answers for row in missing if (answers := pending.answers_if_done(row)) is not None}
            self._emit(number, ("rows", {row: [AnswerCopy.of(answer) for answer in rows[row]] for row in rows}))
            missing -= rows.keys()
        return "answered", None


class RemoteModel:
    """What a `_lockstep.OpenModel` is to `Model`, with the calls in `_send`. Files are read in this process as well."""

    launch: str  # how its ranks are launched, in a message

    def __init__(self, files: Any) -> None:
        self._files = files
        self._mutex = threading.Lock()
        self._calls: dict[int, RemotePending] = {}  # open ones
        self._next = 0
        self._is_open = True
        self._last_facts: dict[str, Any] = {}
        self._last_counters: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)  # generation_config, encode, decode, …

    def _send(self, number: int, call: Call) -> None:
        raise NotImplementedError

    def _send_cancel(self, number: int) -> None:
        raise NotImplementedError

    def _begin(self, call: Call) -> RemotePending:
        with self._mutex:
            if not self._is_open:
                raise Error("[python] cannot use the model: found a closed one, expected an open one; make another "
                            "lockstep.Model", "failed_precondition")
            number = self._next
            self._next += 1
            pending = RemotePending(call, lambda: self._send_cancel(number))
            self._calls[number] = pending
        self._send(number, call)
        return pending

    def _receive(self, number: int, event: Event) -> None:
        with self._mutex:
            pending = self._calls.get(number)
            if event[0] in _LAST:
                self._calls.pop(number, None)
        if pending is not None:
            pending.feed(event)

    def _fail_calls(self, error: BaseException) -> None:
        with self._mutex:
            calls, self._calls = self._calls, {}
        for pending in calls.values():
            pending.feed(("failed", error))

    def submit(self, *, rows: list[Any], config: Any, streams: bool, special_text: bool, process: Any, is_met: Any,
               allowed: Any) -> RemotePending:
        refuse_callbacks(process, is_met, allowed, self.launch)
        return self._begin(Call("generate", rows, config.changes, streams=streams, special_text=special_text))

    def submit_texts(self, texts: list[Any], top: int) -> RemotePending:
        return self._begin(Call("score", texts, [], top=top))

    def call(self, function: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return self._begin(Call("function", [function, arguments, keywords], [])).value()

    def is_open(self) -> bool:
        return self._is_open

    def facts(self) -> dict[str, Any]:
        return self._begin(Call("facts", [], [])).value() if self._is_open else dict(self._last_facts)

    def counters(self) -> dict[str, int]:
        return self._begin(Call("counters", [], [])).value() if self._is_open else dict(self._last_counters)

    def _note_last(self) -> None:
        """Keeps what a closed model still tells."""
        try:
            self._last_facts, self._last_counters = self.facts(), self.counters()
        except Error:
            pass
