"""Tokens as they are made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .outputs import Token

if TYPE_CHECKING:
    from ._lockstep import Answer, PendingRequests, StreamedToken
    from .model import Model


@contextmanager
def ended_on_error(pending: PendingRequests) -> Iterator[None]:
    """Ends the requests where an exception, such as KeyboardInterrupt, leaves the block."""
    try:
        yield
    except BaseException:
        pending.cancel()
        raise


class TokenStream(Iterator[Token], AsyncIterator[Token]):
    """The tokens of one prompt, for ``for`` and for ``async for``.

    The model makes tokens whether they are read or not. `close`, the end of a ``with`` block and the stream's destruction
    end the request. A failure of the request, or an exception of one of its callbacks, is raised where the next token is
    asked for.
    """

    def __init__(self, model: Model, pending: PendingRequests) -> None:
        self._model = model  # keeps it open
        self._pending = pending
        self._answers: list[Answer] | None = None
        self._wakes: Any = None  # asyncio.Event, of the loop that iterates

    def __enter__(self) -> TokenStream:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the request, which takes a step at most. Its tokens so far remain in `answers`."""
        self._pending.cancel()

    @property
    def answers(self) -> list[Answer]:
        """The finished answers, one unless num_return_sequences asks for more. Waits for the request's end."""
        if self._answers is None:
            with self._model._use():
                self._answers = self._pending.answers()[0]
        return self._answers

    def _token(self, streamed: StreamedToken) -> Token:
        return Token(streamed.id, streamed.text, streamed.index)

    def __next__(self) -> Token:
        with self._model._use(), ended_on_error(self._pending):
            streamed = self._pending.next_token()
        if streamed is not None:
            return self._token(streamed)
        self.answers  # raises the request's failure
        raise StopIteration

    def __aiter__(self) -> TokenStream:
        import asyncio

        if self._wakes is None:
            loop, wakes = asyncio.get_running_loop(), asyncio.Event()
            self._wakes = wakes
            # Without a reference to the stream, which owns the listener.
            self._pending.set_listener(lambda: loop.call_soon_threadsafe(wakes.set))
        return self

    async def __anext__(self) -> Token:
        while True:
            self._wakes.clear()
            with self._model._use():
                is_done = self._pending.is_done()  # before the token is taken: none follows the end
                streamed = self._pending.take_token()
            if streamed is not None:
                return self._token(streamed)
            if is_done:
                self.answers  # raises the request's failure
                raise StopAsyncIteration
            with ended_on_error(self._pending):  # a cancelled task
                await self._wakes.wait()
