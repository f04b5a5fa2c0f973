"""The table, the JSON, the picture and the page of a made-up report."""
import json
import unittest
import xml.etree.ElementTree

import picture
import report
from figures import ChildRecord, Row, Verdict, pair_spread
from goals import Goal, at_least, at_most
from report import Machine, Report, Rival


def measured(id_, verdict, pairs):
    goal = Goal(id_, "m", at_least(0.9, 1.0), "", f"what <{id_}> is")
    return Row(goal, verdict, pairs, pair_spread(pairs), beside={"ours": "17.5 tokens/s"})


def example():
    refused = Row(Goal("later", "m", at_most(0.5, 0.3), "", "later"), Verdict.NOT_AVAILABLE,
                  reason='"whole": exit code 2: --weights: unknown & <new>\x01')
    return Report("cpu", "1.2", Machine("vm", "a processor", 2), ranks=2, threads=1, pairs=3,
                  rows=[measured("fast", Verdict.AIM, [1.0, 1.1, 1.05]), measured("slow", Verdict.BELOW, [0.5]),
                        refused],
                  rivals=[Rival("ik", state="missing", reason="build it")],
                  children={"m": [ChildRecord("a", command="lockstep bench", result={"x": 1})]})


class Table(unittest.TestCase):
    def test_the_summary_counts_what_became_of_the_rows(self):
        self.assertEqual(report.summary(example()),
                         "2 of 3 rows measured: 1 reach the aim, 0 more the floor, 1 lie below it; 1 not available")

    def test_shows_every_figure_beside_its_limits(self):
        table = report.to_table(example())
        self.assertIn("fast                          1.05    ≥ 0.9      ≥ 1  aim           1 … 1.1, 3 pair(s)\n", table)
        self.assertIn("later                            –    ≤ 0.5    ≤ 0.3  not available ", table)
        self.assertIn("      ours 17.5 tokens/s\n", table)
        self.assertIn("unknown & <new>", table)
        self.assertIn("  ik                  missing  build it\n", table)


class Document(unittest.TestCase):
    def test_holds_pairs_and_what_programs_reported(self):
        document = json.loads(report.to_json(example()))
        rows = document["rows"]
        self.assertEqual((rows[0]["pairs"], rows[0]["median"]), ([1.0, 1.1, 1.05], 1.05))
        self.assertEqual((rows[2]["verdict"], rows[2]["better"]), ("not available", "lower"))
        self.assertNotIn("median", rows[2])
        self.assertEqual(document["children"][0]["result"]["x"], 1)
        self.assertEqual(document["rivals"][0]["state"], "missing")
        self.assertEqual(document["machine"]["cores"], 2)

    def test_names_a_rival_once_and_believes_the_run_in_which_it_ran(self):
        def child(state, **more):
            return ChildRecord("compare", result={"rivals": [{"name": "ik", "state": state, **more}]})

        (rival,) = report.rivals_of({"m": [child("failed", reason="x")],
                                     "n": [child("ran", version="1"), ChildRecord("compare")], "o": [child("failed")]})
        self.assertEqual(rival, Rival("ik", "1", "ran", ""))


class Picture(unittest.TestCase):
    def test_the_bar_of_a_row_reaches_to_its_share_of_the_aim(self):
        # The aim of every row lies at 190 + 450 / 1.25 = 550; half of it is 180 wide.
        fast, slow, later = picture.draw(example()).findall("g")
        self.assertEqual((slow.find("rect").get("width"), slow.find("rect").get("class")), ("180.0", "below"))
        self.assertEqual([mark.get("d") for mark in slow.findall("path")],
                         ["M370.0 98.0v6m0 -3H370.0m0 -3v6", "M514.0 91v20"])
        self.assertEqual(slow.findall("text")[1].text, "0.5 (0.5 … 0.5)  below")
        self.assertEqual((fast.find("rect").get("width"), fast.find("rect").get("class")), ("378.0", "aim"))
        self.assertEqual(fast.find("path").get("d"), "M550.0 72.0v6m0 -3H586.0m0 -3v6")
        self.assertIsNone(later.find("rect"))
        self.assertIn("not available: ", later.findall("text")[1].text)

    def test_is_a_whole_document_that_refers_to_nothing(self):
        svg = picture.to_svg(example())
        self.assertTrue(svg.startswith("<svg"))
        root = xml.etree.ElementTree.fromstring(svg)
        self.assertEqual([name for element in root.iter() for name in element.keys() if "href" in name], [])

    def test_has_dark_colours_and_escapes_what_it_shows(self):
        for text in (picture.to_svg(example()), picture.to_page(example())):
            self.assertIn("prefers-color-scheme: dark", text)
            for word in ("<script", "href=", "src=", "url(", "@import", "<link", "\x01"):
                self.assertNotIn(word, text)
            self.assertIn("unknown &amp; &lt;new&gt;", text)
            self.assertIn("what &lt;fast&gt; is", text)


class Page(unittest.TestCase):
    def test_has_a_line_for_each_row_and_the_other_engines_where_there_are_any(self):
        page = picture.to_page(example())
        self.assertTrue(page.startswith("<!DOCTYPE html>\n<html"))
        self.assertEqual(page.count("<tr>"), 2 + 3 + 1)  # two headings, the rows, an engine
        self.assertIn("<td>≥ 0.9</td>", page)
        alone = example()
        alone.rivals = []
        self.assertNotIn("Other engines", picture.to_page(alone))
