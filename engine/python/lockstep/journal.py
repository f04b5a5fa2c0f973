"""A file with the finished answers of an offline batch, which survives the end of the process.

    {"format": "lockstep journal", "version": 1, "facts": {"prompts": hash, ...}}      what the answers depend on
    {"row": 3, "answers": [{"token_ids": [...], "text": "...", ...}]}                  one line for each finished prompt

A last line that is cut short counts as missing.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from . import _lockstep
from .arrays import TokenRows
from .calls import called, refuse_cancelled
from .errors import Error, bad_input
from .outputs import AnswerCopy

_VERSION = 1
# Of the model's directory; tokenizer.json makes the texts of answers and finds their stop strings.
_FILES = ("config.json", "quantize_config.json", "quant_config.json", "hf_quant_config.json", "tokenizer.json")
_FIELDS = ("token_ids", "text", "finish_reason", "stop_string", "sequence_score", "cached_tokens", "logprobs")
_SAMPLES, _SAMPLE_BYTES, _HEADER_BYTES = 32, 4096, 1 << 16  # of a weight file


def _fields_of(answer: Any) -> dict[str, Any]:
    """The fields of an answer that a line holds."""
    return {name: getattr(answer, name) for name in _FIELDS}


def _answer_of(fields: dict[str, Any]) -> AnswerCopy:
    """An answer of a line."""
    if fields.keys() != set(_FIELDS):
        raise ValueError
    logprobs = fields["logprobs"]
    if logprobs is not None:
        logprobs = [(own, [(token, value) for token, value in top]) for own, top in logprobs]
    return AnswerCopy(**(fields | {"logprobs": logprobs}))


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


def _hash_of_file(path: Path) -> str:
    """Of a file of the model's directory; those of a GGUF file are in its header, which the weights' hash covers."""
    return _hash(path.read_bytes()) if path.is_file() else "none"


def _hash_of_weights(directory: Path) -> str:
    """Of sizes, headers and samples of the weight files."""
    found = hashlib.sha256()
    files = [*directory.glob("*.safetensors"), *directory.glob("pytorch_model*.bin")]
    if directory.is_file():  # a GGUF file, or the first part of one
        files = [directory, *directory.parent.glob(directory.name.replace("-00001-of-", "-?????-of-"))]
    for path in sorted(set(files)):
        size = path.stat().st_size
        found.update(f"{path.name} {size} ".encode())
        with path.open("rb") as file:
            found.update(file.read(_HEADER_BYTES))
            for sample in range(_SAMPLES if size > _HEADER_BYTES else 0):
                file.seek(size // _SAMPLES * sample)
                found.update(file.read(_SAMPLE_BYTES))
    return found.hexdigest()[:16]


def facts_of(engine: _lockstep.OpenModel, prompts: TokenRows, config: _lockstep.GenerationConfig,
             special_text: bool) -> dict[str, Any]:
    """What the answers depend on, by name."""
    directory, facts = Path(called(engine, "directory")), engine.facts()
    ids = hashlib.sha256()
    for row in prompts.rows:
        ids.update(np.int64(len(row)).tobytes() + row.tobytes())
    return {"prompts": f"{len(prompts.rows)} with the hash {ids.hexdigest()[:16]}",
            "generation options": _hash(json.dumps(_lockstep.fields_of(config)).encode()),
            "skip_special_tokens": not special_text,
            **{name: _hash_of_file(directory / name) for name in _FILES},
            "weights": _hash_of_weights(directory),
            "dtype": facts["dtype"],
            "stored weights": facts["weights"],
            "stored keys and values": facts["kv_dtype"],
            "backend": facts["backend"],
            "settings of the backend": facts["backend_settings"],
            "max_seq_len": facts["max_seq_len"],
            "lockstep": _lockstep.version}


class Journal:
    """An open file. Raises `lockstep.InputError` for a file of another batch, or in use."""

    def __init__(self, path: str | os.PathLike[str], facts: dict[str, Any], rows: int) -> None:
        self._path = os.fspath(path)
        self.answers: dict[int, list[AnswerCopy]] = {}
        try:
            self._file: IO[bytes] = open(self._path, "a+b")
        except OSError as error:
            raise bad_input("cannot open the journal", f"{error.strerror} for {self._path}", "a file that can be written",
                            "give another path") from None
        try:
            self._lock()
            self._read(facts, rows)
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Error(f"[python] cannot open the journal: found {self._path} in use by another call, expected one call at a "
                        "time; wait for the other one, or give another path", "failed_precondition") from None

    def _read(self, facts: dict[str, Any], rows: int) -> None:
        self._file.seek(0)
        lines = self._file.read().split(b"\n")
        whole = sum(len(line) + 1 for line in lines[:-1])
        if len(lines) == 1:  # a new file, or one whose first line was cut short
            if lines[0] and not b'{"format": "lockstep journal"'.startswith(lines[0][:29]):
                raise self._refused("another file")
            self._file.truncate(0)
            self._append({"format": "lockstep journal", "version": _VERSION, "facts": facts})
            return
        self._check(lines[0], facts)
        for number, line in enumerate(lines[1:-1], 2):
            try:
                entry = json.loads(line)
                self.answers[entry["row"]] = [_answer_of(fields) for fields in entry["answers"]]
                if not 0 <= entry["row"] < rows:
                    raise ValueError
            except (ValueError, KeyError, TypeError):
                raise self._refused(f"line {number} that is damaged") from None
        self._file.truncate(whole)

    def _check(self, line: bytes, facts: dict[str, Any]) -> None:
        try:
            header = json.loads(line)
            kept = header["facts"] if header["format"] == "lockstep journal" else None
        except (ValueError, KeyError, TypeError):
            kept = None
        if not isinstance(kept, dict):
            raise self._refused("another file")
        if header.get("version") != _VERSION:
            raise self._refused(f"version {header.get('version')}")
        different = [name for name in facts if kept.get(name) != facts[name]]
        if different:
            shown = ", ".join(f"{name}: {kept.get(name)}, now {facts[name]}" for name in different)
            raise self._refused(f"that of another batch ({shown})")

    def _refused(self, found: str) -> Exception:
        return bad_input("cannot use the journal", f"{found} in {self._path}",
                         "a new file, or the journal of the same prompts, options and model", "give another path")

    def _append(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()

    def add(self, row: int, answers: list[Any]) -> None:
        """Records the answers of a prompt."""
        fields = [_fields_of(answer) for answer in answers]
        self._append({"row": row, "answers": fields})
        self.answers[row] = [AnswerCopy(**of_one) for of_one in fields]

    def close(self) -> None:
        """Ends the use of the file, and waits until the disk has it."""
        os.fsync(self._file.fileno())
        self._file.close()


def refuse_callbacks(callbacks: tuple[Any, Any, Any], config: _lockstep.GenerationConfig) -> None:
    """A journal cannot tell whether functions are the same, and holds no arrays of the vocabulary's size."""
    what = "cannot keep a journal"
    if any(callbacks):
        raise bad_input(what, "functions (logits_processor, stopping_criteria, prefix_allowed_tokens_fn)",
                        "options that are plain data", "omit them or journal")
    if config.output_scores or config.output_logits:
        raise bad_input(what, "output_scores or output_logits", "answers without arrays", "omit them or journal")


