#!/usr/bin/env python3
"""Writes docs/support.md from the test results of this commit: the phases, windows, degrees and file types that work
for each family.

    python tools/make_support_matrix.py RESULTS [--check]

RESULTS is the folder of GoogleTest's JSON files: under ctest, the tests of model families write it to
build/PRESET/results. They record their subject as properties (tests/model/golden.cpp). A cell is yes when it has tests
and all of them passed; a skipped, disabled or failed test makes it no. --check writes nothing and fails when
docs/support.md is out of date. Needs only Python's standard library.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs/support.md"
LONG_RUNS = ROOT / "docs/long_runs.json"

PROPERTIES = ("family", "model", "window", "stored", "phase", "tp", "files", "backend", "experts")
FAMILIES = ("GPT-2", "OPT", "GPT-J", "GPT-NeoX", "BLOOM", "Llama", "Mistral", "Ministral", "Mixtral", "Qwen2", "Qwen3",
            "Qwen3-MoE", "Gemma 2", "Gemma 3 text", "Gemma 3n", "Gemma 4", "Phi-3", "gpt-oss",
            "SmolLM3", "Granite", "GraniteMoE", "StarCoder2", "StableLM", "Seed-OSS", "ERNIE 4.5", "GLM-4", "EXAONE 4", "Hunyuan",
            "OLMo 2", "OLMo 3", "OLMoE", "Phi", "Falcon", "Cohere", "Cohere 2", "Nemotron",
            "Qwen2-MoE", "Ministral 3", "GLM-4-MoE", "ERNIE 4.5 MoE", "MiniMax-M2", "dots.llm1", "EXAONE MoE", "Hy3", "Llama 4",
            "Qwen3-Next", "Qwen3.5", "Qwen3.5-MoE", "DeepSeek-V2", "DeepSeek-V3", "GLM-4.7-Flash",
            "Mistral 4")  # fmt: skip
PHASES = ("prefill", "decode", "laps")  # laps: a prompt of many windows, and many steps, in two graphs
STORED = {
    "hub": "as on the hub",
    "bare": "without the prefix",
    "old_buffers": "with old buffers",
    "packed": "experts packed",
    "mxfp4": "mxfp4 experts",
}


@dataclass(frozen=True)
class Outcome:
    """One test of a family, and whether it passed."""

    family: str
    model: str
    window: str
    stored: str
    phase: str
    tp: int
    files: str
    backend: str
    experts: str
    passed: bool


def outcomes_of(file: Path) -> list[Outcome]:
    found = []
    for suite in json.loads(file.read_text(encoding="utf-8"))["testsuites"]:
        tests = suite["testsuite"]
        if not any("family" in test for test in tests):
            continue
        for test in tests:
            missing = [name for name in PROPERTIES if name not in test]
            if missing:  # it ended before it recorded its subject
                raise SystemExit(f"{file}: {suite['name']}.{test['name']} recorded no {missing[0]}; was it disabled?")
            values = {name: test[name] for name in PROPERTIES}
            found.append(Outcome(**{**values, "tp": int(values["tp"])}, passed=has_passed(test)))
    return found


@dataclass(frozen=True)
class FormatOutcome:
    """One test of a quantised checkpoint, and whether it passed."""

    quantised: str
    model_type: str
    method: str
    backend: str
    passed: bool


def has_passed(test: dict) -> bool:
    return test["status"] == "RUN" and test["result"] == "COMPLETED" and "failures" not in test


def format_outcomes_of(file: Path) -> list[FormatOutcome]:
    suites = json.loads(file.read_text(encoding="utf-8"))["testsuites"]
    return [FormatOutcome(*(test[name] for name in ("quantised", "model_type", "method", "backend")), has_passed(test))
            for suite in suites for test in suite["testsuite"] if "quantised" in test]  # fmt: skip


def cell(outcomes: Iterable[Outcome | FormatOutcome]) -> str:
    judged = [outcome.passed for outcome in outcomes]
    return "–" if not judged else "yes" if all(judged) else "**no**"


def table(heads: list[str], rows: Iterable[list[str]]) -> list[str]:
    return ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads),
            *("| " + " | ".join(row) + " |" for row in rows), ""]  # fmt: skip


def by_column(
    outcomes: list[Outcome], row_of: Callable[[Outcome], tuple[str, ...]], columns: dict[str, Callable[[Outcome], bool]]
) -> list[list[str]]:
    """One row for every different `row_of`, in the families' order; one cell for every column."""
    keys = sorted({row_of(outcome) for outcome in outcomes}, key=lambda key: (FAMILIES.index(key[0]), key[1:]))
    return [
        [*key, *(cell(o for o in outcomes if row_of(o) == key and belongs(o)) for belongs in columns.values())]
        for key in keys
    ]


def format_table(formats: list[FormatOutcome]) -> list[str]:
    """One row for every quantised checkpoint; one column for every backend."""
    backends = ["cpu", "reference", "cuda"]
    rows = sorted({(o.method, o.model_type, o.quantised) for o in formats})
    return table(["checkpoint", "model type", *backends, "model"],
                 ([method, model_type, *(cell(o for o in formats if (o.quantised, o.backend) == (name, backend))
                                         for backend in backends), f"`{name}`"] for method, model_type, name in rows))  # fmt: skip


