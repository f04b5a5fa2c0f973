"""The tokenizer of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .arrays import plain_ids

if TYPE_CHECKING:
    from ._lockstep import OpenModel


class Tokenizer:
    """Converts text to token ids and back, as tokenizer.json and the chat template say. Thread-safe.

    Methods raise `lockstep.InputError` (kind "not_found") for a model without the file that they need.
    """

    def __init__(self, open_model: OpenModel) -> None:
        self._open = open_model

    @property
    def vocab_size(self) -> int:
        """The number of ids that the model takes."""
        return self._open.vocabulary()

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The ids of `text`, by default with the special tokens that the tokenizer adds (BOS and so on)."""
        return self._open.encode(text, add_special_tokens)

    def decode(self, ids: Sequence[int] | Any, skip_special_tokens: bool = False) -> str:
        """The text of `ids`, a row of integers. Raises `lockstep.InputError` for unknown ids."""
        return self._open.decode(plain_ids(ids), skip_special_tokens)

    def apply_chat_template(self, conversation: Sequence[dict[str, Any]], *, tokenize: bool = True,
                            add_generation_prompt: bool = False, tools: list[Any] | None = None,
                            **variables: Any) -> list[int] | str:
        """A conversation in the model's chat template: its ids, or its text with ``tokenize=False``.

        `conversation` holds messages such as ``{"role": "user", "content": "Hello"}``. `tools` and `variables`, which
        have to be plain data, are passed to the template.
        """
        import json

        if tools is not None:
            variables["tools"] = tools
        text = self._open.render_chat([json.dumps(message) for message in conversation], add_generation_prompt,
                                      json.dumps(variables))
        return self._open.encode(text, False) if tokenize else text  # a template writes the special tokens itself
