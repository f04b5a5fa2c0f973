"""A tokenizer of the program, such as one of transformers, in place of the model's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._lockstep import Answer, StreamedToken
from .arrays import plain_ids
from .errors import bad_input
from .token import Token

_UNFINISHED = "\ufffd"  # ends a text whose last character has more bytes to come


class GivenTokenizer:
    """Calls an object with ``encode(text)`` and ``decode(ids, skip_special_tokens=)``, as transformers' tokenizers have.

    Other attributes are those of the object, which `wrapped` returns.
    """

    def __init__(self, tokenizer: Any, vocabulary: int) -> None:
        for method in ("encode", "decode"):
            if not callable(getattr(tokenizer, method, None)):
                raise TypeError(f"[python] tokenizer: found a {type(tokenizer).__name__} without {method}(), expected a "
                                "tokenizer as transformers has them; pass one, or omit it")
        self.wrapped = tokenizer
        self._vocabulary = vocabulary

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)

    @property
    def vocab_size(self) -> int:
        """The number of ids that the model takes."""
        return self._vocabulary

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The ids of `text`."""
        return [int(token) for token in self.wrapped.encode(text, add_special_tokens=add_special_tokens)]

    def decode(self, ids: Sequence[int] | Any, skip_special_tokens: bool = False) -> str:
        """The text of `ids`, a row of integers."""
        text: str = self.wrapped.decode(plain_ids(ids), skip_special_tokens=skip_special_tokens)
        return text

    def apply_chat_template(self, conversation: Sequence[dict[str, Any]], *, tokenize: bool = True,
                            add_generation_prompt: bool = False, tools: list[Any] | None = None,
                            **variables: Any) -> list[int] | str:
        """A conversation in the object's chat template: its ids, or its text with ``tokenize=False``."""
        text = self.wrapped.apply_chat_template(conversation, tokenize=False, add_generation_prompt=add_generation_prompt,
                                                tools=tools, **variables)
        return self.encode(text, add_special_tokens=False) if tokenize else text  # a template writes them itself


class DecodedAnswer:
    """An `Answer` whose text is that of the program's tokenizer."""

    def __init__(self, answer: Answer, text: str) -> None:
        self._answer = answer
        self.text = text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._answer, name)

    def __repr__(self) -> str:
        return f"Answer(text={self.text!r}, finish_reason={self.finish_reason!r})"


class TextDecoder:
    """The text of a row of ids, piece by piece: whole characters, as soon as their last token is there."""

    def __init__(self, tokenizer: GivenTokenizer, skip_special_tokens: bool) -> None:
        self._tokenizer = tokenizer
        self._skips = skip_special_tokens
        self._ids: list[int] = []
        self._begin = 0  # of the ids that the next piece is decoded with
        self._end = 0  # of the ids whose text was returned

    def _text(self, end: int | None) -> str:
        return self._tokenizer.decode(self._ids[self._begin:end], self._skips)

    def add(self, token: int) -> str:
        """The text that `token` completes; it may be empty."""
        self._ids.append(token)
        before, now = self._text(self._end), self._text(None)
        if len(now) <= len(before) or now.endswith(_UNFINISHED):
            return ""
        self._begin, self._end = self._end, len(self._ids)
        return now[len(before):]

    def finish(self) -> str:
        """The text of an unfinished character."""
        return self._text(None)[len(self._text(self._end)):]


def refuse_stop_strings(what: str, has_stop_strings: bool) -> None:
    """Stop strings are found in the text of the model's own tokenizer."""
    if has_stop_strings:
        raise bad_input(what, "stop_strings beside a tokenizer of the program", "stop_strings with the model's tokenizer only",
                        "use stop_token_ids or stopping_criteria, or open the model without tokenizer")


class AnswerTexts:
    """Texts of answers in the program's tokenizer: special tokens as asked for, never the end token."""

    def __init__(self, tokenizer: GivenTokenizer, skip_special_tokens: bool, end_ids: list[int]) -> None:
        self._tokenizer = tokenizer
        self._skips = skip_special_tokens
        self._end_ids = end_ids
        self._streams: dict[int, TextDecoder] = {}  # by answer

    def decoded(self, answers: list[Answer]) -> list[Any]:
        """The answers with their texts."""
        return [DecodedAnswer(answer, self._tokenizer.decode(self._without_end(answer.token_ids), self._skips))
                for answer in answers]

    def _without_end(self, ids: list[int]) -> list[int]:
        return ids[:-1] if ids and ids[-1] in self._end_ids else ids

    def token(self, streamed: StreamedToken) -> Token | None:
        """A streamed token with its text; None: it has none, and no id."""
        if streamed.id is None:
            return None
        decoder = self._streams.setdefault(streamed.index, TextDecoder(self._tokenizer, self._skips))
        return Token(streamed.id, "" if streamed.id in self._end_ids else decoder.add(streamed.id), streamed.index)

    def rest(self) -> Token | None:
        """The text that a stream has left at its end; None: no more."""
        while self._streams:
            index, decoder = self._streams.popitem()
            if text := decoder.finish():
                return Token(None, text, index)
        return None
