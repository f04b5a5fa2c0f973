#!/usr/bin/env python3
"""Records the tokenizer classes of transformers that have stages in their code, and the model types that have a class:
runtime/text/tokenizer_classes.cpp.

  python tools/make_tokenizer_classes.py

Needs the imported packages of tools/requirements.txt; run it after changing the version of transformers, and
tools/make_tokenizer_settings_goldens.py after it.
"""

import inspect
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "python"))
import torch_without_cuda  # noqa: F401, E402  torch is importable where libraries of CUDA are missing
import transformers  # noqa: E402
from transformers.models.auto import modeling_auto as modeling  # noqa: E402
from transformers.models.auto import tokenization_auto as auto  # noqa: E402

OUT = ROOT / "runtime" / "text" / "tokenizer_classes.cpp"
# Those of text models whose vocabulary is byte-pair.
CLASSES = ("CodeGenTokenizer", "CodeLlamaTokenizer", "CohereTokenizer", "GPT2Tokenizer", "GPTNeoXTokenizer",
           "GemmaTokenizer", "LlamaTokenizer", "Qwen2Tokenizer", "Qwen3_5Tokenizer")  # fmt: skip
STAGES = ("normalizer", "pre_tokenizer", "decoder")
UNKNOWN = "<the unknown token>"


def stages_of(tokenizer_class, **options):
    """The parts of tokenizer.json that the class has in its code."""
    tokenizer = tokenizer_class(vocab={"a": 0, UNKNOWN: 1, "<s>": 2}, merges=[], unk_token=UNKNOWN, **options)
    made = json.loads(tokenizer.backend_tokenizer.to_str())
    model = {key: value for key, value in made["model"].items() if key not in ("type", "vocab", "merges")}
    takes_unk_token = model["unk_token"] == UNKNOWN
    if takes_unk_token:
        model["unk_token"] = None
    return {"model": model, **{stage: made[stage] for stage in STAGES}}, takes_unk_token


def post_processor_of(tokenizer_class):
    """What becomes of the post-processor of the file, here one that adds <s> at the end."""
    given = transformers.tokenization_utils_tokenizers.processors.TemplateProcessing(
        single="$A <s>", pair="$A $B <s>", special_tokens=[("<s>", 2)])  # fmt: skip
    vocabulary = {"a": 0, "<unk>": 1, "<s>": 2, "▁": 3}
    tokenizer = tokenizer_class(vocab=vocabulary, merges=[], bos_token="<s>", post_processor=given)
    ids = [i for i in tokenizer("a")["input_ids"] if i in (0, 2)]
    return {(0, 2): "kOfFile", (0,): "kNone", (2, 0): "kBos"}[tuple(ids)]


def default_tokens(tokenizer_class):
    """The named special tokens that it has without any settings."""
    parameters = inspect.signature(tokenizer_class.__init__).parameters.values()
    return {p.name: p.default for p in parameters if p.name.endswith("_token") and isinstance(p.default, str)}


def resets(tokenizer_class, key):
    """Whether what the list of added tokens sets for special tokens of this key has no effect."""
    token = transformers.AddedToken("<e>", special=True, rstrip=True)
    value = {"eos_token": token, "extra_special_tokens": ["<e>"]}[key]
    made = tokenizer_class(vocab={"a": 0}, merges=[], added_tokens_decoder={1: token}, **{key: value})
    return not made.added_tokens_decoder[1].rstrip


def text(value):
    return f'R"json({json.dumps(value, ensure_ascii=False, separators=(",", ":"))})json"' if value else '""'


def changes(stages, before):
    return {key: value for key, value in stages.items() if value != before[key]}


def flag(value):
    return str(bool(value)).lower()


def class_row(name):
    tokenizer_class = getattr(transformers, name)
    plain, takes_unk_token = stages_of(tokenizer_class, add_prefix_space=False)
    prefixed, _ = stages_of(tokenizer_class, add_prefix_space=True)
    has_legacy = "legacy" in inspect.signature(tokenizer_class.__init__).parameters
    legacy = stages_of(tokenizer_class, add_prefix_space=True, legacy=True)[0] if has_legacy else prefixed
    default, _ = stages_of(tokenizer_class)
    fields = {
        "name": f'"{name}"', "stages": text(plain), "with_prefix": text(changes(prefixed, plain)),
        "with_legacy_prefix": text(changes(legacy, prefixed)), "default_tokens": text(default_tokens(tokenizer_class)),
        "post_processor": f"ClassPostProcessor::{post_processor_of(tokenizer_class)}",
        "adds_prefix": flag(default == prefixed != plain), "takes_unk_token": flag(takes_unk_token),
        "resets_named": flag(resets(tokenizer_class, "eos_token")),
        "resets_extra": flag(resets(tokenizer_class, "extra_special_tokens")),
    }  # fmt: skip
    usual = ('""', "false", "ClassPostProcessor::kOfFile")  # the defaults of the struct
    shown = [f".{key} = {value}" for key, value in fields.items() if value not in usual]
    return "    {" + ",\n     ".join(shown) + "},\n"


def registered_rows():
    text_models = {**modeling.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, **modeling.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES}
    for model_type, name in sorted(auto.TOKENIZER_MAPPING_NAMES.items()):
        if model_type in text_models and name in ("TokenizersBackend", "MistralCommonBackend", *CLASSES):
            kept = name if name in CLASSES else ""
            prevails = model_type in auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS
            yield f'    {{"{model_type}", "{kept}", {flag(prevails)}}},\n'


def main():
    OUT.write_text(
        f"// Classes of transformers {transformers.__version__}; written by tools/make_tokenizer_classes.py.\n"
        '#include "runtime/text/tokenizer_classes.h"\n\n'
        "// clang-format off\n"
        "namespace lockstep::text {\nnamespace {\n\n"
        "constexpr TokenizerClass kClasses[] = {\n" + "".join(map(class_row, CLASSES)) + "};\n\n"
        "constexpr RegisteredClass kRegistered[] = {\n" + "".join(registered_rows()) + "};\n\n"
        "}  // namespace\n\n"
        "std::span<const TokenizerClass> tokenizer_classes() { return kClasses; }\n\n"
        "std::span<const RegisteredClass> registered_classes() { return kRegistered; }\n\n"
        "}  // namespace lockstep::text\n",
        encoding="utf-8")  # fmt: skip


if __name__ == "__main__":
    main()
