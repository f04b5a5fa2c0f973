#!/usr/bin/env python3
"""Writes the results of Hugging Face's generate() for options that the host applies, with a hash as the model.

    python tools/make_generation_goldens.py > tests/runtime/generation/goldens.json

Needs torch and transformers. The model's logits are an integer hash of all previous ids, multiples of 2^-20 in [-8, 8);
the tests build the same (tests/runtime/generation/hash_model.h). A step is omitted when a boundary of a filter depends
on the last bits of a softmax.
"""

import json
import random
import sys

import torch
import transformers
from transformers import GenerationConfig, GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator
from transformers.modeling_outputs import CausalLMOutput

VOCABULARY = 44  # the self-hashing watermark uses the 40 likeliest ids
MASK = 0xFFFFFFFF
MARGIN = 1e-4


def hash_logits(ids):
    state = 0x811C9DC5
    for token in ids:
        state = ((state ^ token) * 0x01000193) & MASK
    logits = []
    for token in range(VOCABULARY):
        x = (state + token * 0x9E3779B1) & MASK
        x = ((x ^ x >> 15) * 0x2C1B3C6D) & MASK
        x = ((x ^ x >> 12) * 0x297A2D39) & MASK
        x ^= x >> 15
        logits.append((x >> 8) / 2**20 - 8)
    return logits


class HashConfig(PreTrainedConfig):
    model_type = "hash"
    vocab_size = VOCABULARY


class HashModel(PreTrainedModel, GenerationMixin):
    config_class = HashConfig

    def __init__(self, config):
        super().__init__(config)
        self.unused = torch.nn.Parameter(torch.zeros(1))
        self.post_init()

    def prepare_inputs_for_generation(self, input_ids, **_):
        return {"input_ids": input_ids}

    def forward(self, input_ids, **_):
        rows = [[hash_logits(row[: i + 1]) for i in range(len(row))] for row in input_ids.tolist()]
        return CausalLMOutput(logits=torch.tensor(rows, dtype=torch.float32))


MODEL = HashModel(HashConfig()).eval()

# ---- the processors of one step ------------------------------------------------------------------------------------

SINGLE = [
    {"sequence_bias": [[[3], 2.5], [[5, 6], -4.0], [[7, 8, 6], 1.5], [[6], 0.25]]},
    {"encoder_repetition_penalty": 1.5},
    {"encoder_repetition_penalty": 0.5},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.8},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 3},
    {"encoder_no_repeat_ngram_size": 2},
    {"encoder_no_repeat_ngram_size": 3},
    {"bad_words_ids": [[2], [4], [7, 9], [7, 8, 11]]},
    {"bad_words_ids": [[2], [4]], "eos_token_id": [2, 3]},
    {"min_length": 9, "eos_token_id": 2},
    {"min_length": 7, "eos_token_id": [2, 5]},
    {"min_new_tokens": 4, "eos_token_id": [2, 5]},
    {"min_new_tokens": 1, "eos_token_id": 2},
    {"forced_bos_token_id": 9},
    {"forced_eos_token_id": 4, "max_length": 9},
    {"forced_eos_token_id": [4, 6], "max_length": 10},
    {"remove_invalid_values": True},
    {"exponential_decay_length_penalty": [1, 1.4], "eos_token_id": [2, 6]},
    {"exponential_decay_length_penalty": [7, 1.4], "eos_token_id": 2},
    {"suppress_tokens": [1, 2, 43]},
    {"begin_suppress_tokens": [5, 6]},
    {"begin_suppress_tokens": [5, 6], "forced_bos_token_id": 9},
    {"renormalize_logits": True},
    {"do_sample": True, "temperature": 0.6},
    {"do_sample": True, "top_h": 0.5},
    {"do_sample": True, "top_h": 0.9},
    {"do_sample": True, "top_k": 3},
    {"do_sample": True, "top_p": 0.8},
    {"do_sample": True, "min_p": 0.1},
    {"do_sample": True, "typical_p": 0.3},
    {"do_sample": True, "typical_p": 0.9},
    {"do_sample": True, "epsilon_cutoff": 0.05},
    {"do_sample": True, "epsilon_cutoff": 0.5},
    {"do_sample": True, "eta_cutoff": 0.05},
    {"do_sample": True, "eta_cutoff": 0.5},
    {"do_sample": True, "num_beams": 3, "top_k": 1, "eos_token_id": [2, 3]},
    {"do_sample": True, "num_beams": 3, "top_p": 0.1, "eos_token_id": [2, 3]},
    {"do_sample": True, "num_beams": 3, "min_p": 0.99},
    {"do_sample": True, "num_beams": 3, "typical_p": 0.05, "eos_token_id": [2, 3]},
    {"do_sample": True, "num_beams": 3, "epsilon_cutoff": 0.9, "eos_token_id": [2, 3]},
    {"do_sample": True, "num_beams": 3, "eta_cutoff": 0.9},
    {"watermarking_config": {}},
    {"watermarking_config": {"greenlist_ratio": 0.5, "bias": 1.5, "hashing_key": 77, "context_width": 3}},
    {"watermarking_config": {"seeding_scheme": "selfhash", "context_width": 3}},
]


