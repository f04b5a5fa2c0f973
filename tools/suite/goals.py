"""The measurements of the suite and the goals of its figures, as two tables.

    MEASUREMENTS   programs that run in turn   "ranks"          ranks whole single   ranks whole single   …
    GOALS          one report line each        "ranks-decode"   ranks:/decode/… ÷ whole:/decode/…   one pair per round
                                               "prefill-512"    whole:/repetitions/*/of_peak        … per repetition

A figure is a product or quotient of numbers that the sides report. `side:pointer` is the number at a JSON pointer in
the result of a side; in a pointer, `*` means every element of a list, `[key=number]` the element whose `key` is that
number. Lists are evaluated element by element.
"""
from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Ranks(enum.Enum):
    """The ranks of a program."""
    WHOLE = "one rank with every core"
    GROUP = "the ranks of the rows about several"
    SINGLE = "one rank of those, alone"


class Model(enum.Enum):
    LARGE = "Llama-3.2-1B, random weights"
    SMALL = "SmolLM2-135M, random weights"
    CHECKPOINT = "the files of --checkpoint"


class Repeats(enum.Enum):
    """Repetitions in one program."""
    ONCE = "one"
    SIDE = "those of a program that is one of several sides"
    PAIRS = "one for each pair: every repetition lies between two probes"
    MANY_PAIRS = "four times as many: a shared machine changes its speed within one repetition"


class Files(enum.Enum):
    """The page cache of the checkpoint when a program starts."""
    AS_THEY_ARE = "untouched"
    WARM = "read before"
    COLD = "dropped"


@dataclass(frozen=True)
class Run:
    """A `lockstep bench`."""
    prompt: int
    created: int
    ranks: Ranks = Ranks.WHOLE
    model: Model = Model.LARGE
    batch: int = 1
    repeats: Repeats = Repeats.SIDE
    warmup: int = 1
    more: tuple[str, ...] = ()
    files: Files = Files.AS_THEY_ARE


@dataclass(frozen=True)
class Collectives:
    """`collective_benchmark`: Lockstep's collectives and MPI's."""


@dataclass(frozen=True)
class Rivals:
    """`compare.py`: other engines on one shape."""
    name: str
    model: Model


Program = Run | Collectives | Rivals


@dataclass(frozen=True)
class Measurement:
    """Programs that run in turn: every side once, then every side again, once for each pair."""
    id: str
    sides: dict[str, Program]


MEASUREMENTS = (
    Measurement("decode", {"whole": Run(128, 64, repeats=Repeats.MANY_PAIRS)}),
    Measurement("ranks", {"ranks": Run(512, 64, Ranks.GROUP),
                          "whole": Run(512, 64),
                          "single": Run(512, 64, Ranks.SINGLE)}),
    Measurement("prefill", {"whole": Run(512, 2, repeats=Repeats.PAIRS)}),
    # Seconds of work, so that one-time costs are negligible.
    Measurement("prefill-long", {
        "chunks": Run(8192, 2, repeats=Repeats.ONCE, warmup=0, more=("--prefill-chunk", "512")),
        "once": Run(8192, 2, repeats=Repeats.ONCE, warmup=0, more=("--prefill-chunk", "8192"))}),
    Measurement("all-reduce", {"ranks": Collectives()}),
    Measurement("served", {"whole": Run(128, 25, repeats=Repeats.MANY_PAIRS, more=("--replay",))}),
    Measurement("kv", {"grown": Run(128, 25, batch=8, more=("--max-seq-len", "131072", "--kv", "fresh")),
                       "kept": Run(128, 25, batch=8, more=("--max-seq-len", "131072", "--kv", "kept"))}),
    Measurement("start", {
        "warm": Run(128, 2, Ranks.GROUP, Model.CHECKPOINT, repeats=Repeats.ONCE, warmup=0, files=Files.WARM),
        "cold": Run(128, 2, Ranks.GROUP, Model.CHECKPOINT, repeats=Repeats.ONCE, warmup=0, files=Files.COLD)}),
    Measurement("batch-8", {"whole": Run(128, 33, batch=8, repeats=Repeats.MANY_PAIRS)}),
    # With 32 sequences prompts take most of the time, and arithmetic is the limit, which is steady.
    Measurement("batch-32", {"whole": Run(128, 64, batch=32, repeats=Repeats.PAIRS)}),
    Measurement("small", {"ranks": Run(128, 64, Ranks.GROUP, Model.SMALL, repeats=Repeats.MANY_PAIRS)}),
    Measurement("int8", {"int8": Run(512, 64, more=("--weights", "int8")), "bf16": Run(512, 64)}),
    Measurement("numerics", {"whole": Run(256, 25, repeats=Repeats.MANY_PAIRS, more=("--invariance-cost",))}),
    Measurement("rivals-l1b", {"compare": Rivals("l1b", Model.LARGE)}),
    Measurement("rivals-small", {"compare": Rivals("small", Model.SMALL)}),
)


