"""The tokenizer of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .arrays import plain_ids
from .errors import bad_input

if TYPE_CHECKING:
    from ._lockstep import OpenModel

# Arguments of transformers that are no variables of templates, with their only value here.
_OF_TRANSFORMERS: dict[str, Any] = {"chat_template": None, "padding": False, "truncation": False, "max_length": None,
                                    "return_tensors": None, "return_dict": False, "return_assistant_tokens_mask": False,
                                    "sanitize_control_tokens": False, "tokenizer_kwargs": None}


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
                            add_generation_prompt: bool = False, continue_final_message: bool | str = False,
                            tools: list[Any] | None = None, **variables: Any) -> list[int] | str:
        """A conversation in the model's chat template: its ids, or its text with ``tokenize=False``.

        `conversation` holds messages such as ``{"role": "user", "content": "Hello"}``. With `continue_final_message`
        the text ends with that of the last message, which an answer then continues; a text names another field of the
        message than its content. `tools` and `variables`, which have to be plain data, are passed to the template.
        Raises `lockstep.InputError` for other arguments of transformers' method (such as ``truncation=True``).
        """
        import json

        for name, only in _OF_TRANSFORMERS.items():
            if (given := variables.pop(name, only)) != only:
                raise bad_input("apply_chat_template", f"{name}={given!r}", "a variable of the template",
                                "omit it, or use the model's tokenizer of transformers")
        if tools is not None:
            variables["tools"] = tools
        continued = continue_final_message if isinstance(continue_final_message, str) else "content"
        text = self._open.render_chat([json.dumps(message) for message in conversation], add_generation_prompt,
                                      json.dumps(variables), continued if continue_final_message else "")
        return self._open.encode(text, False) if tokenize else text  # a template writes the special tokens itself