def random_options(rng):
    """Several at once, because their order matters."""
    options = {"eos_token_id": [2, 5]}
    for single in rng.sample([s for s in SINGLE if "num_beams" not in s and "watermarking_config" not in s], 6):
        options.update(single)
    if rng.random() < 0.3:
        options["watermarking_config"] = {"greenlist_ratio": 0.3}
    if rng.random() < 0.7:
        options.update({"do_sample": True, "temperature": rng.choice([0.7, 1.3]), "top_k": rng.choice([0, 8, 20])})
    return options


def processors_of(options, prompt):
    config = GenerationConfig(**{"do_sample": False, "top_k": 50, "num_beams": 1, **options})
    MODEL._prepare_special_tokens(config, device="cpu")
    ids = torch.tensor([prompt])
    return MODEL._get_logits_processor(config, len(prompt), ids, device="cpu")


def hangs_on_a_bit(processor, ids, scores, processed):
    """Whether a slightly different filter keeps other ids."""
    for name in ("top_p", "min_p", "mass", "epsilon", "top_h"):
        if not hasattr(processor, name):
            continue
        value = getattr(processor, name)
        for factor in (1 - MARGIN, 1 + MARGIN):
            setattr(processor, name, value * factor)
            other = processor(ids, scores.clone())
            setattr(processor, name, value)
            if not torch.equal(other.isneginf(), processed.isneginf()):
                return True
    return False


def shown(scores):
    """−inf as None; nine digits hold a float32."""
    return [None if score == float("-inf") else float(f"{score:.9g}") for score in scores.tolist()]


def step_case(options, prompt, output):
    ids = torch.tensor([prompt + output])
    scores = torch.tensor([hash_logits(prompt + output)], dtype=torch.float32)
    for processor in processors_of(options, prompt):
        processed = processor(ids, scores.clone())
        if hangs_on_a_bit(processor, ids, scores, processed):
            return None
        scores = processed
    return {"options": options, "prompt": prompt, "output": output, "scores": shown(scores[0])}


def step_cases():
    rng = random.Random(5)
    prompts = [[9], [5, 7, 8, 6, 5, 7], [11, 3, 7, 8]]
    outputs = [[], [8], [8, 6, 5], [4, 7, 8, 3]]
    wanted = [(options, prompt, output) for options in SINGLE for prompt in prompts[:2] for output in outputs[2:3]]
    wanted += [(options, prompts[0], []) for options in SINGLE if "do_sample" not in options]
    wanted += [(options, prompts[0], [8]) for options in SINGLE if "begin_suppress_tokens" in options]
    wanted += [(random_options(rng), rng.choice(prompts), rng.choice(outputs)) for _ in range(50)]
    cases = [step_case(*one) for one in wanted]
    return [case for case in cases if case is not None]


# ---- whole searches ------------------------------------------------------------------------------------------------

