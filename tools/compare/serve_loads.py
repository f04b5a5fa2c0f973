"""The loads of serve.py: prompts of known lengths, the same in every run, and the groups that the load client sends."""
from __future__ import annotations

import json
import pathlib
import random
from typing import Any


class Loads:
    CHATS = 6        # short ones, of eight slots
    LONG_TOKENS = 1500

    def __init__(self, model: pathlib.Path) -> None:
        vocabulary = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]
        # Words that are one token each after a blank, so that texts have the same lengths for every server.
        self._words = sorted((token, text[1:]) for text, token in vocabulary.items()
                             if text.startswith("Ġ") and 3 <= len(text) - 1 <= 8 and text[1:].isascii()
                             and text[1:].isalpha() and text[1:].islower())[:4000]

    def id_prompts(self, count: int, tokens: int, seed: int = 1) -> list[list[int]]:
        source = random.Random(f"ids {seed} {tokens}")
        return [[source.choice(self._words)[0] for _ in range(tokens)] for _ in range(count)]

    def text_prompts(self, count: int, tokens: int, seed: int = 1) -> list[str]:
        source = random.Random(f"texts {seed} {tokens}")
        return ["".join(" " + source.choice(self._words)[1] for _ in range(tokens)) for _ in range(count)]

    def mixed(self, seed: int) -> list[dict[str, Any]]:
        """Short chats all the time, and a long prompt every two seconds."""
        return [{"name": "chats", "api": "chat", "streams": self.CHATS, "requests": 2, "ignore_eos": True,
                 "max_tokens": 96, "prompts": self.text_prompts(2 * self.CHATS, 32, seed)}, *self.only_long(seed)]

    def only_long(self, seed: int) -> list[dict[str, Any]]:
        return [{"name": "long", "requests": 3, "poisson_s": 1.5, "start_s": 0.5, "ignore_eos": True, "max_tokens": 2,
                 "prompts": self.text_prompts(3, self.LONG_TOKENS, seed=1000 + seed)}]

    def conversation(self, seed: int) -> list[dict[str, Any]]:
        return [{"name": "conversation", "api": "chat", "max_tokens": 32, "ignore_eos": True, "turns": ["Go on, please."],
                 "prompts": self.text_prompts(1, 2000, seed=2000 + seed)}]
