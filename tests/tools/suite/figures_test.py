"""Formulas, spreads, verdicts and rows, with made-up results."""
import unittest

import figures
from figures import ChildRecord, ChildStatus, NoFigure, Verdict, figure_values
from goals import Goal, Shown, at_least, at_most
from plan import Absence, AbsenceKind, PlannedMeasurement, Side

ROUND = {"a": {"speed": 12, "list": [{"x": 1, "y": 10}, {"x": 2, "y": 20}],
               "sizes": [{"n": 4, "t": 7}, {"n": 8, "t": 9}]},
         "b": {"speed": 8, "none": 0, "text": "12", "true": True}}


class Formulas(unittest.TestCase):
    def test_multiply_and_divide_what_sides_reported(self):
        self.assertEqual(figure_values("a:/speed ÷ b:/speed", ROUND), [1.5])
        self.assertEqual(figure_values("a:/speed × b:/speed ÷ a:/speed ÷ 2", ROUND), [4.0])

    def test_take_lists_element_by_element(self):
        self.assertEqual(figure_values("a:/list/*/y ÷ a:/list/*/x", ROUND), [10.0, 10.0])
        self.assertEqual(figure_values("a:/list/*/y × b:/speed", ROUND), [80.0, 160.0])
        self.assertEqual(figure_values("b:/speed × a:/list/*/y", ROUND), [80.0, 160.0])
        with self.assertRaisesRegex(NoFigure, "found 3 values"):
            figure_values("a:/list/*/y × c:/three/*/y", {**ROUND, "c": {"three": [{"y": 1}] * 3}})

    def test_choose_an_element_by_a_number_in_it(self):
        self.assertEqual(figure_values("a:/sizes/[n=8]/t", ROUND), [9.0])
        with self.assertRaises(NoFigure):
            figure_values("a:/sizes/[n=16]/t", ROUND)

    def test_name_the_number_that_is_not_there(self):
        with self.assertRaisesRegex(NoFigure, 'the result of "b" has no number at /replay/decode_s'):
            figure_values("b:/replay/decode_s", ROUND)
        for operand in ("b:/text", "b:/true", "c:/speed", "a:/list", "a:/speed/*/x", "a:/list/*/z"):
            with self.assertRaises(NoFigure, msg=operand):
                figure_values(operand, ROUND)
        with self.assertRaisesRegex(NoFigure, "division by 0"):
            figure_values("a:/speed ÷ b:/none", ROUND)


class Spreads(unittest.TestCase):
    def test_median_and_quartiles_lie_between_values_where_they_must(self):
        odd = figures.pair_spread([5, 1, 3, 2, 4])
        self.assertEqual((odd.min, odd.lower, odd.median, odd.upper, odd.max), (1, 2, 3, 4, 5))
        even = figures.pair_spread([4, 1, 2, 3])
        self.assertEqual((even.median, even.lower), (2.5, 1.75))
        self.assertEqual(figures.pair_spread([7]).upper, 7)

    def test_are_judged_by_floor_and_aim_in_either_direction(self):
        more, less = at_least(0.9, 0.96), at_most(0.5, 0.3)
        for limits, figure, verdict in ((more, 0.96, Verdict.AIM), (more, 0.95, Verdict.FLOOR),
                                        (more, 0.89, Verdict.BELOW), (less, 0.29, Verdict.AIM),
                                        (less, 0.5, Verdict.FLOOR), (less, 0.51, Verdict.BELOW)):
            self.assertEqual(figures.judge(limits, figure), verdict, (limits, figure))
        self.assertEqual(figures.of_aim(less, 0.6), 0.5)
        self.assertEqual(figures.of_aim(more, 0.48), 0.5)

    def test_numbers_keep_every_digit_before_the_point(self):
        self.assertEqual([figures.short_number(value) for value in (0.01234, 41.26, 156400.2)],
                         ["0.0123", "41.3", "156400"])


RATIO = Goal("ratio", "m", at_least(1.0, 2.0), "a:/speed ÷ b:/speed", "a over b",
             (Shown("ours", "a:/speed", "tokens/s", 0.1),))
TWO_SIDES = PlannedMeasurement("m", [Side("a", []), Side("b", [])], rounds=3)


def child(side, round_, speed):
    return ChildRecord(side, round_, result={"speed": speed})


class Rows(unittest.TestCase):
    def test_pair_the_sides_of_a_round(self):
        row = figures.make_row(RATIO, TWO_SIDES, [child("a", 0, 2), child("b", 0, 1), child("a", 1, 9),
                                                  child("b", 1, 3), child("a", 2, 4), child("b", 2, 4)])
        self.assertEqual((row.pairs, row.verdict, row.reason), ([2, 3, 1], Verdict.AIM, ""))
        self.assertEqual(row.beside, {"ours": "0.4 tokens/s"})

    def test_keep_the_pairs_that_were_made_before_a_program_failed(self):
        failed = ChildRecord("b", 1, status=ChildStatus.FAILED, reason="exit code 5")
        row = figures.make_row(RATIO, TWO_SIDES, [child("a", 0, 2), child("b", 0, 2), child("a", 1, 2), failed])
        self.assertEqual((row.pairs, row.verdict, row.reason), ([1], Verdict.FLOOR, '"b": exit code 5'))

    def test_distinguish_failed_not_available_and_missing(self):
        def verdict(measurement, *children):
            return figures.make_row(RATIO, measurement, list(children)).verdict

        self.assertEqual(verdict(TWO_SIDES, ChildRecord("a", status=ChildStatus.REFUSED)), Verdict.NOT_AVAILABLE)
        self.assertEqual(verdict(TWO_SIDES, ChildRecord("a", status=ChildStatus.FAILED)), Verdict.FAILED)
        self.assertEqual(verdict(TWO_SIDES, ChildRecord("a", result={}), ChildRecord("b", result={})),
                         Verdict.NOT_AVAILABLE)
        absent = PlannedMeasurement("m", [], absence=Absence(AbsenceKind.MISSING, "install it"))
        self.assertEqual(verdict(absent), Verdict.MISSING)
        self.assertEqual(figures.make_row(RATIO, absent, []).reason, "install it")

    def test_a_result_that_names_what_is_absent_is_missing(self):
        nothing = {"absent": "no rival is installed"}
        row = figures.make_row(RATIO, TWO_SIDES, [ChildRecord("a", result=nothing), ChildRecord("b", result={})])
        self.assertEqual((row.verdict, row.reason), (Verdict.MISSING, "no rival is installed"))