class Better(enum.Enum):
    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True)
class Limits:
    """The aim and the floor of a figure."""
    better: Better
    floor: float
    aim: float
    of_even_share: bool = False  # times 1 / ranks


def at_least(floor: float, aim: float) -> Limits:
    return Limits(Better.HIGHER, floor, aim)


def at_most(floor: float, aim: float) -> Limits:
    return Limits(Better.LOWER, floor, aim)


@dataclass(frozen=True)
class Shown:
    """An additional number next to a figure."""
    name: str
    operand: str
    unit: str
    scale: float = 1.0


def decode_speed(side: str) -> Shown:
    return Shown(f"{side} decode", f"{side}:/decode/tokens_per_s", "tokens/s")


def prefill_speed(side: str) -> Shown:
    return Shown(f"{side} prefill", f"{side}:/prefill/tokens_per_s", "tokens/s")


def read_probe(side: str) -> Shown:
    return Shown(f"{side} read probe", f"{side}:/probe/read_bytes_per_s", "GB/s", 1e-9)


def dot_probe(side: str) -> Shown:
    return Shown(f"{side} dot probe", f"{side}:/probe/flops_per_s", "GFLOP/s", 1e-9)


@dataclass(frozen=True)
class Goal:
    """A line of the report. In `name`, {group} is "2 ranks of 1 thread(s)", {cores} and {threads} are counts."""
    id: str  # the name for --only
    measurement: str
    limits: Limits
    figure: str
    name: str
    beside: tuple[Shown, ...] = field(default=())


def _all_reduce(kib: int) -> Goal:
    size = f"ranks:/sizes/[bytes={kib * 1024}]"
    return Goal(f"all-reduce-{kib}k", "all-reduce", at_most(0.5, 0.3), f"{size}/ratio_p50/median",
                f"all-reduce of {kib} KiB between reads of memory: time over MPI_Allreduce's",
                (Shown("ours", f"{size}/ours_p50_us", "us"), Shown("MPI_Allreduce", f"{size}/mpi_p50_us", "us")))


def _start(side: str, place: str) -> Goal:
    return Goal(f"start-{side}", "start", at_most(1.5, 1.15),
                f"{side}:/first_token/cold_s ÷ {side}:/suite/files/read_s",
                f"exec to first token, {side} cache: over reading the files once from {place}",
                (Shown("first token", f"{side}:/first_token/cold_s", "s"),
                 Shown("reading once", f"{side}:/suite/files/read_s", "s")))


def _batch(batch: int) -> Goal:
    return Goal(f"batch-{batch}", f"batch-{batch}", at_least(0.80, 0.90), "whole:/repetitions/*/decode_of_limit",
                f"decode of {batch} sequences over what bandwidth and FLOPs allow",
                (decode_speed("whole"), read_probe("whole")))


def _invariance(phase: str) -> Goal:
    return Goal(f"invariance-{phase}", "numerics", at_most(0.02, 0.02), f"whole:/repetitions/*/invariance_cost/{phase}",
                f"the same answer however it is cut: its cost in {phase}, part of the time without")


def _rivals(shape: str, model: str) -> tuple[Goal, ...]:
    rows = (("decode", "decode"), ("prefill-512", "prefill 512"), ("prefill-2048", "prefill 2048"),
            ("decode-8", "decode of 8 sequences"))
    return tuple(Goal(f"rivals-{shape}-{row}", f"rivals-{shape}", at_least(1.00, 1.05),
                      f"compare:/rows/{row}/ratios/*", f"{model}, {what}: over the fastest rival",
                      (Shown("ours", f"compare:/rows/{row}/ours", "tokens/s"),
                       Shown("fastest rival", f"compare:/rows/{row}/fastest", "tokens/s")))
                 for row, what in rows)


