"""A model for lm-evaluation-harness, under the name "lockstep".

    python -m lockstep.lm_eval run --model lockstep --model_args pretrained=DIR,tp=2 --tasks …

is the harness's own command line, with this model registered. In a program: ``import lockstep.lm_eval``, then
``lm_eval.simple_evaluate(model="lockstep", model_args="pretrained=DIR,tp=2", …)``.

Log-likelihoods are sums of `Model.score`; tokens and windows are those of the harness's model for transformers (HFLM), so
float32 gives its numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from .model import Model

_TEXTS_AT_ONCE = 256  # that wait in the engine, which batches them


def _as_list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


@register_model("lockstep")
class LockstepLM(TemplateLM):
    """Scores and generates with a `lockstep.Model`.

    Args:
        pretrained: the model's directory.
        tp: the tensor-parallel degree.
        dtype: of weights and activations; default: the checkpoint's.
        max_length: tokens of a text; a longer one loses its beginning. Default: the model's limit.
        max_gen_toks: the most new tokens where a task does not say.
        add_bos_token: whether encoded texts begin with the special tokens that the tokenizer adds.
        batch_size, max_batch_size, device: of the harness; the engine batches by itself.
        options: further arguments of `lockstep.Model`.
    """

    def __init__(self, pretrained: str, tp: int = 1, dtype: str | None = None, max_length: int | None = None,
                 max_gen_toks: int = 256, add_bos_token: bool = False, batch_size: Any = None, max_batch_size: Any = None,
                 device: Any = None, **options: Any) -> None:
        super().__init__()
        self._model = Model(pretrained, tp=int(tp), dtype=dtype, max_seq_len=max_length, **options)
        self._name = pretrained
        self.max_length = int(self._model.facts["max_seq_len"])
        self.max_gen_toks = int(max_gen_toks)
        self._add_bos_token = add_bos_token
        self.batch_size = batch_size or self._model.facts["batch_size"]

    def close(self) -> None:
        """Closes the model."""
        self._model.close()

    @property
    def eot_token_id(self) -> int:
        ends = self._model.eos_token_ids
        if not ends:
            raise ValueError(f"[lm_eval] cannot score: found no eos_token_id in generation_config.json of {self._name}, "
                             "expected one; add it to the file")
        return ends[0]

    @property
    def prefix_token_id(self) -> int:
        bos = self._model.bos_token_id
        return self.eot_token_id if bos is None else bos

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        adds = self._add_bos_token if add_special_tokens is None else add_special_tokens
        return self._model.tokenizer.encode(string, add_special_tokens=adds)

    @property
    def tokenizer_name(self) -> str:
        return self._name.replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """What identifies the template: it is the model's own."""
        return self._name if chat_template else None

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return str(self._model.tokenizer.apply_chat_template(chat_history, tokenize=False,
                                                             add_generation_prompt=add_generation_prompt))

    def _scored(self, pairs: Sequence[tuple[list[int], list[int]]]) -> Iterable[tuple[float, bool]]:
        """(sum of log-probabilities, whether each token is the likeliest) of each continuation after its context."""
        for begin in range(0, len(pairs), _TEXTS_AT_ONCE):
            batch = pairs[begin:begin + _TEXTS_AT_ONCE]
            rows = self._model.score([(context + continuation)[-self.max_length:] for context, continuation in batch], top=1)
            for row, (_, continuation) in zip(rows, batch):
                count = min(len(continuation), len(row["ids"]) - 1)  # the first id has nothing before it
                new = range(len(row["ids"]) - count, len(row["ids"]))
                yield (float(sum(row["logprobs"][at] for at in new)),
                       all(row["top"][at][0][0] == row["ids"][at] for at in new))

    def _loglikelihood_tokens(self, requests: Sequence[tuple[Any, list[int], list[int]]], disable_tqdm: bool = False,
                              **_: Any) -> list[tuple[float, bool]]:
        answers = list(self._scored([(context, continuation) for _, context, continuation in requests]))
        for request, answer in zip(requests, answers):
            if (key := request[0]) is not None:
                self.cache_hook.add_partial("loglikelihood", key, answer)
        return answers

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        sums = []
        for (text,) in [request.args for request in requests]:
            windows = get_rolling_token_windows(token_list=self.tok_encode(text), prefix_token=self.prefix_token_id,
                                                max_seq_len=self.max_length - 1, context_len=1)
            pairs = [make_disjoint_window(window) for window in windows]
            sums.append(sum(score for score, _ in self._scored(pairs)))
            self.cache_hook.add_partial("loglikelihood_rolling", (text,), sums[-1])
        return sums

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        texts: list[str] = [""] * len(requests)
        by_options: dict[str, list[int]] = {}  # requests of equal options share a call
        for number, request in enumerate(requests):
            by_options.setdefault(repr(request.args[1]), []).append(number)
        for numbers in by_options.values():
            asked = dict(requests[numbers[0]].args[1])
            until = _as_list(asked.pop("until", None))
            most = int(asked.pop("max_gen_toks", asked.pop("max_new_tokens", self.max_gen_toks)))
            asked.setdefault("do_sample", asked.get("temperature", 0) > 0)
            if not asked["do_sample"]:
                asked.pop("temperature", None)
            prompts = [self.tok_encode(requests[number].args[0])[-(self.max_length - most):] for number in numbers]
            completions = self._model.complete(prompts, max_new_tokens=most, stop_strings=until or None,
                                               progress=not disable_tqdm, **asked)
            for number, completion in zip(numbers, completions):
                texts[number] = completion.text
                self.cache_hook.add_partial("generate_until", requests[number].args, completion.text)
        return texts


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
