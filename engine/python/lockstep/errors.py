"""The exceptions of this package."""

from __future__ import annotations

import re

# Names in the engine's messages that are others in Python. Flags, such as --max-new-tokens, become keywords by rule.
_PYTHON_NAMES = {
    "EngineOptions::scored_top": "max_logprobs",
    "PromptEmbeddings::kOn": "prompt_embeddings=True",
    "Scoring::kOn": "scoring=True",
    "--no-strict": "another model",
}


class Error(Exception):
    """A failure of a model or of a call.

    The message has the form ``[context] what failed: found ..., expected ...; what to do``.

    Attributes:
        kind: says what the caller should do: "invalid_argument" (change the input), "not_found" (name an existing file),
            "unsupported" (ask for a supported value), "failed_precondition" (change the state of the program),
            "unavailable" (the machine or the build lacks something), "peer_lost" (start again), "deadline_exceeded",
            "resource_exhausted" (use less memory), "cancelled", "internal" (a bug of Lockstep).
        rank: the rank that failed, or None where none is to blame.
        context: the component that failed, such as "engine/requests".
    """

    def __init__(self, message: str, kind: str = "internal", rank: int | None = None) -> None:
        super().__init__(message, kind, rank)
        self.kind = kind
        self.rank = rank
        found = re.match(r"\[([^\]]+)\]", message)
        self.context = found.group(1) if found else ""

    def __str__(self) -> str:
        return str(self.args[0])


class InputError(Error, ValueError):
    """An `Error` whose cause is the caller's input: kind "invalid_argument" or "not_found"."""


def from_engine(kind: str, message: str, rank: int | None) -> Error:
    """The exception for an error of the engine."""
    for name, python_name in _PYTHON_NAMES.items():
        message = message.replace(name, python_name)
    message = re.sub(r"(?<![\w-])--([a-z]+(?:-[a-z0-9]+)*)", lambda flag: flag[1].replace("-", "_"), message)
    made = InputError if kind in ("invalid_argument", "not_found") else Error
    return made(message, kind, rank)


def bad_input(what: str, found: str, expected: str, advice: str) -> InputError:
    """The exception for input that this package rejects."""
    return InputError(f"[python] {what}: found {found}, expected {expected}; {advice}", "invalid_argument")


def closed_meanwhile(what: str) -> Error:
    """The exception of a call whose model was closed before its end."""
    return Error(f"[python] {what}: found a model that was closed during the call, expected it open until the end; close it "
                 "later", "cancelled")
