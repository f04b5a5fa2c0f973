"""Applies the tables of goals.py to one machine: command lines, deadlines, and reasons for missing rows. Pure.

    Setting ─┬─► GOALS ──────────► Goal, names and limits filled in
             └─► MEASUREMENTS ───► PlannedMeasurement: sides with their command lines, or an Absence
"""
from __future__ import annotations

import dataclasses
import enum
import pathlib
from dataclasses import dataclass

from goals import (GOALS, MEASUREMENTS, Collectives, Files, Goal, Measurement, Model, Program, Ranks, Repeats, Rivals,
                   Run)

MANY = 4  # factor of repetitions for Repeats.MANY_PAIRS


@dataclass(frozen=True)
class Launch:
    """What starts several ranks."""
    words: tuple[str, ...] = ()  # {ranks} is their number; empty: mpirun
    threads: bool = False        # ranks are threads of one process

    def before(self, ranks: int) -> list[str]:
        """The words before a program for `ranks` ranks."""
        if ranks == 1 or self.threads:
            return []
        if self.words:
            return [word.replace("{ranks}", str(ranks)) for word in self.words]
        # With binding to cores, a rank of several threads would have one core.
        return ["mpirun", "-n", str(ranks), "--bind-to", "none"]


@dataclass(frozen=True)
class Setting:
    """The machine and the settings of a suite."""
    cores: int    # available to this process
    ranks: int    # of the rows about several ranks; 1: there are none
    threads: int  # of each of those ranks
    program: str
    large: pathlib.Path  # config.json of the two shapes
    small: pathlib.Path
    launch: Launch = Launch()
    checkpoint: pathlib.Path | None = None
    shared: tuple[str, ...] = ()  # options of every run of bench
    pairs: int = 5
    repeats: int = 2  # for a program that is one of several sides
    deadline_s: float = 300.0
    collectives: pathlib.Path | None = None  # the program that compares collectives with MPI's
    compare: tuple[str, ...] = ()            # the program that runs rivals, with its options; empty: not found

    @property
    def group(self) -> str:
        return f"{self.ranks} ranks of {self.threads} thread(s)"


@dataclass(frozen=True)
class RankShape:
    ranks: int
    threads: int