def long_run_lines() -> list[str]:
    """The table of docs/long_runs.json, which tools/long_runs.py writes."""
    runs = json.loads(LONG_RUNS.read_text(encoding="utf-8")) if LONG_RUNS.exists() else {}
    if not runs:
        return []
    return [
        "## Runs of hours",
        "",
        "The last whole run of each stage that only `scripts/check --full` has. `asan` and `tsan` run the ordinary tests, without",
        "the label *slow*; of the Python package `asan` runs what needs neither torch nor a model, `tsan` nothing: Python",
        "itself is not built with it. `tsan` does not report races in what the handlers of actors call, because CAF's library is",
        "not built with it.",
        "",
        *table(["stage", "commit", "date", "minutes", "cores", "result"],
               ([f"`{name}`", run["commit"], run["date"], str(run["minutes"]), str(run["cores"]), run["summary"]]
                for name, run in sorted(runs.items()))),
    ]  # fmt: skip


def document(outcomes: list[Outcome], formats: list[FormatOutcome]) -> str:
    strangers = {outcome.family for outcome in outcomes} - set(FAMILIES)
    if strangers:
        raise SystemExit(f"families without a place in the document: {sorted(strangers)}; add them to FAMILIES")
    usual = [o for o in outcomes if o.backend == "cpu" and o.experts == "columns"]
    whole = [o for o in outcomes if o.experts == "whole"]
    degrees = sorted({o.tp for o in usual})

    def phase_at(phase: str, tp: int) -> Callable[[Outcome], bool]:
        return lambda o: o.phase == phase and o.tp == tp

    columns = {f"{phase} tp {tp}": phase_at(phase, tp) for phase in PHASES for tp in degrees}
    lines = [
        "# What works",
        "",
        "Made by `tools/make_support_matrix.py` from the test results of this commit; not written by hand. *yes*:",
        "random tiny models of this kind give Hugging Face's float32 tokens and logits (within 1e-4 of the largest),",
        "over several chunk sizes and batch shapes. *laps*: a prompt of 71 tokens and 180 steps through windows of 8,",
        "in two graphs.",
        "**no**: a test failed or did not run. –: there is no test.",
        "",
        "**GPUs** (`--backend cuda`): over a stand-in of the CUDA driver every family gave the same tokens and logits at 1, 2",
        "and 3 ranks; [gpu.md](gpu.md) says which ran on an H100 too. `--backend neuron` refuses DeepSeek-V2, DeepSeek-V3,",
        "GLM-4.7-Flash and Mistral 4, whose latent attention it lacks, at start.",
        "",
        "## Families, on the cpu backend",
        "",
        *table(["family", "windows", "weights", *columns],
               by_column(usual, lambda o: (o.family, o.window, STORED[o.stored]), columns)),
        "## Files",
        "",
        *table(["family", *(kinds := sorted({o.files for o in outcomes}))],
               by_column(outcomes, lambda o: (o.family,),
                         {kind: lambda o, kind=kind: o.files == kind for kind in kinds})),
        "## Experts as a whole to ranks (`--expert-parallel`)",
        "",
        *table(["family", "weights", *(f"tp {tp}" for tp in degrees)],
               by_column(whole, lambda o: (o.family, STORED[o.stored]),
                         {str(tp): phase_at("decode", tp) for tp in degrees})),
        "## Backends",
        "",
        *table(["family", *(backends := sorted({o.backend for o in outcomes}))],
               by_column([o for o in outcomes if o.experts == "columns"],
                         lambda o: (o.family,), {name: lambda o, name=name: o.backend == name for name in backends})),
        "## Quantised checkpoints",
        "",
        "Multiplied in their codes: at 1, 2, 3 and 5 ranks on cpu, 1 and 3 on reference, 2 on cuda (over the stand-in);",
        "model: tests/model/goldens/quantised/family_….json. `--backend neuron` refuses all of them at start by name, and",
        "runs `--weights int8`. What each format keeps: [quantization.md](quantization.md).",
        "",
        *format_table(formats),
        *long_run_lines(),
        "## Models behind the rows",
        "",
        *table(["family", "windows", "weights", "model (tests/model/goldens/family_….json)"],
               ([o.family, o.window, STORED[o.stored], f"`{o.model}`"] for o in sorted(
                   {Outcome(o.family, o.model, o.window, o.stored, "", 0, "", "", "", True) for o in outcomes},
                   key=lambda o: (FAMILIES.index(o.family), o.model)))),
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes docs/support.md from test results.")
    parser.add_argument("results", type=Path, help="the folder of GoogleTest's JSON files")
    parser.add_argument("--check", action="store_true", help="compare with docs/support.md and write nothing")
    options = parser.parse_args()
    # The ordinary suite runs a selection of families on the stand-in for GPUs: no column for it.
    outcomes = [outcome for file in sorted(options.results.glob("*.json")) for outcome in outcomes_of(file)
                if outcome.backend != "cuda"]  # fmt: skip
    if not outcomes:
        raise SystemExit(f"no results of model families in {options.results}; run families_matrix_test first")
    formats = [outcome for file in sorted(options.results.glob("*.json")) for outcome in format_outcomes_of(file)]
    text = document(outcomes, formats)
    if not options.check:
        DOCUMENT.write_text(text, encoding="utf-8")
        return 0
    written = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
    difference = list(
        difflib.unified_diff(written.splitlines(), text.splitlines(), "docs/support.md", "test results", lineterm="")
    )
    if difference:
        print("\n".join(difference))
        print("docs/support.md is not what the tests say; run tools/make_support_matrix.py", file=sys.stderr)
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())
