#!/usr/bin/env python3
"""Records what transformers' AutoTokenizer makes of small tokenizers with settings beside them
(tokenizer_config.json, special_tokens_map.json, added_tokens.json, config.json):
tests/runtime/text/goldens/settings.json.

  python tools/make_tokenizer_settings_goldens.py

Some settings are those of published models, the others are random. Needs the imported packages of
tools/requirements.txt; the file is committed, so run it only after changing the version of transformers or a case.
"""

import json
import pathlib
import random
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "python"))
import torch_without_cuda  # noqa: F401, E402  torch is importable where libraries of CUDA are missing
import transformers  # noqa: E402

GOLDENS = ROOT / "tests" / "runtime" / "text" / "goldens"
STYLES = ("llama2", "mistral", "gemma", "gpt2", "smollm", "qwen2", "llama3")
TEXTS = ["Hello, world! 123 4567", "<s>user\n Hi</s>\nyou  <|im_start|> the fox<x> é e\u0301",
         " [INST] don't ▁a</s><|im_end|> x"]  # fmt: skip
TOKENS = ["<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>", "<x>", "the", " fox", "<pad>", "INST"]
FLAGS = ("single_word", "lstrip", "rstrip", "normalized")
MODEL_TYPES = ("llama", "exaone4", "gpt_oss", "mistral", "phi3", "granite", "qwen2", "qwen3", "qwen3_5_text",
               "gemma3_text", "gpt2", "gpt_neox", "olmoe", "phi", "starcoder2", "cohere2")  # fmt: skip
CLASSES = ("LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer", "GPT2Tokenizer", "GPTNeoXTokenizerFast",
           "GemmaTokenizer", "Qwen2Tokenizer", "CohereTokenizerFast", "CodeGenTokenizer", "PreTrainedTokenizerFast",
           "BloomTokenizerFast")  # fmt: skip
