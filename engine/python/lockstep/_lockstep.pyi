from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray


version: str = '0.1.0'

class GenerationConfig:
    def copy(self) -> GenerationConfig: ...

    def set(self, arg0: str, arg1: str, /) -> None: ...

    @property
    def changes(self) -> list[tuple[str, str]]: ...

    def validate(self) -> None: ...

    def validate_streaming(self) -> None: ...

    @property
    def num_beams(self) -> int: ...

    @property
    def num_return_sequences(self) -> int: ...

    @property
    def eos_token_ids(self) -> list[int]: ...

    @property
    def bos_token_id(self) -> int | None: ...

    @property
    def stop_strings(self) -> list[str]: ...

    @property
    def pad_token_id(self) -> int | None: ...

    @property
    def output_scores(self) -> bool: ...

    @property
    def output_logits(self) -> bool: ...

def unknown_options(arg0: str, arg1: str, /) -> list[str]: ...

def generation_options() -> list: ...

class Answer:
    """One answer to a prompt."""

    @property
    def token_ids(self) -> list[int]:
        """The new ids, up to and with the end token."""

    @property
    def text(self) -> str:
        """Their text, cut before a stop string; empty without a tokenizer."""

    @property
    def finish_reason(self) -> str:
        """'eos', 'length', 'stop' or 'cancelled'."""

    @property
    def stop_string(self) -> str:
        """The stop string that ended it; empty: none."""

    @property
    def sequence_score(self) -> float | None:
        """
        Of a beam: the sum of log-probabilities over length ** length_penalty; None without beams.
        """

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt that the KV cache already held."""

    @property
    def logprobs(self) -> object:
        """
        With top_logprobs: (log-probability, [(id, log-probability), ...]) for each token; else None.
        """

    @property
    def scores(self) -> object:
        """
        With output_scores: float32 [tokens, vocabulary], processed; else None.
        """

    @property
    def logits(self) -> object:
        """With output_logits: float32 [tokens, vocabulary], raw; else None."""

    @property
    def token_times(self) -> object:
        """
        Seconds from the submission to each token, float64 [tokens]; empty with beams.
        """

    def __repr__(self) -> str: ...

class StreamedToken:
    @property
    def index(self) -> int: ...

    @property
    def id(self) -> int | None: ...

    @property
    def text(self) -> str: ...

class PendingRequests:
    def wait_done(self, arg: int, /) -> int: ...

    def is_done(self) -> bool: ...

    def cancel(self) -> None: ...

    def next_token(self) -> StreamedToken | None: ...

    def take_token(self) -> StreamedToken | None: ...

    def set_listener(self, arg: object, /) -> None: ...

    def answers(self) -> list[list[Answer]]: ...

    def answers_if_done(self, arg: int, /) -> list[Answer] | None: ...

    def __len__(self) -> int: ...

class PendingTexts:
    def scores(self) -> list: ...

class OpenOptions:
    pass

def open_options(*, dtype: str | None, weights: str | None, activations: str | None, kv_dtype: str | None, batch_size: int | None, max_seq_len: int | None, prefill_chunk: int, threads: int | None, backend: str, backend_options: Mapping[str, str], memory_budget: int | None, check_weights_s: float, scoring: bool, max_logprobs: int, prompt_embeddings: bool, draft_model: str | None, drafts: int, looks_up: bool) -> OpenOptions: ...

class Ranks:
    def __init__(self, communicator: int | None, log: object, set_variable: object, end_process: object) -> None: ...

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def broadcast(self, arg: str, /) -> str: ...

    def serve(self, arg0: str, arg1: OpenOptions, /) -> None: ...

    def leave(self) -> None: ...

    def disown(self) -> None: ...

class OpenModel:
    def submit(self, rows: Sequence[tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, int, int | None, Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None]], config: GenerationConfig, streams: bool, special_text: bool, process: object | None, is_met: object | None, allowed: object | None) -> PendingRequests: ...

    def submit_texts(self, arg0: Sequence[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]], arg1: int, /) -> PendingTexts: ...

    def close(self) -> None: ...

    def disown(self) -> None: ...

    def is_open(self) -> bool: ...

    def facts(self) -> dict: ...

    def counters(self) -> dict: ...

    def generation_config(self) -> GenerationConfig: ...

    def warnings(self) -> list[str]: ...

    def vocabulary(self) -> int: ...

    def embedding_size(self) -> int: ...

    def model_type(self) -> str: ...

    def encode(self, arg0: str, arg1: bool, /) -> list[int]: ...

    def decode(self, arg0: Sequence[int], arg1: bool, /) -> str: ...

    def render_chat(self, arg0: Sequence[str], arg1: bool, arg2: str, arg3: str, /) -> str: ...

def open_files(arg0: str, arg1: OpenOptions, /) -> OpenModel: ...

def open_on_threads(arg0: str, arg1: OpenOptions, arg2: int, arg3: object, /) -> OpenModel: ...

def open_on_ranks(arg0: str, arg1: OpenOptions, arg2: Ranks, /) -> OpenModel: ...

def graphs(open: OpenModel, rank: int, before_passes: bool) -> list: ...

def plan_json(open: OpenModel, *, degrees: Sequence[int], prompt_tokens: int | None, new_tokens: int, batch_size: int | None, max_seq_len: int | None, memory_budget: int | None, machine: Mapping[str, float], measure: bool, probe: str | None) -> str: ...

def activity(open: OpenModel) -> dict: ...

def directory(arg: OpenModel, /) -> str: ...

def draft_model(arg: OpenModel, /) -> str | None: ...

def fields_of(arg: GenerationConfig, /) -> object: ...
