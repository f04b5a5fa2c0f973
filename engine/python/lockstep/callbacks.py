"""Callables of the caller, as the engine calls them between steps.

The engine passes numpy arrays. Classes of transformers, and callables in its lists, get torch tensors over the same
memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arrays import is_tensor
from .errors import bad_input

LogitsProcessor = Callable[[Any, Any], Any]
StoppingCriterion = Callable[[Any, Any], Any]
PrefixAllowedTokens = Callable[[int, Any], Sequence[int]]


def is_of_transformers(value: Any) -> bool:
    """Whether `value` is of a class of transformers, or of one that derives from it."""
    return any(base.__module__.partition(".")[0] == "transformers" for base in type(value).__mro__)


def _name_of(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


class _Callable:
    """A callable, and the kind of arrays that it gets."""

    def __init__(self, function: Any, in_torch_list: bool) -> None:
        self.function = function
        self.takes_tensors = in_torch_list or is_of_transformers(function)

    def __call__(self, *arrays: np.ndarray) -> Any:
        if not self.takes_tensors:
            return self.function(*arrays)
        torch = sys.modules["torch"]  # transformers has imported it
        return self.function(*(torch.from_numpy(array) for array in arrays))


def _read(what: str, functions: Any) -> list[_Callable]:
    if functions is None:
        return []
    if callable(functions) and not isinstance(functions, (list, tuple)):
        raise TypeError(f"[python] {what}: found {_name_of(functions)}, expected a list of callables; write [function]")
    for function in functions:
        if not callable(function):
            raise TypeError(f"[python] {what}: found {type(function).__name__} in the list, expected callables; correct it")
    return [_Callable(function, is_of_transformers(functions)) for function in functions]


def _processed(processor: _Callable, ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
    found = processor(ids, scores)
    if is_tensor(found):
        found = found.detach().cpu().numpy()
    changed = np.asarray(found)
    if changed.shape != scores.shape or changed.dtype.kind != "f":
        given = type(found).__name__ if found is None else f"{changed.dtype} {list(changed.shape)}"
        raise bad_input(f"logits processor {_name_of(processor.function)}", f"{given} returned",
                        f"the scores, float32 {list(scores.shape)}", "return them")
    return np.ascontiguousarray(changed, dtype=np.float32)


def process_of(processors: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """One function for all `processors`, in order."""
    read = _read("logits_processor", processors)
    if not read:
        return None

    def process(ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        for processor in read:
            scores = _processed(processor, ids, scores)
        return scores

    return process


def is_met_of(criteria: Any) -> Callable[[np.ndarray, np.ndarray], bool] | None:
    """One function for all `criteria`: whether any is met. A row has its own call."""
    read = _read("stopping_criteria", criteria)
    if not read:
        return None

    def is_met(ids: np.ndarray, scores: np.ndarray) -> bool:
        for criterion in read:
            met = criterion(ids, scores)
            if is_tensor(met):
                met = met.detach().cpu().numpy()
            if np.any(met):
                return True
        return False

    return is_met


def allowed_of(function: PrefixAllowedTokens | None) -> Callable[[int, np.ndarray], list[int]] | None:
    """`function(index of the prompt, ids int64 [n])` returns the ids that may follow."""
    if function is None:
        return None
    if not callable(function):
        raise TypeError(f"[python] prefix_allowed_tokens_fn: found {type(function).__name__}, expected a callable; pass one")

    def allowed(index: int, ids: np.ndarray) -> list[int]:
        found = function(index, ids)
        following = [int(token) for token in (found.tolist() if hasattr(found, "tolist") else found)]
        if not following:
            raise bad_input("prefix_allowed_tokens_fn", "no ids returned", "at least one", "allow the end token")
        return following

    return allowed
