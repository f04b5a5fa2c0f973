#!/usr/bin/env python3
"""Makes the goldens of configs: what Hugging Face transformers writes as config.json of every supported model type.

    python tools/make_config_goldens.py PROGRAM

A development tool: it needs transformers and the built program, which names the model types. It writes
tests/runtime/checkpoint/goldens/configs.json, which is committed. "saved" holds each type's defaults as transformers
saves them, with every key of its configuration class; "published" holds files of the Hub, which it leaves as they are.
Model types that transformers does not have are left out; "published" has a file of each of them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

# Keys that the classes leave without a value, or with one that no model can have.
NEEDED: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"num_experts_per_tok": 6},
    "dots1": {"n_shared_experts": 2},
    "glm4_moe": {"head_dim": 128},
}

GOLDENS = Path(__file__).resolve().parent.parent / "tests/runtime/checkpoint/goldens/configs.json"


def model_types(program: Path) -> list[str]:
    """The types that the program supports, from its refusal of another one."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text('{"model_type": "none of them"}', encoding="utf-8")
        done = subprocess.run([program, "plan", "--model", folder], capture_output=True, text=True, check=False)
    found = re.search(r"expected one of: ([\w, ]+);", done.stderr)
    if found is None:
        raise SystemExit(f"{program} names no model types: {done.stderr}")
    return found.group(1).split(", ")


def saved(model_type: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(json.dumps(CONFIG_MAPPING[model_type](**NEEDED.get(model_type, {})).to_dict(), default=str))
    return config


def lines_of(configs: dict[str, Any]) -> str:
    return ",\n".join(f"  {json.dumps(name)}: {json.dumps(config, sort_keys=True)}" for name, config in configs.items())


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the goldens of configs.")
    parser.add_argument("program", type=Path)
    options = parser.parse_args()
    published = json.loads(GOLDENS.read_text(encoding="utf-8"))["published"] if GOLDENS.exists() else {}
    types = {name: saved(name) for name in model_types(options.program) if name in CONFIG_MAPPING}
    GOLDENS.write_text(
        f'{{\n"transformers": {json.dumps(transformers.__version__)},\n"saved": {{\n{lines_of(types)}\n}},\n'
        f'"published": {{\n{lines_of(published)}\n}}\n}}\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