def complete_with_journal(path: str | os.PathLike[str], facts: dict[str, Any], rows: int,
                          submit: Callable[[list[int]], _lockstep.PendingRequests],
                          on_done: Callable[[int], None]) -> list[list[AnswerCopy]]:
    """The answers of `rows` prompts: those of the journal, and the others, which `submit(numbers)` starts.

    `on_done(rows)` is called for rows that have their answers.
    """
    journal = Journal(path, facts, rows)
    try:
        missing = [row for row in range(rows) if row not in journal.answers]
        on_done(rows - len(missing))
        if missing:
            _record(journal, missing, submit(missing), on_done)
    finally:
        journal.close()
    return [journal.answers[row] for row in range(rows)]


def _record(journal: Journal, missing: list[int], pending: _lockstep.PendingRequests,
            on_done: Callable[[int], None]) -> None:
    try:
        done, left = 0, dict(enumerate(missing))
        while left:
            done = pending.wait_done(done)
            finished = []
            for index, row in left.items():
                answers = pending.answers_if_done(index)
                if answers is not None:
                    refuse_cancelled("cannot complete", answers)
                    journal.add(row, answers)
                    finished.append(index)
            for index in finished:
                del left[index]
            on_done(len(finished))
    except BaseException:
        pending.cancel()
        raise
