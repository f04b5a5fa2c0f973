"""What an open model shows of itself: graphs, plans, the last steps."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._lockstep import OpenModel
    from .graph import Graph
    from .plan import Plan
    from .timeline import Timeline


class Inspection:
    """Methods of `lockstep.Model`."""

    def _use(self) -> AbstractContextManager[OpenModel]:
        raise NotImplementedError

    def graph(self, name: str = "decode", rank: int = 0, *, before_passes: bool = False) -> Graph:
        """The graph that `rank` runs in a step: "prefill", "decode", or "score" where scoring is on.

        Raises `lockstep.InputError` for another name or rank.
        """
        from .graph import graph_of

        with self._use() as engine:
            return graph_of(engine, name, rank, before_passes)

    def plan(self, tp: int | Iterable[int] = range(1, 9), *, prompt_tokens: int | None = None, new_tokens: int = 64,
             batch_size: int | None = None, max_seq_len: int | None = None, memory_budget: int | None = None,
             measure: bool = False, probe: str | os.PathLike[str] | None = None, **machine: float) -> Plan:
        """What each degree needs and how fast it should be, as ``lockstep plan``, from config.json alone.

        Args:
            tp: the degrees; speedups are relative to degree 1.
            prompt_tokens, new_tokens: of each sequence; default of the first: 512, or the space in a slot.
            batch_size, max_seq_len: of the plan; default: those of this model.
            memory_budget: bytes of a rank.
            measure: measure this machine's limits, which takes seconds.
            probe: a file of ``lockstep bench --json``, whose machine is planned for.
            **machine: numbers that replace measured or assumed ones: "bandwidth" and "flops" of a rank, "host_bandwidth"
                and "host_flops" of a host (GB/s, GFLOP/s), "link_latency_us", "link_bandwidth" (GB/s), "of_bandwidth" and
                "of_peak" (the share that kernels reach).

        Raises `lockstep.InputError` for sizes that do not fit together and for unknown names.
        """
        from .plan import plan_of

        with self._use() as engine:
            return plan_of(engine, tp, prompt_tokens, new_tokens, batch_size, max_seq_len, memory_budget, measure, probe,
                           machine)

    def timeline(self) -> Timeline:
        """The last steps, the slots and the ranks. `Answer.token_times` has the times of one answer's tokens."""
        from .timeline import timeline_of

        with self._use() as engine:
            return timeline_of(engine)
