"""A model that is open for requests."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from . import _lockstep
from .arrays import TokenRows, read_embeddings, read_rows
from .callbacks import LogitsProcessor, PrefixAllowedTokens, StoppingCriterion, allowed_of, is_met_of, process_of
from .calls import called, finished, stream_to
from .config import count_padding, read_config
from .drafting import check_assistant, read_drafting
from .errors import Error, bad_input
from .given_tokenizer import GivenTokenizer
from .inspection import Inspection
from .log import log_line
from .stream import ended_on_error
from .text_calls import TextCalls
from .tokenizer import Tokenizer


class Model(Inspection, TextCalls):
    """A Hugging Face directory, open on ranks: threads of this process, processes that it starts, or those of mpirun.

    Every method may be called by many threads at once; their requests share the batch. The GIL is released while the model
    works. Ctrl-C ends the call that it interrupts, and nothing else. Use it in a ``with`` block, or call `close`.

    Raises `lockstep.InputError` for a directory or an option that is wrong, and `lockstep.Error` for a model, degree or
    option that is not supported, and for a model that does not fit into memory.
    """

    def __init__(self, directory: str | os.PathLike[str], *, tp: int | None = None, dtype: Any = None,
                 weights: str | None = None, activations: str | None = None,
                 kv_dtype: Literal["int8", "fp8"] | None = None, batch_size: int | None = None, max_seq_len: int | None = None,
                 prefill_chunk: int = 256, threads: int | None = None, backend: str = "cpu",
                 backend_options: dict[str, str] | None = None, memory_budget: int | None = None,
                 check_weights_s: float = 600.0, scoring: bool = True, max_logprobs: int = 20, prompt_embeddings: bool = False, tokenizer: Any = None,
                 draft_model: str | os.PathLike[str] | None = None,
                 num_assistant_tokens: int | None = None, prompt_lookup_num_tokens: int | None = None,
                 launch: Literal["threads", "mpirun", "inside"] = "threads", launcher: str = "mpirun -n {ranks}",
                 start_deadline: float = 600.0, script: Literal["first", "all"] = "first",
                 communicator: Any = None) -> None:
        """Reads the weights and compiles the graphs.

        Args:
            directory: config.json, \\*.safetensors or pytorch_model\\*.bin, tokenizer.json.
            tp: the number of ranks that share the model: the tensor-parallel degree; default: 1, or the ranks of mpirun.
            dtype: of weights and activations: "float32", "bfloat16", "float16"; default: the checkpoint's.
            weights: matrices quantised while they are read: "q4", "q8" or "int8", with ":GROUP" for the columns of a scale.
            activations: what is multiplied by weights in codes: "elements" or "int8"; default: as `weights` or the files have
                it.
            kv_dtype: keys and values in 8 bits, "int8" or "fp8"; default: as `dtype`.
            batch_size: sequences that run at once; default: 8. Others wait.
            max_seq_len: tokens of a sequence; default: the model's limit. Memory is committed as tokens arrive.
            prefill_chunk: rows of a prefill step.
            threads: of a rank; default: the cores that only it may use.
            backend: "cpu", or another that the build has.
            backend_options: of the backend, such as {"instruction-set": "avx2"}.
            memory_budget: bytes of a rank; a model that needs more is refused before weights are read.
            check_weights_s: seconds in which a rank compares its weights in host memory with their sums once; 0: never.
            scoring: whether `score` is possible, which takes one more graph.
            max_logprobs: the largest `top` of `score`.
            prompt_embeddings: whether `generate` takes inputs_embeds; prefill steps then have one more input.
            tokenizer: an object with encode and decode, such as transformers' AutoTokenizer returns, for texts in and out;
                default: the directory's tokenizer.json.
            draft_model: the directory of a smaller model with the same vocabulary that drafts tokens for a step to verify.
                Answers stay the same. Functions of callers, beams and logits are not possible beside drafts.
            num_assistant_tokens: that draft_model drafts for a sequence and step; default: 5.
            prompt_lookup_num_tokens: or: the most tokens that are drafted from the text so far.
            launch: where the ranks are. "threads" of this process; processes that "mpirun" starts for this model, and
                starts again when one is lost, while open calls wait; or "inside": mpirun or srun has started this program.
            launcher: for "mpirun": the command before the ranks' own; {ranks} stands for their number.
            start_deadline: for "mpirun": seconds until the ranks serve.
            script: for "inside": "first": rank 0 runs the script, and on the other ranks this line serves rank 0 until it
                ends, then ends the process. "all": every rank runs the script, makes the same calls in the same order from
                one thread, and gets the same results.
            communicator: for "inside": of mpi4py, whose ranks share the model; default: all.
        """
        draft, drafts, looks_up = read_drafting(draft_model, num_assistant_tokens, prompt_lookup_num_tokens)
        self._uses = 0
        self._idle = threading.Condition()
        options: dict[str, Any] = {
            "dtype": None if dtype is None else str(dtype).removeprefix("torch."), "weights": weights, "activations": activations,
            "kv_dtype": kv_dtype, "batch_size": batch_size, "max_seq_len": max_seq_len, "prefill_chunk": prefill_chunk,
            "threads": threads,
            "backend": backend, "backend_options": backend_options or {}, "memory_budget": memory_budget,
            "check_weights_s": check_weights_s, "scoring": scoring, "max_logprobs": max_logprobs, "prompt_embeddings": prompt_embeddings, "draft_model": draft, "drafts": drafts,
            "looks_up": looks_up}
        path = os.fspath(directory)
        if launch == "threads":
            self._open = _lockstep.open_on_threads(path, _lockstep.open_options(**options), 1 if tp is None else tp, log_line)
        elif launch == "mpirun":
            from .job import JobModel  # it imports much

            files = _lockstep.open_files(path, _lockstep.open_options(**options))
            self._open = JobModel(files, {"directory": os.path.abspath(path), "options": options},
                                  1 if tp is None else tp, launcher, start_deadline)
        elif launch == "inside":
            self._open = _open_inside(path, options, tp, script, communicator)
        else:
            raise bad_input("cannot open a model", f"launch={launch!r}", "'threads', 'mpirun' or 'inside'", "choose one")
        self._forked = False
        self._vocabulary = self._open.vocabulary()
        self._tokenizer = Tokenizer(self._open) if tokenizer is None else GivenTokenizer(tokenizer, self._vocabulary)
        _open_models.add(self)
        for warning in self._open.warnings():
            log_line(0, "warning", warning)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("[python] cannot pickle or copy a lockstep.Model: found one with threads and weights, expected plain "
                        "data; open a model in the process that uses it")

    def __repr__(self) -> str:
        facts = self._open.facts()
        state = "" if self._open.is_open() else ", closed"
        return f"<lockstep.Model {self._open.model_type()} tp={facts['ranks']} {facts['dtype']}{state}>"

    def close(self) -> None:
        """Ends open requests with an error of the kind "cancelled", then the ranks. No effect on a closed model."""
        if not self._forked:
            self._open.close()

    @contextmanager
    def _use(self) -> Iterator[_lockstep.OpenModel]:
        """The engine, for a call of it. Raises `lockstep.Error` in a forked child."""
        if self._forked:
            raise Error("[python] cannot use the model: found a forked process, expected the one that opened it; open a "
                        "model here, or start processes with the method spawn", "failed_precondition")
        with self._idle:
            self._uses += 1
        try:
            yield self._open
        finally:
            with self._idle:
                self._uses -= 1
                self._idle.notify_all()

    def _wait_until_unused(self, seconds: float) -> None:
        with self._idle:
            self._idle.wait_for(lambda: self._uses == 0, timeout=seconds)

    @property
    def tokenizer(self) -> Tokenizer | GivenTokenizer:
        """The model's tokenizer, or the one that was given."""
        return self._tokenizer

    @property
    def eos_token_ids(self) -> list[int]:
        """The ids that end an answer, as generation_config.json or config.json says; they may be none."""
        return self._own_config().eos_token_ids

    @property
    def bos_token_id(self) -> int | None:
        """The id that begins a text, where the model has one."""
        return self._own_config().bos_token_id

    def _own_config(self) -> _lockstep.GenerationConfig:
        config: _lockstep.GenerationConfig = self._open.generation_config()
        return config

    @property
    def facts(self) -> dict[str, Any]:
        """Degree, threads, backend, sizes, compiled graphs and the seconds of each phase of the start."""
        with self._use() as engine:
            facts = engine.facts()
        del facts["memory"]
        return facts

    @property
    def counters(self) -> dict[str, int]:
        """Requests and tokens until now; "drafted" and "accepted" tokens once the model is closed."""
        with self._use() as engine:
            return engine.counters()

    def memory(self) -> list[dict[str, int]]:
        """The memory of each rank in bytes: of the start, and of the end once the model is closed.

        "weights" as packed, "states_reserved" and "states_resident" (KV cache), "workspace" (activations), "peak_loading"
        and "peak" of the process, "read_loading", "files" and "read_ahead" of the weight files.
        """
        with self._use() as engine:
            memory: list[dict[str, int]] = engine.facts()["memory"]
        return memory

    def generate(self, input_ids: Any = None, attention_mask: Any = None, *, inputs_embeds: Any = None,
                 generation_config: Any = None,
                 logits_processor: Sequence[LogitsProcessor] | None = None,
                 stopping_criteria: Sequence[StoppingCriterion] | None = None,
                 prefix_allowed_tokens_fn: PrefixAllowedTokens | None = None, streamer: Any = None,
                 negative_prompt_ids: Any = None, negative_prompt_attention_mask: Any = None,
                 assistant_model: Any = None, **options: Any) -> Any:
        """Generates as transformers' ``generate``.

        Args:
            input_ids: [rows, tokens]: a list of lists, which may have several lengths, a numpy array or a torch tensor, of
                integers.
            attention_mask: [rows, tokens] of 0 and 1; 0 hides padding, on the left, on the right or inside. Without it
                arrays are taken to be padded with pad_token_id where that is not an end token, as in transformers.
            inputs_embeds: instead of input_ids: floats [rows, tokens, size], or a list of arrays [tokens, size], that stand
                in for the tokens' embeddings, as the embedding layer returns them, with a family's scale. They are rounded
                to the model's type. Processors and penalties do not see such prompts. The model has to be open with
                prompt_embeddings.
            generation_config: a dict or an object with ``to_dict()``, such as transformers' GenerationConfig.
            logits_processor: functions of (ids int64 [rows, n], scores float32 [rows, vocabulary]) that return scores;
                the rows are those of one prompt: 1, or its beams. Classes of transformers get torch tensors, others numpy
                arrays. Ids have no padding.
            stopping_criteria: functions of (ids int64 [1, n], scores float32 [1, vocabulary]) that return whether the row
                ends.
            prefix_allowed_tokens_fn: a function of (index of the prompt, ids int64 [n]) that returns the ids that may
                follow.
            streamer: an object with ``put(ids)`` and ``end()``, for one row without beams.
            negative_prompt_ids, negative_prompt_attention_mask: with guidance_scale, as input_ids.
            assistant_model: the draft_model that this model was opened with: its directory, or a model of transformers
                from there. Another one is refused.
            **options: every field of GenerationConfig; `lockstep.generation_options` lists them. None keeps the model's.

        Returns:
            [rows · num_return_sequences, prompt and new tokens], padded on the right with pad_token_id, of the kind that
            was passed; with inputs_embeds the new tokens alone; with ``return_dict_in_generate=True`` a `GenerateOutput`.

        Raises:
            TypeError: text instead of ids.
            lockstep.InputError: an empty row, ids out of range, arrays of floats, a mask of another shape, or an option
                with a wrong name or value. It is a ValueError.
            An exception of a callback, unchanged; other requests go on.
        """
        what = "cannot generate"
        if assistant_model is not None:
            check_assistant(assistant_model, called(self._open, "draft_model"))
        config, own = read_config(self._own_config(), generation_config, options)
        self._texts(what, config, True)
        pad_token_id = config.pad_token_id if config.pad_token_id is not None else (config.eos_token_ids or [0])[0]
        hidden = None if pad_token_id in config.eos_token_ids else config.pad_token_id
        if inputs_embeds is None:
            prompts = read_rows(what, input_ids, attention_mask, vocabulary=self._vocabulary, hidden_padding=hidden)
        elif input_ids is None:
            prompts = read_embeddings(what, inputs_embeds, attention_mask, size=self._open.embedding_size())
        else:
            raise bad_input(what, "input_ids and inputs_embeds", "one of them", "omit the other")
        count_padding(what, config, prompts.padded_width())
        negative = None
        if negative_prompt_ids is not None:
            negative = read_rows("cannot take negative_prompt_ids", negative_prompt_ids, negative_prompt_attention_mask,
                                 vocabulary=self._vocabulary, hidden_padding=hidden)
            if len(negative.rows) != len(prompts.rows):
                raise bad_input(what, f"{len(negative.rows)} rows of negative_prompt_ids", str(len(prompts.rows)),
                                "pass one for each prompt")
        if streamer is not None:
            if len(prompts.rows) > 1 or config.num_return_sequences > 1:
                raise bad_input(what, "a streamer for several rows", "one row", "generate one row at a time")
            config.validate_streaming()
        with self._use() as engine:
            pending = self._submit(engine, prompts, negative, config, streams=streamer is not None, special_text=False,
                                   callbacks=(logits_processor, stopping_criteria, prefix_allowed_tokens_fn))
            with ended_on_error(pending):
                if streamer is not None:
                    stream_to(streamer, prompts.given[0], pending)
                answers = finished(what, pending)
        from .outputs import generate_output, sequences_of

        if own.get("return_dict_in_generate"):
            return generate_output(prompts, answers, pad_token_id)
        return sequences_of(prompts, answers, pad_token_id)

    def _submit(self, engine: _lockstep.OpenModel, prompts: TokenRows, negative: TokenRows | None,
                config: _lockstep.GenerationConfig, *, streams: bool, special_text: bool,
                callbacks: tuple[Any, Any, Any], numbers: list[int] | None = None) -> _lockstep.PendingRequests:
        """`numbers`: of the rows in their job, on which their random numbers depend; default: their indices."""
        processors, criteria, prefix = callbacks
        rows = [(row, None if negative is None else negative.rows[number], prompts.masked_inside[number],
                 None if numbers is None else numbers[number],
                 None if prompts.embeddings is None else prompts.embeddings[number])
                for number, row in enumerate(prompts.rows)]
        return engine.submit(rows=rows, config=config, streams=streams, special_text=special_text,
                             process=process_of(processors), is_met=is_met_of(criteria), allowed=allowed_of(prefix))

    def score(self, input_ids: Any, attention_mask: Any = None, *, top: int = 0) -> list[dict[str, Any]]:
        """The log-probability of each given token, given those before it.

        Args:
            input_ids, attention_mask: as for `generate`. Rows are batched, with running requests too.
            top: the number of likeliest tokens to name at each position, at most max_logprobs of the model.

        Returns:
            For each row "ids"; "logprobs", natural logarithms, the first None; "top", by position a list of
            (id, log-probability), likeliest first, the first empty; and "perplexity", None for a row of one token.

        Raises:
            As `generate`.
        """
        texts = read_rows("cannot score", input_ids, attention_mask, vocabulary=self._vocabulary)
        with self._use() as engine:
            rows = engine.submit_texts(texts.rows, top).scores()
        for row in rows:
            known = row["logprobs"][1:]
            row["perplexity"] = float(np.exp(-np.mean(known))) if known else None
        return rows


def _open_inside(directory: str, options: dict[str, Any], tp: int | None, script: str, communicator: Any) -> Any:
    if script not in ("first", "all"):
        raise bad_input("cannot open a model", f"script={script!r}", "'first' or 'all'", "choose one")
    from .inside import own_ranks

    ranks = own_ranks(communicator)
    if tp is not None and tp != ranks.size:
        raise bad_input("cannot open a model", f"tp={tp} on {ranks.size} ranks", "one rank for each part",
                        "leave tp out, or start as many ranks")
    if script == "all":
        return ranks.open_for_all(directory, options)
    if ranks.rank != 0:
        ranks.serve_to_the_end()
    return ranks.open(directory, options)


_open_models: weakref.WeakSet[Model] = weakref.WeakSet()


def _close_all() -> None:
    """Before the interpreter ends, after which the engine's threads could not call Python."""
    for model in list(_open_models):
        try:
            model.close()
        except Error as error:
            log_line(0, "error", str(error))
        model._wait_until_unused(5.0)


def _disown_all() -> None:
    """In a forked child."""
    for model in list(_open_models):
        model._forked = True
        model._open.disown()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_disown_all)
