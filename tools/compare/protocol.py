"""The protocol between compare.py and the process of another engine: one JSON object per line.

    in    {"model": DIR, "gguf": FILE, "threads": 2, "vocabulary": 128256}              once: the model to load
    out   {"event": "ready", "version": "llama-cpp-python 0.3.36"}
          {"event": "missing", "reason": "pip install …"} or {"event": "failed", "reason": …}, and the process ends
    in    {"kind": "prefill", "prompt_tokens": 512, "batch": 1}                          as often as wanted
          {"kind": "decode", "prompt_tokens": 128, "new_tokens": 64, "batch": 8}
    out   {"event": "result", "seconds": 1.26, "tokens": 512}
          {"event": "failed", "reason": …}                                               this job only
    in    end of file: the process ends

Tokens count all sequences. Prefill yields the first new token, so decoding N of them takes N - 1 steps, as in `lockstep
bench`. All output of libraries goes to stderr.
"""
from __future__ import annotations

import json
import os
import random
import sys
import time
from typing import Any, Callable, Iterator

Setup = dict[str, Any]
Job = dict[str, Any]


class Missing(Exception):
    """The engine is not installed; the text is the installation command."""


def prompts(job: Job, vocabulary: int) -> list[list[int]]:
    """Random ids, the same in every run; the first few of a vocabulary are special in most models."""
    source = random.Random(1)
    return [[source.randrange(16, vocabulary) for _ in range(job["prompt_tokens"])] for _ in range(job["batch"])]


def decode_steps(job: Job) -> int:
    return job["new_tokens"] - 1


def seconds_of(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _private_stdout() -> Any:
    """The protocol's stdout; other output to stdout goes to stderr from now on."""
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return own


def _lines() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        if line.strip():
            yield json.loads(line)


def serve(load: Callable[[Setup], Any]) -> int:
    """Answers stdin until it ends. `load(setup)` returns an engine with a `version` and `run(job) -> (seconds,
    tokens)`, or raises Missing. With --check the setup is empty and nothing is loaded."""
    out = _private_stdout()

    def say(**event: Any) -> None:
        print(json.dumps(event), file=out, flush=True)

    lines = _lines()
    try:
        engine = load({} if "--check" in sys.argv else next(lines))
    except Missing as missing:
        say(event="missing", reason=str(missing))
        return 0
    except Exception as error:  # any exception of a library: its message is the reason
        say(event="failed", reason=f"{type(error).__name__}: {error}")
        return 1
    say(event="ready", version=engine.version)
    if "--check" in sys.argv:
        return 0
    for job in lines:
        try:
            seconds, tokens = engine.run(job)
        except Exception as error:
            say(event="failed", reason=f"{type(error).__name__}: {error}")
            continue
        say(event="result", seconds=seconds, tokens=tokens)
    return 0
