"""Tokens as they are made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from .token import Token

if TYPE_CHECKING:
    from ._lockstep import Answer, PendingRequests, StreamedToken
    from .given_tokenizer import AnswerTexts


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

    def __init__(self, use: Callable[[], AbstractContextManager[Any]], pending: PendingRequests,
                 texts: AnswerTexts | None = None) -> None:
        self._use = use  # the model's; keeps it open
        self._pending = pending
        self._texts = texts  # of the program's tokenizer; None: the engine's
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
            with self._use():
                answers = self._pending.answers()[0]
            self._answers = answers if self._texts is None else self._texts.decoded(answers)
        return self._answers

    def _token(self, streamed: StreamedToken) -> Token | None:
        """None: it has neither an id nor text."""
        return Token(streamed.id, streamed.text, streamed.index) if self._texts is None else self._texts.token(streamed)

    def _rest(self) -> Token | None:
        """Text that is left at the end. Raises the request's failure."""
        self.answers
        return None if self._texts is None else self._texts.rest()

    def __next__(self) -> Token:
        while True:
            with self._use(), ended_on_error(self._pending):
                streamed = self._pending.next_token()
            token = self._rest() if streamed is None else self._token(streamed)
            if token is not None:
                return token
            if streamed is None:
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
            with self._use():
                is_done = self._pending.is_done()  # before the token is taken: none follows the end
                streamed = self._pending.take_token()
            if streamed is not None or is_done:
                token = self._rest() if streamed is None else self._token(streamed)
                if token is not None:
                    return token
                if streamed is None:
                    raise StopAsyncIteration
                continue
            with ended_on_error(self._pending):  # a cancelled task
                await self._wakes.wait()
