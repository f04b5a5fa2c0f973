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

from ._lockstep import Answer, __version__
from .config import generation_options
from .errors import Error, InputError
from .graph import Graph, GraphNode, GraphTensor
from .model import Model
from .outputs import Completion, GenerateOutput, Token
from .plan import Plan, Sweep
from .sampling_params import SamplingParams
from .stream import TokenStream
from .timeline import Timeline
from .tokenizer import Tokenizer

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
