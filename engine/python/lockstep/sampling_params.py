"""Sampling options under vLLM's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SamplingParams:
    """Options of `Model.complete`, `chat` and `stream` with the names and the defaults of vLLM.

    A temperature of 0 takes the likeliest token. `top_k` of 0 or -1 keeps all tokens.
    """

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None  # besides the model's end tokens
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    skip_special_tokens: bool = True

    def generation_options(self, eos_token_ids: list[int]) -> dict[str, Any]:
        """The same as generation options, for a model with these end tokens."""
        options: dict[str, Any] = {
            "num_return_sequences": self.n,
            "do_sample": self.temperature > 0,
            "top_p": self.top_p,
            "top_k": max(self.top_k, 0),
            "min_p": self.min_p,
            "seed": self.seed,
            "presence_penalty": self.presence_penalty,
            "frequency_penalty": self.frequency_penalty,
            "repetition_penalty": self.repetition_penalty,
            "stop_strings": self.stop,
            "max_new_tokens": self.max_tokens,
            "top_logprobs": self.logprobs,
            "eos_token_id": ([] if self.ignore_eos else eos_token_ids) + (self.stop_token_ids or []),
        }
        if self.min_tokens > 0:  # as 0 it would replace min_length of generation_config.json
            options["min_new_tokens"] = self.min_tokens
        if self.temperature > 0:
            options["temperature"] = self.temperature
        return options