GOALS = (
    Goal("decode", "decode", at_least(0.90, 0.96), "whole:/repetitions/*/of_bandwidth",
         "decode, bf16, 128 + 64 tokens: bytes/s over the read probe",
         (decode_speed("whole"), read_probe("whole"))),
    Goal("ranks-decode", "ranks", at_least(0.97, 1.00), "ranks:/decode/tokens_per_s ÷ whole:/decode/tokens_per_s",
         "{group} over 1 rank of {cores}: decode",
         (decode_speed("ranks"), decode_speed("whole"), read_probe("ranks"), read_probe("whole"))),
    Goal("ranks-prefill", "ranks", at_least(0.97, 1.00), "ranks:/prefill/tokens_per_s ÷ whole:/prefill/tokens_per_s",
         "{group} over 1 rank of {cores}: prefill 512",
         (prefill_speed("ranks"), prefill_speed("whole"))),
    Goal("ranks-speed-up", "ranks", at_least(0.95, 0.985),
         "ranks:/decode/tokens_per_s × single:/probe/read_bytes_per_s"
         " ÷ single:/decode/tokens_per_s ÷ ranks:/probe/read_bytes_per_s",
         "{group} over 1 rank of {threads}: speed-up over the read probe's own",
         (decode_speed("ranks"), decode_speed("single"), read_probe("ranks"), read_probe("single"))),
    Goal("prefill-512", "prefill", at_least(0.85, 0.92), "whole:/repetitions/*/of_peak",
         "prefill 512, bf16: FLOP/s over the dot probe",
         (prefill_speed("whole"), dot_probe("whole"))),
    Goal("prefill-8192", "prefill-long", at_least(0.72, 0.84), "chunks:/repetitions/*/of_peak",
         "prefill 8192 in chunks of 512: FLOP/s over the dot probe",
         (prefill_speed("chunks"), dot_probe("chunks"))),
    Goal("prefill-chunks", "prefill-long", at_least(0.97, 0.97),
         "chunks:/prefill/tokens_per_s ÷ once:/prefill/tokens_per_s",
         "prefill 8192 in chunks of 512 over one shot",
         (prefill_speed("chunks"), prefill_speed("once"))),
    *(_all_reduce(kib) for kib in (4, 8, 16, 64, 256)),
    # Prefill generates the first of 25 tokens; decode steps generate the other 24.
    Goal("served", "served", at_least(0.985, 0.995),
         "whole:/repetitions/*/decode_tokens_per_s × whole:/repetitions/*/replay/decode_s ÷ 24",
         "served path over a bare replay of the same executables: decode",
         (decode_speed("whole"),)),
    Goal("kv-grown", "kv", at_least(0.98, 0.995), "grown:/decode/tokens_per_s ÷ kept:/decode/tokens_per_s",
         "KV committed as it grows over committed before, 8 slots of 128k reserved: decode",
         (decode_speed("grown"), decode_speed("kept"))),
    _start("warm", "the page cache"),
    _start("cold", "the disk"),
    Goal("start-bytes", "start", Limits(Better.LOWER, 1.1, 1.1, of_even_share=True),
         "warm:/ranks/*/memory/bytes_read_loading ÷ warm:/ranks/*/memory/bytes_of_files",
         "bytes that a rank reads of the files of weights, {group}: part of all"),
    Goal("start-seconds", "start", at_most(2.0, 2.0), "warm:/first_token/cold_s",
         "exec to first token, {group}, warm cache, seconds (the aim is for Llama-3.2-1B)"),
    _batch(8),
    _batch(32),
    Goal("small-decode", "small", at_least(0.78, 0.88), "ranks:/repetitions/*/of_bandwidth",
         "small model (SmolLM2-135M), {group}: decode over the read probe",
         (decode_speed("ranks"), read_probe("ranks"))),
    Goal("int8-decode", "int8", at_least(0.88, 0.95), "int8:/repetitions/*/of_bandwidth",
         "int8 weights: decode, bytes/s over the read probe",
         (decode_speed("int8"), read_probe("int8"))),
    Goal("int8-prefill", "int8", at_least(1.3, 1.8), "int8:/prefill/tokens_per_s ÷ bf16:/prefill/tokens_per_s",
         "int8 weights: prefill 512 over own bf16 prefill",
         (prefill_speed("int8"), prefill_speed("bf16"))),
    _invariance("decode"),
    _invariance("prefill"),
    *_rivals("l1b", "Llama-3.2-1B"),
    *_rivals("small", "SmolLM2-135M"),
)
