"""Generation options, from a generation config and from keywords."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _lockstep
from .errors import bad_input

# Of transformers' generate, and read by this package instead of the engine.
_OWN_KEYS = ("return_dict_in_generate",)


def _plain(value: Any) -> Any:
    """`value` as JSON can hold it: arrays, and configurations that are objects."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    raise TypeError(f"found a {type(value).__name__}, expected numbers, texts, lists or dicts")


def _plain_or_text(value: Any) -> Any:
    try:
        return _plain(value)
    except TypeError:
        return str(value)


def _listed(name: str, value: Any) -> Any:
    """transformers' dict of a sequence_bias, whose keys are tuples, as lists."""
    if name == "sequence_bias" and isinstance(value, dict):
        return [[list(ids), bias] for ids, bias in value.items()]
    return value


def _dumped(value: Any, default: Callable[[Any], Any]) -> str:
    import json  # not where the package is imported

    return json.dumps(value, default=default)


def _json_of(name: str, value: Any) -> str:
    try:
        return _dumped(_listed(name, value), _plain)
    except (TypeError, ValueError) as error:
        raise TypeError(f"[python] generation option {name}: {error}; pass a plain value") from None


def _fields_of(generation_config: Any) -> dict[str, Any]:
    fields = generation_config.to_dict() if hasattr(generation_config, "to_dict") else generation_config
    if not isinstance(fields, dict):
        raise TypeError(f"[python] generation_config: found a {type(generation_config).__name__}, expected a dict or an "
                        "object with to_dict(); pass one")
    return {name: value for name, value in fields.items() if value is not None}


def read_config(base: _lockstep.GenerationConfig, generation_config: Any,
                options: dict[str, Any]) -> tuple[_lockstep.GenerationConfig, dict[str, Any]]:
    """The model's options `base`, changed by `generation_config`, then by `options`; and the options of this package.

    None keeps a value. Keys of `generation_config` that are no generation options are ignored, as in a file; in `options`
    they are errors.
    """
    config = base.copy()
    fields = {} if generation_config is None else _fields_of(generation_config)
    own = {name: fields.pop(name) for name in _OWN_KEYS if name in fields}
    if fields:
        text = _dumped({name: _listed(name, value) for name, value in fields.items()}, _plain_or_text)
        unknown = set(_lockstep.unknown_options(text, "generation_config"))
        fields = {name: value for name, value in fields.items() if name not in unknown}
    for source in (fields, options):
        # An explicit max_length replaces max_new_tokens, unless both are given.
        for name in sorted(source, key=lambda name: name != "max_length"):
            if name in _OWN_KEYS:
                own[name] = source[name]
            elif source[name] is not None:
                config.set(name, _json_of(name, source[name]))
    return config, own


def count_padding(what: str, config: _lockstep.GenerationConfig, width: int | None) -> None:
    """Makes lengths of the caller's count the padding of prompts of `width` tokens, as in transformers. None: no padding."""
    asked = dict(config.changes)
    for name, new_name in (("max_length", "max_new_tokens"), ("min_length", "min_new_tokens")):
        if width is None or name not in asked or new_name in asked:
            continue
        length = int(asked[name])
        if name == "max_length" and length <= width:
            raise bad_input(what, f"max_length={length} for prompts of {width} tokens, padding included", "more than these",
                            "raise it, or give max_new_tokens")
        counted = [(new_name, str(max(length - width, 0))), *([("min_length", "0")] if name == "min_length" else [])]
        for change in counted:
            config.set(*change)


def generation_options() -> list[dict[str, str]]:
    """All generation options: "name", "type", "default" (as JSON), "allowed" and "help" of each."""
    return _lockstep.generation_options()

