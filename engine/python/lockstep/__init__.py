"""Lockstep: one language model on many ranks.

    import lockstep

    with lockstep.Model("DIR", tp=2, dtype="float32") as model:
        ids = model.generate([[1, 504, 2365]], max_new_tokens=12)       # as transformers
        for token in model.stream("Once upon a time", max_new_tokens=20):
            print(token, end="")
        print(model.complete(["One", "Two"])[0].text)                   # as vLLM
        print(model.score(ids)[0]["perplexity"])

The engine's log lines go to the logger "lockstep" of Python's logging.
"""

from typing import TYPE_CHECKING, Any

from ._lockstep import Answer
from ._lockstep import version as __version__
from .config import generation_options
from .errors import Error, InputError
from .model import Model
from .stream import TokenStream
from .token import Token
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from .graph import Graph, GraphNode, GraphTensor
    from .outputs import Completion, GenerateOutput
    from .plan import Plan, Sweep
    from .sampling_params import SamplingParams
    from .timeline import Timeline

# Imported when they are used.
_LATER = {"Completion": "outputs", "GenerateOutput": "outputs", "Graph": "graph", "GraphNode": "graph", "GraphTensor": "graph",
          "Plan": "plan", "SamplingParams": "sampling_params", "Sweep": "plan", "Timeline": "timeline"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'lockstep' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_LATER[name]}", __name__), name)


__all__ = [
    "Answer",
    "Completion",
    "Error",
    "GenerateOutput",
    "Graph",
    "GraphNode",
    "GraphTensor",
    "InputError",
    "Model",
    "Plan",
    "SamplingParams",
    "Sweep",
    "Timeline",
    "Token",
    "TokenStream",
    "Tokenizer",
    "__version__",
    "generation_options",
]
