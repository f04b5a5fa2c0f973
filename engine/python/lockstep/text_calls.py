"""Calls of a model with texts: streams, completions, chats."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _lockstep
from .arrays import TokenRows, read_rows
from .callbacks import LogitsProcessor, PrefixAllowedTokens, StoppingCriterion
from .calls import finished, progress_bar, show_progress
from .config import read_config
from .given_tokenizer import AnswerTexts, GivenTokenizer, refuse_stop_strings
from .stream import TokenStream, ended_on_error
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from .outputs import Completion
    from .sampling_params import SamplingParams

Message = dict[str, Any]
Prompt = str | Sequence[int] | np.ndarray


class TextCalls:
    """Methods of `lockstep.Model`, which has these attributes."""

    _open: Any  # a _lockstep.OpenModel, or what stands in for one
    _vocabulary: int
    _tokenizer: Tokenizer | GivenTokenizer

    def _use(self) -> AbstractContextManager[_lockstep.OpenModel]:
        raise NotImplementedError

    def _submit(self, engine: _lockstep.OpenModel, prompts: TokenRows, negative: TokenRows | None,
                config: _lockstep.GenerationConfig, *, streams: bool, special_text: bool,
                callbacks: tuple[Any, Any, Any], numbers: list[int] | None = None) -> _lockstep.PendingRequests:
        raise NotImplementedError

    def _prompt_rows(self, what: str, prompts: Sequence[Prompt]) -> TokenRows:
        ids = [self._tokenizer.encode(prompt) if isinstance(prompt, str) else prompt for prompt in prompts]
        return read_rows(what, ids, vocabulary=self._vocabulary)

    def _text_config(self, params: SamplingParams | None, generation_config: Any,
                     options: dict[str, Any]) -> _lockstep.GenerationConfig:
        base = self._open.generation_config()
        if params is not None:
            options = params.generation_options(base.eos_token_ids) | options
        return read_config(base, generation_config, options)[0]

    def _texts(self, what: str, config: _lockstep.GenerationConfig, skip_special_tokens: bool) -> AnswerTexts | None:
        """The texts of answers in a given tokenizer; None: the engine's."""
        if not isinstance(self._tokenizer, GivenTokenizer):
            return None
        refuse_stop_strings(what, bool(config.stop_strings))
        return AnswerTexts(self._tokenizer, skip_special_tokens, config.eos_token_ids)

    def stream(self, prompt: Prompt, sampling_params: SamplingParams | None = None, *, generation_config: Any = None,
               logits_processor: Sequence[LogitsProcessor] | None = None,
               stopping_criteria: Sequence[StoppingCriterion] | None = None,
               prefix_allowed_tokens_fn: PrefixAllowedTokens | None = None, skip_special_tokens: bool = True,
               **options: Any) -> TokenStream:
        """The tokens of one prompt as they are made, for ``for`` and for ``async for``.

        `prompt` is text or one row of ids; the other arguments and the errors are those of `generate`. Beam search has no
        tokens before its end, so it is refused.
        """
        config = self._text_config(sampling_params, generation_config, options)
        config.validate_streaming()
        prompts = self._prompt_rows("cannot stream", [prompt])
        special = not (skip_special_tokens if sampling_params is None else sampling_params.skip_special_tokens)
        texts = self._texts("cannot stream", config, not special)
        with self._use() as engine:
            return TokenStream(self._use, self._submit(
                engine, prompts, None, config, streams=True, special_text=special,
                callbacks=(logits_processor, stopping_criteria, prefix_allowed_tokens_fn)), texts)

    def complete(self, prompts: Prompt | Sequence[Prompt], sampling_params: SamplingParams | None = None, *,
                 generation_config: Any = None, logits_processor: Sequence[LogitsProcessor] | None = None,
                 stopping_criteria: Sequence[StoppingCriterion] | None = None,
                 prefix_allowed_tokens_fn: PrefixAllowedTokens | None = None, skip_special_tokens: bool = True,
                 progress: bool = True, journal: str | os.PathLike[str] | None = None,
                 **options: Any) -> list[Completion]:
        """Completes many prompts, in order; as vLLM's ``LLM.generate``.

        Args:
            prompts: a text, or a list whose items are texts or rows of ids.
            sampling_params: options under vLLM's names.
            skip_special_tokens: whether texts leave out special tokens.
            progress: whether to show a progress bar on a terminal, where tqdm is installed.
            journal: a file that keeps each finished answer. The same call with the same file, after an end of any kind,
                takes those answers and computes the others; the results are the same. A file of another call is refused.

        The other arguments and the errors are those of `generate`.
        """
        listed = [prompts] if isinstance(prompts, str) else list(prompts)
        config = self._text_config(sampling_params, generation_config, options)
        rows = self._prompt_rows("cannot complete", listed)
        special = not (skip_special_tokens if sampling_params is None else sampling_params.skip_special_tokens)
        texts = self._texts("cannot complete", config, not special)
        callbacks = (logits_processor, stopping_criteria, prefix_allowed_tokens_fn)
        with self._use() as engine:
            if journal is None:
                answers = self._complete(engine, rows, config, special, callbacks, progress)
            else:
                answers = self._complete_with_journal(engine, rows, config, special, callbacks, progress, journal)
        if texts is not None:
            answers = [texts.decoded(of_one) for of_one in answers]
        from .outputs import Completion

        return [Completion(prompt if isinstance(prompt, str) else None, row.tolist(), outputs)
                for prompt, row, outputs in zip(listed, rows.rows, answers)]

    def _complete(self, engine: _lockstep.OpenModel, rows: TokenRows, config: _lockstep.GenerationConfig, special: bool,
                  callbacks: tuple[Any, Any, Any], progress: bool) -> list[list[Any]]:
        pending = self._submit(engine, rows, None, config, streams=False, special_text=special, callbacks=callbacks)
        with ended_on_error(pending):
            if progress:
                show_progress(pending)
            return finished("cannot complete", pending)

    def _complete_with_journal(self, engine: _lockstep.OpenModel, rows: TokenRows, config: _lockstep.GenerationConfig,
                               special: bool, callbacks: tuple[Any, Any, Any], progress: bool,
                               journal: str | os.PathLike[str]) -> list[list[Any]]:
        from .journal import complete_with_journal, facts_of, refuse_callbacks

        refuse_callbacks(callbacks, config)

        def submit(numbers: list[int]) -> _lockstep.PendingRequests:
            return self._submit(engine, rows.only(numbers), None, config, streams=False, special_text=special,
                                callbacks=callbacks, numbers=numbers)

        with progress_bar(len(rows.rows), progress) as move:
            return complete_with_journal(journal, facts_of(engine, rows, config, special), len(rows.rows), submit,
                                         move or (lambda done: None))

    def chat(self, messages: Sequence[Message] | Sequence[Sequence[Message]],
             sampling_params: SamplingParams | None = None, *, tools: list[Any] | None = None,
             chat_template_kwargs: dict[str, Any] | None = None, **options: Any) -> list[Completion]:
        """Answers a conversation, or each of several, in the model's chat template; as vLLM's ``LLM.chat``.

        `tools` and `chat_template_kwargs` go to the template; `options` are the other arguments of `complete`.
        """
        conversations: Sequence[Any] = [messages] if messages and isinstance(messages[0], dict) else messages
        ids = [self._tokenizer.apply_chat_template(conversation, add_generation_prompt=True, tools=tools,
                                                   **(chat_template_kwargs or {})) for conversation in conversations]
        return self.complete(ids, sampling_params, **options)
