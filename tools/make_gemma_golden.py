#!/usr/bin/env python3
"""Makes tests/model/goldens/gemma3_270m.json: Gemma 3 270M's continuation of a text longer than its window of 512.

    python tools/make_gemma_golden.py FILE.gguf

FILE.gguf is the file that tools/fetch_gemma_model.py joins from its wheels. transformers loads it directly, so the
golden also tests the conversion. A development tool; it needs the packages of tools/make_family_goldens.py, accelerate
and gguf.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from make_family_goldens import (
    GOLDENS,
    LEAST_EFFECT,
    LEAST_MARGIN,
    cached_greedy,
    margins_of,
    prompt_logits,
    significant,
    versions,
    write,
)

NEW_TOKENS = 32
GGUF_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"

# Lewis Carroll, Alice's Adventures in Wonderland, the beginning.
TEXT = """\
Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do: once or \
twice she had peeped into the book her sister was reading, but it had no pictures or conversations in it, “and what \
is the use of a book,” thought Alice “without pictures or conversations?”

So she was considering in her own mind (as well as she could, for the hot day made her feel very sleepy and stupid), \
whether the pleasure of making a daisy-chain would be worth the trouble of getting up and picking the daisies, when \
suddenly a White Rabbit with pink eyes ran close by her.

There was nothing so very remarkable in that; nor did Alice think it so very much out of the way to hear the Rabbit \
say to itself, “Oh dear! Oh dear! I shall be late!” (when she thought it over afterwards, it occurred to her that she \
ought to have wondered at this, but at the time it all seemed quite natural); but when the Rabbit actually took a \
watch out of its waistcoat-pocket, and looked at it, and then hurried on, Alice started to her feet, for it flashed \
across her mind that she had never before seen a rabbit with either a waistcoat-pocket, or a watch to take out of it, \
and burning with curiosity, she ran across the field after it, and fortunately was just in time to see it pop down a \
large rabbit-hole under the hedge.

In another moment down went Alice after it, never once considering how in the world she was to get out again.

The rabbit-hole went straight on like a tunnel for some way, and then dipped suddenly down, so suddenly that Alice \
had not a moment to think about stopping herself before she found herself falling down a very deep well.

Either the well was very deep, or she fell very slowly, for she had plenty of time as she went down to look about her \
and to wonder what was going to happen next. First, she tried to look down and make out what she was coming to, but \
it was too dark to see anything; then she looked at the sides of the well, and noticed that they were filled with \
cupboards and book-shelves; here and there she saw maps and pictures hung upon pegs. She took down a jar from one of \
the shelves as she passed; it was labelled “ORANGE MARMALADE”, but to her great disappointment it was empty: she did \
not like to drop the jar for fear of killing somebody underneath, so managed to put it into one of the cupboards as \
she fell past it.

“Well!” thought Alice to herself, “after such a fall as this, I shall think nothing of tumbling down stairs! How \
brave they’ll all think me at home! Why, I wouldn’t say anything about it, even if I fell off the top of the house!” \
(Which was very likely true.)

Down, down, down. Would the fall never come to an end? “I wonder how many miles I’ve fallen by this time?” she said \
aloud. “I must be getting somewhere near the centre of the earth. Let me see: that would be four thousand miles down, \
I think—” (for, you see, Alice had learnt several things of this sort in her lessons in the schoolroom, and though \
this was not a very good opportunity for showing off her knowledge, as there was no one to listen to her, still it \
was good practice to say it over) “—yes, that’s about the right distance—but then I wonder what Latitude or Longitude \
I’ve got to?” (Alice had no idea what Latitude was, or Longitude either, but thought they were nice grand words to \
say.)"""

# The tokens of each prompt: beyond the window from the start, and crossing it while decoding.
LENGTHS = {"beyond the window": (700, 780), "crossing the window": (490, 505)}


def clear_run(model: transformers.PreTrainedModel, ids: list[int]) -> dict[str, Any] | None:
    """The greedy continuation of `ids`, or None if a choice was close. One uncached pass over all tokens must choose
    the same as generate()."""
    tokens = cached_greedy(model, ids, NEW_TOKENS)
    logits = prompt_logits(model, ids + tokens[:-1])[len(ids) - 1 :]
    assert logits.argmax(axis=-1).tolist() == tokens, "generate() disagrees with the uncached model"
    scale = float(np.abs(logits).max())
    if margins_of(logits).min() < LEAST_MARGIN * scale:
        return None
    top = [np.argsort(-logits[step], kind="stable")[:8] for step in (0, NEW_TOKENS - 1)]
    return {
        "prompt_ids": ids,
        "tokens": tokens,
        "scale": significant(np.array([scale]))[0],
        "least_margin": significant(np.array([margins_of(logits).min()]), 3)[0],
        "first_step_top": {"ids": top[0].tolist(), "logits": significant(logits[0][top[0]])},
        "last_step_top": {"ids": top[1].tolist(), "logits": significant(logits[-1][top[1]])},
    }


def first_clear_run(model: transformers.PreTrainedModel, name: str, ids: list[int]) -> dict[str, Any]:
    least, most = LENGTHS[name]
    for length in range(least, min(most, len(ids)) + 1):
        if (run := clear_run(model, ids[:length])) is not None:
            return run
    raise SystemExit(f"{name}: every prompt of {least} to {most} tokens meets a close choice")


def assert_window_matters(directory: Path, file: str, model: transformers.PreTrainedModel, run: dict[str, Any]) -> None:
    """A window that is one token shorter or longer, or none, must move the logits."""
    ids = run["prompt_ids"] + run["tokens"][:-1]
    for window in (511, 513, 32768):
        config = transformers.AutoConfig.from_pretrained(directory, gguf_file=file)
        config.sliding_window = window
        other = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
        other.load_state_dict(model.state_dict())
        expected = prompt_logits(model, ids)[-1]
        size = float(np.abs(prompt_logits(other, ids)[-1] - expected).max() / np.abs(expected).max())
        print(f"  window {window}: the last logits move by {size:.2g} of the scale", file=sys.stderr)
        assert size > LEAST_EFFECT, f"a window of {window} hardly differs from one of 512"


def make_gemma_golden(gguf: Path) -> dict[str, Any]:
    with gguf.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == GGUF_SHA256, "another GGUF than the tests use"
    source = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
    ids = tokenizer(TEXT)["input_ids"]
    runs = []
    for name in LENGTHS:
        run = first_clear_run(model, name, ids)
        print(f"  {name}: {len(run['prompt_ids'])} tokens, {tokenizer.decode(run['tokens'])!r}", file=sys.stderr)
        runs.append({"name": name, **run, "text": tokenizer.decode(run["tokens"], skip_special_tokens=False)})
        assert_window_matters(gguf.parent, gguf.name, model, run)
    return {"prompt_text": TEXT, "prompt_text_ids": ids, "runs": runs, "versions": versions()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the golden of Gemma 3 270M.")
    parser.add_argument("gguf", type=Path, metavar="FILE.gguf")
    write(GOLDENS / "gemma3_270m.json", make_gemma_golden(parser.parse_args().gguf))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    main()
