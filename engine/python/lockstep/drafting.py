"""Speculative decoding: a smaller model, or the text so far, drafts tokens that a step verifies."""

from __future__ import annotations

import os
from typing import Any

from .errors import bad_input


def read_drafting(draft_model: str | os.PathLike[str] | None, num_assistant_tokens: int | None,
                  prompt_lookup_num_tokens: int | None) -> tuple[str | None, int, bool]:
    """The draft model's directory, the tokens that are drafted for a step, and whether the text so far drafts them."""
    if draft_model is None and prompt_lookup_num_tokens is None:
        if num_assistant_tokens is not None:
            raise bad_input("cannot draft", "num_assistant_tokens without draft_model", "both", "give draft_model")
        return None, 0, False
    if draft_model is not None and prompt_lookup_num_tokens is not None:
        raise bad_input("cannot draft", "draft_model and prompt_lookup_num_tokens", "one of them", "omit the other")
    name = "prompt_lookup_num_tokens" if draft_model is None else "num_assistant_tokens"
    tokens = prompt_lookup_num_tokens if draft_model is None else 5 if num_assistant_tokens is None else num_assistant_tokens
    if not isinstance(tokens, int) or not 1 <= tokens <= 64:
        raise bad_input("cannot draft", f"{name}={tokens!r}", "1 to 64 tokens of a step", "correct it")
    return None if draft_model is None else os.fspath(draft_model), tokens, draft_model is None


def _directory_of(assistant_model: Any) -> str | None:
    """The directory of a path, or of a model of transformers, which names its own."""
    name = getattr(assistant_model, "name_or_path", assistant_model)
    return os.fspath(name) if isinstance(name, (str, os.PathLike)) else None


def check_assistant(assistant_model: Any, draft_model: str | None) -> None:
    """`assistant_model` has to be the draft model that this model was opened with, or None.

    Its graphs and its cache are made when the model is opened, so a call cannot bring another one.
    """
    if assistant_model is None:
        return
    directory = _directory_of(assistant_model)
    if directory is not None and draft_model is not None and os.path.realpath(directory) == os.path.realpath(draft_model):
        return
    found = type(assistant_model).__name__ if directory is None else directory
    opened = "a model that was opened without draft_model" if draft_model is None else f"draft_model={draft_model}"
    raise bad_input("cannot generate", f"assistant_model ({found}) for {opened}", "the draft model of this model",
                    "open lockstep.Model(DIR, draft_model=DIR of the assistant)")
