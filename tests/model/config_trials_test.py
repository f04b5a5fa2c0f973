"""Random changes of the families' config.json: Lockstep gives transformers' answer, or refuses the model.

    config_trials_test.py [--seed N] [--trials N] [--only NAME …]

A trial takes a model of tools/family_variants.py, changes some keys of its config, also those that it leaves to the
class's defaults, makes weights for it, and compares the logits of greedy tokens. It prints the trials that differ.
Needs torch, transformers, numpy and the package lockstep.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import enum
import logging
import pathlib
import random
import sys
import tempfile
from collections import Counter
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/python")]
import torch_without_cuda  # noqa: E402, F401, before torch
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from family_variants import VARIANTS, Variant  # noqa: E402
from hashed_tensors import hashed_tensor  # noqa: E402
from make_family_goldens import (  # noqa: E402
    load_model, model_class, new_model, prompt_logits, prompts_of, tensors_of, write_model,
)  # fmt: skip

import lockstep  # noqa: E402

Config = dict[str, Any]
Place = tuple[str, ...]  # keys from the top of a config to one inside

TOLERANCE = 1e-4  # of the largest logit
PROMPT_LENGTHS = [1, 9, 24]
NEW_TOKENS = 6
MOST_PARAMETERS = 2_000_000  # a default may be the size of a real model
LEAST_COMPARED = 0.3  # of the trials; the others are refused by one of the two

# Which class reads it, and how transformers runs it, trains it and returns its results; not what it computes.
NOT_OF_THE_MODEL = {
    "architectures", "model_type", "transformers_version", "dtype", "torch_dtype", "quantization_config",
    "output_attentions", "output_hidden_states", "output_router_logits", "return_dict", "use_cache", "torchscript",
    "is_encoder_decoder", "pruned_heads", "problem_type", "num_labels", "id2label", "label2id", "_name_or_path",
    "chunk_size_feed_forward", "base_model_tp_plan", "base_model_pp_plan",
}  # fmt: skip
# Endings of other such keys.
IDLE_ENDINGS = ("dropout", "pdrop", "initializer_range", "_loss_coef", "_token_id")
ACTIVATIONS = ["silu", "gelu", "gelu_new", "relu", "gelu_pytorch_tanh", "relu2"]


def is_of_the_model(key: str) -> bool:
    return key not in NOT_OF_THE_MODEL and not key.endswith(IDLE_ENDINGS)


def places_of(config: Config, above: Place = ()) -> list[Place]:
    """All keys, those of objects inside included."""
    found: list[Place] = []
    for key, value in config.items():
        if not is_of_the_model(key):
            continue
        found.append((*above, key))
        if isinstance(value, dict):
            found += places_of(value, (*above, key))
    return found


def other_value(draw: random.Random, value: Any) -> Any:
    if value is None:
        return draw.choice([True, 1, 2, 8, 0.5])
    if isinstance(value, bool):
        return draw.choice([not value, not value, None])
    if isinstance(value, int):
        return draw.choice([value + 1, max(value - 1, 0), 2 * value, max(value // 2, 1), 1, None])
    if isinstance(value, float):
        return draw.choice([value / 2, 3 * value, 1.0, 0.25, None])
    if value in ACTIVATIONS:
        return draw.choice(ACTIVATIONS)
    if isinstance(value, list) and len(value) > 1:
        return draw.choice([draw.sample(value, len(value)), value[1:], [*value, value[0]], [value[-1]] * len(value)])
    if isinstance(value, dict) and value:
        key = draw.choice(sorted(value))
        return {**value, key: other_value(draw, value[key])}
    return None


def change(draw: random.Random, config: Config, defaults: Config) -> str:
    """Changes one key of `config` and says which."""
    absent = sorted(filter(is_of_the_model, defaults.keys() - config.keys()))
    if absent and draw.random() < 0.4:
        key = draw.choice(absent)
        config[key] = other_value(draw, defaults[key])
        return f"{key}={config[key]!r}"
    *above, key = draw.choice(places_of(config))
    inner = config
    for name in above:
        inner = inner[name]
    if draw.random() < 0.3:
        del inner[key]
        return f"no {'.'.join([*above, key])}"
    inner[key] = other_value(draw, inner[key])
    return f"{'.'.join([*above, key])}={inner[key]!r}"


def is_small(config: Config) -> bool:
    with torch.device("meta"):
        return sum(values.numel() for values in new_model(config).parameters()) <= MOST_PARAMETERS


@dataclasses.dataclass(frozen=True)
class Trial:
    config: Config
    weights: dict[str, np.ndarray]
    model: transformers.PreTrainedModel

    def prompts(self) -> list[list[int]]:
        return prompts_of(self.model.config.vocab_size, PROMPT_LENGTHS, "prompts")


def make_trial(variant: Variant, config: Config) -> Trial | None:
    """None if transformers refuses the config, or its model is large or has logits that are no numbers."""
    try:
        if not is_small(config):
            return None
        tensors = tensors_of(dataclasses.replace(variant, config=config))
        weights = {tensor["name"]: hashed_tensor(1, tensor) for tensor in tensors}
        trial = Trial(config, weights, load_model(config, weights))
        is_finite = all(np.isfinite(prompt_logits(trial.model, prompt)).all() for prompt in trial.prompts())
        return trial if is_finite else None
    except Exception:  # noqa: BLE001, whatever it raises for such a config
        return None


def distance(trial: Trial, options: dict[str, Any]) -> float:
    """The largest of all logits of greedy tokens, as a part of the scale; NaN if one is. Raises lockstep.Error."""
    prompts = trial.prompts()
    with tempfile.TemporaryDirectory() as folder:
        write_model(pathlib.Path(folder), trial.config, trial.weights)
        with lockstep.Model(folder, dtype="float32", scoring=False, **options) as model:
            done = model.generate(prompts, max_new_tokens=NEW_TOKENS, return_dict_in_generate=True, output_logits=True)
    distances = []
    for row, prompt in enumerate(prompts):
        ids = list(prompt)
        for step in done.logits:
            expected = prompt_logits(trial.model, ids)[-1]
            distances.append(np.abs(step[row] - expected).max() / np.abs(expected).max())
            ids.append(int(step[row].argmax()))
    return float(np.max(distances))


class End(enum.StrEnum):
    """How a trial ended."""

    NO_MODEL = "no model"  # make_trial made none
    REFUSED = "refused"
    SAME = "the same"
    DIFFERENT = "DIFFERENT"


def run(seed: int, names: list[str]) -> tuple[End, str]:
    """How trial number `seed` ended, and what it was."""
    draw = random.Random(seed)
    name = draw.choice(names)
    variant = VARIANTS[name]
    config = copy.deepcopy(variant.config)
    config.pop("eos_token_id", None)  # all rows are as long
    defaults = model_class(config).config_class().to_dict()
    changes = [change(draw, config, defaults) for _ in range(draw.choice([1, 1, 2, 3]))]
    cuts = {"tp": [1, 2, 3], "prefill_chunk": [4, 16, 256], "batch_size": [1, 4]}
    options = {key: draw.choice(values) for key, values in cuts.items()}
    what = f"seed {seed}, {name} with {', '.join(changes)}"
    trial = make_trial(variant, config)
    try:
        if trial is None:
            return End.NO_MODEL, what
        found = distance(trial, options)
    except lockstep.Error as error:
        return End.REFUSED, f"{what}: {error}"
    return (End.SAME if found < TOLERANCE else End.DIFFERENT), f"{what}, {options}: {found:.2g} of the scale"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of the first trial")
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="NAME")
    parser.add_argument("--verbose", action="store_true", help="prints every trial")
    arguments = parser.parse_args()
    ends: Counter[End] = Counter()
    for seed in range(arguments.seed, arguments.seed + arguments.trials):
        end, what = run(seed, arguments.only)
        ends[end] += 1
        if arguments.verbose or end == End.DIFFERENT:
            print(f"{end}: {what}", flush=True)
    print(", ".join(f"{end}: {count}" for end, count in ends.items()))
    if ends[End.DIFFERENT]:
        sys.exit(f"{ends[End.DIFFERENT]} models have other logits than in transformers")
    if ends[End.SAME] < LEAST_COMPARED * arguments.trials:
        sys.exit(f"only {ends[End.SAME]} trials were compared, expected {LEAST_COMPARED:.0%} of {arguments.trials}")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("lockstep").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    main()
