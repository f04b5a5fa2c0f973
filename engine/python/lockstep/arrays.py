"""Rows of token ids or embeddings, as lists, numpy arrays or torch tensors, and results of the same kind."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from .errors import bad_input


def is_tensor(value: Any) -> bool:
    """Whether `value` is a torch tensor. Does not import torch: a caller that has a tensor has done so."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


class Kind(NamedTuple):
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


class TokenRows(NamedTuple):
    """Prompts of one call."""

    kind: Kind
    given: list[np.ndarray]  # int64, with their padding
    rows: list[np.ndarray]  # int32, the ids that attention covers
    hidden: list[int]  # by row: ids that the mask hides
    masked_inside: list[int]  # by row: those of them that are between visible ones
    embeddings: list[np.ndarray] | None = None  # float32 [tokens, size], in place of ids; `given` and `rows` are empty then

    def padded_width(self) -> int | None:
        """The tokens of every row with its padding, where a mask hides some; else None."""
        visible = self.rows if self.embeddings is None else self.embeddings
        widths = {len(row) + hidden for row, hidden in zip(visible, self.hidden)}
        return widths.pop() if any(self.hidden) and len(widths) == 1 else None

    def only(self, numbers: list[int]) -> TokenRows:
        """The rows with these numbers."""
        def chosen(values: list[Any]) -> list[Any]:
            return [values[number] for number in numbers]

        return TokenRows(self.kind, chosen(self.given), chosen(self.rows), chosen(self.hidden), chosen(self.masked_inside),
                         None if self.embeddings is None else chosen(self.embeddings))


def _kind_of(ids: Any) -> Kind:
    if is_tensor(ids):
        return Kind("torch", ids.device)
    return Kind("numpy" if isinstance(ids, np.ndarray) else "list")


def _array_of(values: Any) -> np.ndarray:
    if not is_tensor(values):
        return np.asarray(values)
    values = values.detach().cpu()
    array: np.ndarray = (values.float() if values.is_floating_point() else values).numpy()  # numpy has no bfloat16
    return array


def plain_ids(ids: Any) -> list[int]:
    """A row of ids, as a list, an array or a tensor, as a list."""
    return [int(token) for token in (ids.tolist() if hasattr(ids, "tolist") else ids)]


def _rows_of(what: str, name: str, values: Any) -> list[np.ndarray]:
    """One array per row, of any type; refuses values that are not rows."""
    if isinstance(values, np.ndarray) or is_tensor(values):
        return _rows_of_array(what, name, values, ["rows", "tokens"])
    _check_listed(what, name, values, "integers")
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


def _rows_of_array(what: str, name: str, values: Any, shape: list[str]) -> list[np.ndarray]:
    array = _array_of(values)
    if array.ndim != len(shape):
        raise bad_input(what, f"{name} with the shape {list(array.shape)}", f"[{', '.join(shape)}]", "reshape it")
    return list(array)


def _check_listed(what: str, name: str, values: Any, of: str) -> None:
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"[python] {what}: found {name} of the type {type(values).__name__}, expected rows of {of}: "
                        "a list of lists, a numpy array or a torch tensor; convert it")


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
    if mask.shape != row.shape[:1]:
        raise bad_input(what, f"an attention_mask of {mask.size} values for the {len(row)} tokens of row {number}",
                        "one value for each token", "pad both to one length")
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
    masks = _masks_of(what, given, attention_mask)
    if (attention_mask is None and hidden_padding is not None and kind.name != "list"
            and any((row == hidden_padding).any() for row in given)):
        masks = [_checked_mask(what, number, row != hidden_padding, row) for number, row in enumerate(given)]
    rows = [_visible(row, mask, np.int32) for row, mask in zip(given, masks)]
    return TokenRows(kind, given, rows, [_hidden(mask) for mask in masks], [_masked_inside(mask) for mask in masks])


def _masks_of(what: str, given: list[np.ndarray], attention_mask: Any) -> list[np.ndarray | None]:
    if attention_mask is None:
        return [None] * len(given)
    of_rows = _rows_of(what, "attention_mask", attention_mask)
    if len(of_rows) != len(given):
        raise bad_input(what, f"an attention_mask of {len(of_rows)} rows", f"{len(given)}, as the prompts have",
                        "pass one row for each prompt")
    return [_checked_mask(what, number, *pair) for number, pair in enumerate(zip(of_rows, given))]


def _visible(row: np.ndarray, mask: np.ndarray | None, dtype: Any) -> np.ndarray:
    return np.ascontiguousarray(row if mask is None else row[mask], dtype=dtype)


def _hidden(mask: np.ndarray | None) -> int:
    return 0 if mask is None else int(np.count_nonzero(~mask))


def _masked_inside(mask: np.ndarray | None) -> int:
    if mask is None:
        return 0
    visible = np.flatnonzero(mask)
    return int(visible[-1] - visible[0] + 1) - visible.size


def _checked_embeddings(what: str, number: int, row: np.ndarray, size: int) -> np.ndarray:
    if row.ndim != 2 or row.shape[0] == 0 or row.shape[1] != size:
        raise bad_input(what, f"inputs_embeds whose row {number} has the shape {list(row.shape)}",
                        f"[tokens, {size}] with at least one token", "embed the tokens with this model's table")
    if row.dtype.kind != "f":
        raise bad_input(what, f"{row.dtype} in row {number} of inputs_embeds", "floating-point numbers",
                        "pass embeddings, or ids as input_ids")
    with np.errstate(over="ignore"):
        row = row.astype(np.float32)
    if not np.isfinite(row).all():
        raise bad_input(what, f"numbers in row {number} of inputs_embeds that are not finite in float32", "finite ones",
                        "look where they come from")
    return row


def read_embeddings(what: str, inputs_embeds: Any, attention_mask: Any = None, *, size: int) -> TokenRows:
    """Checks rows of embeddings, [tokens, size] each, and takes their padding away. Raises as `read_rows`."""
    kind = _kind_of(inputs_embeds)
    if kind.name == "list":
        _check_listed(what, "inputs_embeds", inputs_embeds, "embeddings")
        rows = [_array_of(row) for row in inputs_embeds]
    else:
        rows = _rows_of_array(what, "inputs_embeds", inputs_embeds, ["rows", "tokens", str(size)])
    given = [_checked_embeddings(what, number, row, size) for number, row in enumerate(rows)]
    if not given:
        raise bad_input(what, "no rows", "at least one", "pass a prompt")
    masks = _masks_of(what, given, attention_mask)
    return TokenRows(kind, [np.empty(0, np.int64)] * len(given), [np.empty(0, np.int32)] * len(given),
                     [_hidden(mask) for mask in masks], [_masked_inside(mask) for mask in masks],
                     [_visible(row, mask, np.float32) for row, mask in zip(given, masks)])
