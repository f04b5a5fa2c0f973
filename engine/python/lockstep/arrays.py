"""Rows of token ids, as lists, numpy arrays or torch tensors, and results of the same kind."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import bad_input


def is_tensor(value: Any) -> bool:
    """Whether `value` is a torch tensor. Does not import torch: a caller that has a tensor has done so."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


@dataclass(frozen=True)
class Kind:
    """The kind of arrays that the caller passed, for the results."""

    name: str  # "list", "numpy" or "torch"
    device: Any = None  # of tensors

    def of_ids(self, ids: np.ndarray) -> Any:
        """`ids` int64 [rows, n] as this kind."""
        return ids.tolist() if self.name == "list" else self.of_floats(ids)

    def of_floats(self, values: np.ndarray) -> Any:
        """`values` as a tensor, or as they are: lists of a vocabulary's size are of no use."""
        if self.name != "torch":
            return values
        return sys.modules["torch"].from_numpy(values).to(self.device)


@dataclass(frozen=True)
class TokenRows:
    """Prompts of one call."""

    kind: Kind
    given: list[np.ndarray]  # int64, with their padding
    rows: list[np.ndarray]  # int32, the ids that attention covers
    masked_inside: list[int]  # by row: ids that the mask hides between those

    def only(self, numbers: list[int]) -> TokenRows:
        """The rows with these numbers."""
        return TokenRows(self.kind, [self.given[number] for number in numbers], [self.rows[number] for number in numbers],
                         [self.masked_inside[number] for number in numbers])


def _kind_of(ids: Any) -> Kind:
    if is_tensor(ids):
        return Kind("torch", ids.device)
    return Kind("numpy" if isinstance(ids, np.ndarray) else "list")


def _array_of(values: Any) -> np.ndarray:
    return values.detach().cpu().numpy() if is_tensor(values) else np.asarray(values)


def _rows_of(what: str, name: str, values: Any) -> list[np.ndarray]:
    """One array per row, of any type; refuses values that are not rows."""
    if isinstance(values, np.ndarray) or is_tensor(values):
        array = _array_of(values)
        if array.ndim != 2:
            raise bad_input(what, f"{name} with the shape {list(array.shape)}", "[rows, tokens]", "reshape it")
        return list(array)
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"[python] {what}: found {name} of the type {type(values).__name__}, expected rows of integers: "
                        "a list of lists, a numpy array or a torch tensor; convert it")
    rows = []
    for number, row in enumerate(values):
        try:
            array = _array_of(row)
        except ValueError:  # numpy's, for lists of lists of several lengths
            array = np.empty((0, 0, 0))
        if array.ndim == 0:
            raise bad_input(what, f"{name} that is a flat list", "a list of rows", "write [ids] for one row")
        if array.ndim != 1:
            raise bad_input(what, f"{name} whose row {number} is nested", "rows of integers", "pass one list per prompt")
        rows.append(array)
    return rows


def _checked_ids(what: str, number: int, row: np.ndarray, vocabulary: int) -> np.ndarray:
    if row.size == 0:
        raise bad_input(what, f"an empty row {number}", "at least one token id in each row", "leave it out")
    if row.dtype.kind not in "iu":
        raise bad_input(what, f"{row.dtype} in row {number}", "integers", "convert the ids with astype(int) or .long()")
    outside = row[(row < 0) | (row >= vocabulary)]
    if outside.size:
        raise bad_input(what, f"token id {outside[0]} in row {number}", f"ids of 0 to {vocabulary - 1} (the vocabulary)",
                        "encode the text with this model's tokenizer")
    return row.astype(np.int64)


def _checked_mask(what: str, number: int, mask: np.ndarray, row: np.ndarray) -> np.ndarray:
    if mask.shape != row.shape:
        raise bad_input(what, f"an attention_mask of {mask.size} values for the {row.size} ids of row {number}",
                        "one value for each id", "pad both to one length")
    if mask.dtype.kind not in "iub" or np.any((mask != 0) & (mask != 1)):
        raise bad_input(what, f"{mask.dtype} values other than 0 and 1 in row {number} of attention_mask"
                        if mask.dtype.kind in "iub" else f"{mask.dtype} in attention_mask", "integers 0 and 1",
                        "convert it with astype(int) or .long()")
    if not mask.any():
        raise bad_input(what, f"a row {number} that attention_mask hides entirely", "at least one visible token",
                        "leave it out")
    return mask.astype(bool)


def _refuse_text(what: str, ids: Any) -> None:
    rows = ids if isinstance(ids, (list, tuple)) else [ids]
    if any(isinstance(row, (str, bytes)) for row in rows):
        raise TypeError(f"[python] {what}: found text, expected rows of token ids; use complete() or stream() for text, or "
                        "tokenizer.encode()")


def read_rows(what: str, ids: Any, attention_mask: Any = None, *, vocabulary: int,
              hidden_padding: int | None = None) -> TokenRows:
    """Checks rows and takes their padding away, on both sides.

    `hidden_padding` is the id that arrays without a mask are padded with, as in transformers; lists have no padding.
    Raises TypeError for text and InputError for everything else that is not rows of ids.
    """
    _refuse_text(what, ids)
    kind = _kind_of(ids)
    given = [_checked_ids(what, number, row, vocabulary)
             for number, row in enumerate(_rows_of(what, "ids", ids))]
    if not given:
        raise bad_input(what, "no rows", "at least one", "pass a prompt")
    masks: list[np.ndarray | None] = [None] * len(given)
    if attention_mask is not None:
        of_rows = _rows_of(what, "attention_mask", attention_mask)
        if len(of_rows) != len(given):
            raise bad_input(what, f"an attention_mask of {len(of_rows)} rows", f"{len(given)}, as the ids have",
                            "pass one row for each prompt")
        masks = [_checked_mask(what, number, *pair) for number, pair in enumerate(zip(of_rows, given))]
    elif hidden_padding is not None and kind.name != "list" and any((row == hidden_padding).any() for row in given):
        masks = [row != hidden_padding for row in given]
        for number, mask in enumerate(masks):
            _checked_mask(what, number, mask, given[number])
    rows, masked_inside = [], []
    for row, mask in zip(given, masks):
        visible = row if mask is None else row[mask]
        rows.append(np.ascontiguousarray(visible, dtype=np.int32))
        span = 0 if mask is None else int(np.flatnonzero(mask)[-1] - np.flatnonzero(mask)[0] + 1)
        masked_inside.append(0 if mask is None else span - visible.size)
    return TokenRows(kind, given, rows, masked_inside)