SEARCHES = [
    {"max_new_tokens": 12},
    {"max_new_tokens": 12, "eos_token_id": [2, 3, 4, 5, 6]},
    {"max_new_tokens": 12, "no_repeat_ngram_size": 1, "min_new_tokens": 3, "eos_token_id": [2, 3, 4, 5, 6]},
    {"max_new_tokens": 8, "guidance_scale": 1.5},
    {"max_new_tokens": 8, "guidance_scale": 3.0, "repetition_penalty": 1.5, "negative": [4, 8, 2]},
    {"max_new_tokens": 8, "guidance_scale": 0.0, "negative": [4, 8, 2]},
    {"max_new_tokens": 8, "num_beams": 2},
    {"max_new_tokens": 8, "num_beams": 4, "num_return_sequences": 4},
    {"max_new_tokens": 1, "num_beams": 3, "num_return_sequences": 3},
]


def beam_searches():
    rng = random.Random(8)
    for early_stopping in (False, True, "never"):
        for length_penalty in (1.0, 0.0, -0.7, 0.5, 2.0):
            for _ in range(5):
                beams = rng.choice([2, 3, 5])
                yield {
                    "max_new_tokens": rng.choice([6, 10, 16, 24]),
                    "num_beams": beams,
                    "num_return_sequences": rng.randint(1, beams),
                    "early_stopping": early_stopping,
                    "length_penalty": length_penalty,
                    "eos_token_id": rng.choice([2, [2, 3], list(range(2, 8)), list(range(2, 18)), list(range(20, 36))]),
                    **rng.choice([{}, {"no_repeat_ngram_size": 2}, {"repetition_penalty": 1.2}, {"min_new_tokens": 3}]),
                }


def search_case(options, prompt):
    options = dict(options)
    negative = options.pop("negative", None)
    arguments = {"negative_prompt_ids": torch.tensor([negative])} if negative else {}
    config = GenerationConfig(pad_token_id=0, use_cache=False, output_scores=True, return_dict_in_generate=True, **options)
    answer = MODEL.generate(torch.tensor([prompt]), generation_config=config, **arguments)
    case = {"options": options, "prompt": prompt, "negative": negative or []}
    case["sequences"] = [row[len(prompt) :] for row in answer.sequences.tolist()]
    case["steps"] = len(answer.scores)
    if options.get("num_beams", 1) > 1:
        case["scores"] = shown(answer.sequences_scores)
        lengths = [sum(index >= 0 for index in row) for row in answer.beam_indices.tolist()]
        case["sequences"] = [row[:length] for row, length in zip(case["sequences"], lengths)]
    else:
        case["last_scores"] = shown(answer.scores[-1][0])
    return case


def search_cases():
    prompts = [[9], [5, 7, 8, 6], [11, 3, 7]]
    searches = SEARCHES + list(beam_searches())
    return [search_case(options, prompts[i % len(prompts)]) for i, options in enumerate(searches)]


# ---- prompt lookup -------------------------------------------------------------------------------------------------


def lookup_cases():
    rng = random.Random(3)
    for _ in range(60):
        ids = [rng.randrange(4) for _ in range(rng.randint(1, 14))]
        case = {
            "ids": ids,
            "tokens": rng.randint(1, 5),
            "ngram_size": rng.randint(1, 4),
            "max_length": len(ids) + rng.choice([1, 2, 30, 30, 30]),
            "eos": rng.choice([[], [], [3], [2, 3]]),
        }
        generator = PromptLookupCandidateGenerator(
            eos_token_id=torch.tensor(case["eos"]) if case["eos"] else None,
            num_output_tokens=case["tokens"],
            max_matching_ngram_size=case["ngram_size"],
            max_length=case["max_length"],
        )
        candidates, _ = generator.get_candidates(torch.tensor([ids]))
        yield {**case, "draft": candidates[0, len(ids) :].tolist()}


def main():
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    versions = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    parts = {"steps": step_cases(), "searches": search_cases(), "lookups": list(lookup_cases())}
    head = json.dumps({**versions, "vocabulary": VOCABULARY})[:-1]
    body = ",\n".join(
        f'"{name}": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]" for name, cases in parts.items()
    )
    sys.stdout.write(f"{head},\n{body}}}\n")


if __name__ == "__main__":
    main()
