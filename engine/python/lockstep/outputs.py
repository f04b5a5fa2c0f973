"""The results of calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ._lockstep import Answer
from .arrays import Kind, TokenRows


@dataclass(frozen=True, repr=False)
class AnswerCopy:
    """An `Answer` of another process, or of a journal, which holds no arrays."""

    token_ids: list[int]
    text: str
    finish_reason: str
    stop_string: str
    sequence_score: float | None
    cached_tokens: int
    logprobs: list[tuple[float, list[tuple[int, float]]]] | None
    scores: np.ndarray | None = None
    logits: np.ndarray | None = None
    token_times: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"Answer(text={self.text!r}, finish_reason={self.finish_reason!r})"

    @staticmethod
    def of(answer: Any) -> AnswerCopy:
        return AnswerCopy(**{field.name: getattr(answer, field.name) for field in fields(AnswerCopy)})


@dataclass(frozen=True)
class Completion:
    """A prompt and its answers, shaped as vLLM's RequestOutput."""

    prompt: str | None  # None: it was given as ids
    prompt_token_ids: list[int]
    outputs: list[Answer]  # num_return_sequences of them; of beams, best first

    @property
    def text(self) -> str:
        """The text of the first answer."""
        return self.outputs[0].text


@dataclass(frozen=True)
class GenerateOutput:
    """The result of `Model.generate` with return_dict_in_generate, shaped as transformers' GenerateDecoderOnlyOutput.

    Fields can also be read by name and, those that are not None, by index. Arrays are torch tensors where the ids were,
    numpy arrays otherwise; `sequences` is of the kind of the ids.
    """

    sequences: Any  # [rows, prompt and new tokens]
    scores: tuple[Any, ...] | None = None  # by new token: processed, float32 [rows, vocabulary]; zeros after a row's end
    logits: tuple[Any, ...] | None = None  # the same, raw
    sequences_scores: Any = None  # float32 [rows], of beams

    def keys(self) -> list[str]:
        """The names of the fields that are not None."""
        return [field.name for field in fields(self) if getattr(self, field.name) is not None]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, int):
            key = self.keys()[key]
        if key not in self.keys():
            raise KeyError(key)
        return getattr(self, key)


def sequences_of(prompts: TokenRows, answers: list[list[Answer]], pad_token_id: int) -> Any:
    """[rows, prompt and new tokens]: each prompt as given, its new tokens, then padding."""
    rows = [np.concatenate([given, np.asarray(answer.token_ids, np.int64)])
            for given, of_one in zip(prompts.given, answers) for answer in of_one]
    padded = np.full((len(rows), max(map(len, rows))), pad_token_id, np.int64)
    for into, row in zip(padded, rows):
        into[:len(row)] = row
    return prompts.kind.of_ids(padded)


def steps_of(kind: Kind, by_answer: list[Any]) -> tuple[Any, ...] | None:
    """Arrays [tokens, vocabulary] of the answers as arrays [answers, vocabulary] of the steps."""
    found = [values for values in by_answer if values is not None]
    if not found:
        return None
    steps = np.zeros((max(map(len, found)), len(by_answer), found[0].shape[1]), np.float32)
    for row, values in enumerate(by_answer):
        if values is not None:
            steps[:len(values), row] = values
    return tuple(kind.of_floats(step) for step in steps)


def generate_output(prompts: TokenRows, answers: list[list[Answer]], pad_token_id: int) -> GenerateOutput:
    """Everything that the answers have."""
    rows = [answer for of_one in answers for answer in of_one]
    beam_scores = [answer.sequence_score for answer in rows]
    return GenerateOutput(
        sequences=sequences_of(prompts, answers, pad_token_id),
        scores=steps_of(prompts.kind, [answer.scores for answer in rows]),
        logits=steps_of(prompts.kind, [answer.logits for answer in rows]),
        sequences_scores=None if None in beam_scores else prompts.kind.of_floats(np.asarray(beam_scores, np.float32)))