LLAMA = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "tokenizer_class": "LlamaTokenizer"}
PLAIN = {"content": "", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def case(style, model_type, config, of_file=None, **files):
    files = {"config.json": {"model_type": model_type}, "tokenizer_config.json": config,
             **{f"{name}.json": content for name, content in files.items()}}  # fmt: skip
    return {"tokenizer": style, "added_tokens": of_file,
            "files": {name: content for name, content in files.items() if content is not None}}  # fmt: skip


def published():
    """Settings as published models have them, and one for each rule."""
    yield case("llama2", "llama", {**LLAMA, "legacy": False, "pad_token": "</s>"})
    yield case("llama2", "llama", {**LLAMA, "legacy": True, "add_bos_token": True})
    yield case("llama2", "llama", {**LLAMA, "add_prefix_space": False})
    yield case("llama2", "llama", {**LLAMA, "tokenizer_class": "CodeLlamaTokenizer"})
    yield case("llama2", "mistral", LLAMA)  # the stages of the file
    yield case("llama2", "phi3", {**LLAMA, "tokenizer_class": "LlamaTokenizerFast"})
    yield case("llama3", "llama", {**LLAMA, "tokenizer_class": "LlamaTokenizerFast"})  # byte-level: those of the file
    gpt2 = {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|im_start|>", "add_prefix_space": True}
    yield case("smollm", "llama", gpt2)
    yield case("qwen2", "qwen2", {"tokenizer_class": "LlamaTokenizerFast", "add_prefix_space": True})
    yield case("smollm", "qwen3", None)
    yield case("llama2", "gemma3_text", None)
    yield case("llama2", "cohere2", {"tokenizer_class": "LlamaTokenizer", "auto_map": {"AutoTokenizer": ["a.B", None]}})
    yield case("llama2", "mistral", {**LLAMA, "auto_map": {"AutoTokenizer": ["a.B", None]}})
    yield case("llama3", "gpt_neox", {"tokenizer_class": "GPTNeoXTokenizerFast"})  # no post-processor
    yield case("llama2", "llama", {**LLAMA, "split_special_tokens": True})
    changed = [{**PLAIN, "content": text, flag: True} for text, flag in zip(TOKENS[:4], FLAGS, strict=True)]
    listed = {str(place): token for place, token in enumerate(changed)}
    yield case("llama2", "mistral", {"added_tokens_decoder": listed, "pad_token": "<pad>", "image_token": "<x>"})
    yield case("llama2", "llama", {**LLAMA, "added_tokens_decoder": listed})
    older = {"additional_special_tokens": ["<|im_start|>"], "bos_token": {**changed[1]}, "eos_token": None}
    added = {"<x>": 430, "the": 431}
    yield case("gpt2", "gpt2", {"additional_special_tokens": []}, special_tokens_map=older, added_tokens=added)
    added = {"<x>": 430, "<s>": 1}
    yield case("llama2", "mistral", {}, added_tokens=added, special_tokens_map={**older, "pad_token": "<pad>"})
    listed = {"2": {**PLAIN, "content": "</s>"}, "430": {**PLAIN, "content": "<x>", "special": False}}
    of_file = [{**PLAIN, "id": 2, "content": "</s>", "normalized": True}]
    yield case("llama2", "mistral", {"pad_token": "<x>", "added_tokens_decoder": listed}, of_file)
    yield case("gpt2", "exaone4", {"tokenizer_class": "GemmaTokenizer", "unk_token": "!"})
    extra = {"additional_special_tokens": ["<|im_start|>", "<x>"], "extra_special_tokens": {"video_token": " fox"}}
    yield case("qwen2", "qwen3", extra)
    yield case("qwen2", "cohere2", {**extra, "added_tokens_decoder": {"420": {**changed[3], "special": False}}})


def some_token(rng):
    flags = {flag: rng.random() < 0.2 for flag in FLAGS}
    return {"content": rng.choice(TOKENS), **flags, "special": rng.random() < 0.6}


def some_names(rng, names, chance):
    found = {}
    for name in names:
        if rng.random() < chance:
            token = some_token(rng)
            found[name] = rng.choice([token["content"], token["content"], None, {"__type": "AddedToken", **token}])
    return found


def some_config(rng, added):
    config = some_names(rng, ["bos_token", "eos_token", "unk_token", "pad_token", "mask_token", "image_token"], 0.4)
    chances = {"tokenizer_class": 0.8, "add_prefix_space": 0.3, "legacy": 0.3, "split_special_tokens": 0.1}
    for key, chance in chances.items():
        if rng.random() < chance:
            config[key] = rng.choice(CLASSES) if key == "tokenizer_class" else rng.random() < 0.5
    for key in ("additional_special_tokens", "extra_special_tokens"):
        if rng.random() < 0.25:
            config[key] = [rng.choice(TOKENS) for _ in range(rng.randrange(3))]
    if rng.random() < 0.5:
        tokens = [{**token} for token in added if rng.random() < 0.8]
        for token in tokens:
            if rng.random() < 0.3:
                token[rng.choice(FLAGS)] ^= True
        config["added_tokens_decoder"] = {str(token.pop("id")): token for token in tokens}
    return config


def some_case(rng):
    style = rng.choice(STYLES)
    added = json.loads((GOLDENS / "tokenizers" / style / "tokenizer.json").read_text())["added_tokens"]
    added = [token for token in added if not token["content"].startswith("<0x")]
    if rng.random() < 0.3:
        added = [token for token in added if rng.random() < 0.7]
    files = {}
    if rng.random() < 0.3:
        files["special_tokens_map"] = some_names(rng, ["bos_token", "eos_token", "pad_token"], 0.5)
        for value in files["special_tokens_map"].values():
            if isinstance(value, dict):
                del value["__type"], value["special"]
    if rng.random() < 0.2:
        files["added_tokens"] = {rng.choice(TOKENS): 450, "<y>": 451}
    config = some_config(rng, added) if rng.random() < 0.9 else None
    return case(style, rng.choice(MODEL_TYPES), config, added, **files)


def record(one, directory):
    """Adds what transformers makes of the case; false if it refuses it."""
    tokenizer = json.loads((GOLDENS / "tokenizers" / one["tokenizer"] / "tokenizer.json").read_text())
    if one["added_tokens"] is not None:
        tokenizer["added_tokens"] = one["added_tokens"]
    for name, content in {**one["files"], "tokenizer.json": tokenizer}.items():
        (directory / name).write_text(json.dumps(content))
    try:
        loaded = transformers.AutoTokenizer.from_pretrained(directory)
        one["class"] = type(loaded).__name__
        one["names"] = {name: str(token) for name, token in loaded.special_tokens_map.items()}
        one["texts"] = []
        for text in TEXTS:
            ids = loaded(text)["input_ids"]
            one["texts"].append({
                "text": text, "ids": ids, "plain": loaded(text, add_special_tokens=False)["input_ids"],
                "decoded": loaded.decode(ids, clean_up_tokenization_spaces=False),
                "skipped": loaded.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False),
            })  # fmt: skip
    except Exception as error:
        if "not found in the vocabulary" not in str(error):
            raise
        return False  # the unknown token of some random settings
    return True


def main():
    transformers.logging.set_verbosity_error()
    rng = random.Random(5)
    cases = list(published())
    taken = []
    while len(taken) < 70:
        one = cases.pop(0) if cases else some_case(rng)
        with tempfile.TemporaryDirectory() as directory:
            if record(one, pathlib.Path(directory)):
                taken.append(one)
    lines = ",\n".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in taken)
    (GOLDENS / "settings.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
