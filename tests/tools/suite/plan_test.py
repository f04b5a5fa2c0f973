"""The tables of goals and their command lines."""
import dataclasses
import json
import pathlib
import unittest

import goals
import plan
from goals import Better
from plan import AbsenceKind, Launch, RankShape, Setting

TWO_CORES = Setting(cores=2, ranks=2, threads=1, program="lockstep", large=pathlib.Path("l.json"),
                    small=pathlib.Path("s.json"))
SHAPES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "shapes"


def measurement(whole, id_):
    return next(each for each in whole.measurements if each.id == id_)


def words(whole, id_, side):
    return " ".join(measurement(whole, id_).sides[side].words)


def operands(goal):
    return [word for word in goal.figure.split() if ":" in word] + [shown.operand for shown in goal.beside]


class Tables(unittest.TestCase):
    def test_every_row_names_a_measurement_and_sides_that_it_has(self):
        sides = {each.id: set(each.sides) for each in goals.MEASUREMENTS}
        self.assertEqual(len(sides), len(goals.MEASUREMENTS))
        self.assertEqual(len({goal.id for goal in goals.GOALS}), len(goals.GOALS))
        for goal in goals.GOALS:
            for operand in operands(goal):
                self.assertIn(operand.partition(":")[0], sides[goal.measurement], goal.id)
        self.assertEqual({goal.measurement for goal in goals.GOALS}, set(sides), "a measurement serves no row")

    def test_no_aim_is_easier_than_its_floor(self):
        for goal in goals.GOALS:
            limits = goal.limits
            self.assertTrue(limits.aim >= limits.floor if limits.better is Better.HIGHER
                            else limits.aim <= limits.floor, goal.id)

    def test_the_shapes_are_there(self):
        for name in ("llama-3.2-1b.json", "smollm2-135m.json"):
            self.assertEqual(json.loads((SHAPES / name).read_text())["model_type"], "llama")


class CommandLines(unittest.TestCase):
    def test_several_ranks_are_started_by_mpirun_with_all_cores(self):
        whole = plan.plan_of(TWO_CORES)
        self.assertEqual(words(whole, "ranks", 0),
                         "mpirun -n 2 --bind-to none lockstep bench --random-weights --config l.json --tp 2 "
                         "--threads 1 --prompt-tokens 512 --new-tokens 64 --batch-size 1 --repeats 2 --warmup 1")
        self.assertTrue(words(whole, "ranks", 1).startswith("lockstep bench"))
        self.assertIn("--tp 1 --threads 2", words(whole, "ranks", 1))
        self.assertIn("--tp 1 --threads 1", words(whole, "ranks", 2))
        self.assertIn("--config s.json", words(whole, "small", 0))

    def test_without_mpirun_ranks_are_threads(self):
        whole = plan.plan_of(dataclasses.replace(TWO_CORES, launch=Launch(threads=True),
                                                 collectives=pathlib.Path("c")))
        self.assertTrue(words(whole, "ranks", 0).startswith("lockstep bench"))
        self.assertIn("--tp 2 --threads 1", words(whole, "ranks", 0))
        self.assertTrue(words(whole, "ranks", 0).endswith("--launch threads"))
        self.assertIn("mpirun", measurement(whole, "all-reduce").absence.reason)

    def test_a_launch_template_gets_the_number_of_ranks(self):
        whole = plan.plan_of(dataclasses.replace(TWO_CORES, launch=Launch(("srun", "-n", "{ranks}"))))
        self.assertTrue(words(whole, "ranks", 0).startswith("srun -n 2 lockstep bench"))

    def test_pairs_are_repetitions_of_one_program_or_rounds_of_several(self):
        whole = plan.plan_of(dataclasses.replace(TWO_CORES, pairs=3, compare=("python3", "compare.py")))
        self.assertIn("--repeats 12", words(whole, "decode", 0))
        self.assertIn("--repeats 3", words(whole, "prefill", 0))
        rounds = {each.id: each.rounds for each in whole.measurements}
        self.assertEqual((rounds["decode"], rounds["ranks"], rounds["rivals-l1b"]), (1, 3, 1))
        self.assertEqual(measurement(whole, "rivals-l1b").deadline_s, 300 * 4 * 3)

    def test_limits_of_an_even_share_follow_the_ranks(self):
        row = next(goal for goal in plan.plan_of(dataclasses.replace(TWO_CORES, ranks=4)).goals
                   if goal.id == "start-bytes")
        self.assertAlmostEqual(row.limits.floor, 1.1 / 4)
        self.assertIn("4 ranks of 1 thread(s)", row.name)


class Machines(unittest.TestCase):
    def test_cores_are_shared_between_ranks_on_any_machine(self):
        self.assertEqual(plan.rank_shape(1, None), RankShape(1, 1))
        self.assertEqual(plan.rank_shape(2, None), RankShape(2, 1))
        self.assertEqual(plan.rank_shape(64, None), RankShape(2, 32))
        self.assertEqual(plan.rank_shape(64, 8), RankShape(8, 8))
        self.assertEqual(plan.rank_shape(2, 3), RankShape(3, 1))

    def test_one_core_has_no_rows_about_ranks(self):
        whole = plan.plan_of(dataclasses.replace(TWO_CORES, cores=1, ranks=1))
        self.assertIn("found one core", measurement(whole, "ranks").absence.reason)
        self.assertIsNone(measurement(whole, "decode").absence)

    def test_what_can_be_given_is_missing_with_the_option_that_gives_it(self):
        whole = plan.plan_of(TWO_CORES)
        for id_, option in (("start", "--checkpoint"), ("rivals-small", "--rival-scripts"),
                            ("all-reduce", "collective_benchmark")):
            absence = measurement(whole, id_).absence
            self.assertEqual(absence.kind, AbsenceKind.MISSING)
            self.assertIn(option, absence.reason)


class Only(unittest.TestCase):
    def test_takes_rows_by_name_or_by_their_beginning_with_what_they_need(self):
        few = plan.only(plan.plan_of(TWO_CORES), ["ranks", "batch-8"])
        self.assertEqual([goal.id for goal in few.goals],
                         ["ranks-decode", "ranks-prefill", "ranks-speed-up", "batch-8"])
        self.assertEqual([each.id for each in few.measurements], ["ranks", "batch-8"])

    def test_names_the_rows_that_there_are(self):
        with self.assertRaisesRegex(plan.UnknownRow, "found speed, expected one of decode, ranks-decode"):
            plan.only(plan.plan_of(TWO_CORES), ["speed"])