def rank_shape(cores: int, ranks: int | None) -> RankShape:
    """Divides `cores` for rows about several ranks: two ranks by default."""
    count = ranks if ranks is not None else min(cores, 2)
    return RankShape(count, max(1, cores // count))


class AbsenceKind(enum.Enum):
    MISSING = "can be installed or given"
    NOT_AVAILABLE = "cannot be had here"


@dataclass(frozen=True)
class Absence:
    """Why something is not measured."""
    kind: AbsenceKind
    reason: str


@dataclass(frozen=True)
class Side:
    """One of the programs that take turns."""
    name: str
    words: list[str]  # its command line, without the file for its result
    files: Files = Files.AS_THEY_ARE


@dataclass(frozen=True)
class PlannedMeasurement:
    id: str
    sides: list[Side]
    rounds: int = 1
    deadline_s: float = 300.0           # of each program
    checkpoint: pathlib.Path | None = None  # the subject of Side.files
    absence: Absence | None = None      # set: nothing runs


@dataclass(frozen=True)
class Plan:
    measurements: list[PlannedMeasurement]
    goals: list[Goal]


def model_words(setting: Setting, model: Model) -> list[str]:
    if model is Model.CHECKPOINT:
        return ["--model", str(setting.checkpoint)]
    return ["--random-weights", "--config", str(config_of(setting, model))]


def config_of(setting: Setting, model: Model) -> pathlib.Path:
    return setting.large if model is Model.LARGE else setting.small


def repeats_of(setting: Setting, repeats: Repeats) -> int:
    return {Repeats.ONCE: 1, Repeats.SIDE: setting.repeats, Repeats.PAIRS: setting.pairs,
            Repeats.MANY_PAIRS: setting.pairs * MANY}[repeats]


def bench_words(setting: Setting, run: Run) -> list[str]:
    ranks = setting.ranks if run.ranks is Ranks.GROUP else 1
    threads = setting.cores if run.ranks is Ranks.WHOLE else setting.threads
    words = [*setting.launch.before(ranks), setting.program, "bench", *model_words(setting, run.model),
             "--tp", str(ranks), "--threads", str(threads), "--prompt-tokens", str(run.prompt),
             "--new-tokens", str(run.created), "--batch-size", str(run.batch),
             "--repeats", str(repeats_of(setting, run.repeats)), "--warmup", str(run.warmup), *run.more]
    if ranks == 1 or setting.launch.threads:
        words += ["--launch", "threads"]
    return words + list(setting.shared)


def rivals_words(setting: Setting, rivals: Rivals) -> list[str]:
    return [*setting.compare, "--program", setting.program, "--config", str(config_of(setting, rivals.model)),
            "--name", rivals.name, "--threads", str(setting.cores), "--pairs", str(setting.pairs)]


def words_of(setting: Setting, program: Program) -> list[str]:
    if isinstance(program, Run):
        return bench_words(setting, program)
    if isinstance(program, Rivals):
        return rivals_words(setting, program)
    return [*setting.launch.before(setting.ranks), str(setting.collectives)]


def absence_of(setting: Setting, programs: list[Program]) -> Absence | None:
    """The first missing requirement of a measurement's programs."""
    runs = [program for program in programs if isinstance(program, Run)]
    has_collectives = any(isinstance(program, Collectives) for program in programs)
    needs_group = has_collectives or any(run.ranks is Ranks.GROUP for run in runs)
    if setting.ranks < 2 and needs_group:
        return Absence(AbsenceKind.NOT_AVAILABLE, "needs two ranks: found one core, expected at least two")
    if has_collectives and setting.collectives is None:
        return Absence(AbsenceKind.MISSING,
                       "needs the program collective_benchmark beside lockstep: build that target")
    if has_collectives and setting.launch.threads:
        return Absence(AbsenceKind.NOT_AVAILABLE, "needs mpirun: found none")
    if setting.checkpoint is None and any(run.model is Model.CHECKPOINT for run in runs):
        return Absence(AbsenceKind.MISSING, "needs a checkpoint on disk: --checkpoint DIR (tools/compare/make_model.py "
                                            "writes one of any shape)")
    if not setting.compare and any(isinstance(program, Rivals) for program in programs):
        return Absence(AbsenceKind.MISSING, "found no scripts that run rivals: --rival-scripts DIR (tools/compare)")
    return None


def planned(setting: Setting, measurement: Measurement) -> PlannedMeasurement:
    programs = list(measurement.sides.values())
    absence = absence_of(setting, programs)
    if absence:
        return PlannedMeasurement(measurement.id, [], absence=absence)
    sides = [Side(name, words_of(setting, program), program.files if isinstance(program, Run) else Files.AS_THEY_ARE)
             for name, program in measurement.sides.items()]
    one_run = len(sides) == 1 and not isinstance(programs[0], Collectives)  # its repetitions are the pairs
    runs_rivals = isinstance(programs[0], Rivals)  # one program runs all rivals, all rows and all pairs
    return PlannedMeasurement(measurement.id, sides, 1 if one_run else setting.pairs,
                              setting.deadline_s * (4 * setting.pairs if runs_rivals else 1), setting.checkpoint)


def filled_in(setting: Setting, goal: Goal) -> Goal:
    share = 1 / setting.ranks if goal.limits.of_even_share else 1
    limits = dataclasses.replace(goal.limits, floor=goal.limits.floor * share, aim=goal.limits.aim * share)
    name = goal.name.format(group=setting.group, cores=setting.cores, threads=setting.threads)
    return dataclasses.replace(goal, name=name, limits=limits)


def plan_of(setting: Setting) -> Plan:
    return Plan([planned(setting, measurement) for measurement in MEASUREMENTS],
                [filled_in(setting, goal) for goal in GOALS])


class UnknownRow(Exception):
    """A name that matches no row; the text lists the rows."""


def only(plan: Plan, names: list[str]) -> Plan:
    """The rows whose ids are in `names` or begin with one of them and a dash, and their measurements. Raises
    UnknownRow."""
    def is_named(goal: Goal, name: str) -> bool:
        return goal.id == name or goal.id.startswith(name + "-")

    for name in names:
        if not any(is_named(goal, name) for goal in plan.goals):
            known = ", ".join(goal.id for goal in plan.goals)
            raise UnknownRow(f"found {name}, expected one of {known}, or what several of them begin with")
    goals = [goal for goal in plan.goals if any(is_named(goal, name) for name in names)]
    needed = {goal.measurement for goal in goals}
    return Plan([each for each in plan.measurements if each.id in needed], goals)
