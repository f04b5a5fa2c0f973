"""Graphs, plans and timelines of a tiny model as plain data, and their tables; beside the program's explain and plan.

    inspection_test.py PROGRAM        PROGRAM: bin/lockstep of the build
"""
import json
import pathlib
import subprocess
import sys
import time
import unittest

import numpy as np
from one_model import PROMPT, OnOneModel

import lockstep

SIZES = ["--batch-size", "4", "--max-seq-len", "128"]  # those of the open model

try:
    import matplotlib
    matplotlib.use("agg")
except ImportError:
    matplotlib = None


class Graphs(OnOneModel):
    def test_a_graph_is_a_sequence_of_nodes(self):
        graph = self.model.graph("decode", rank=1)
        self.assertEqual((graph.name, graph.rank, graph.ranks, graph.rows), ("decode", 1, 2, 4))
        self.assertEqual(len(graph), len(list(graph)))
        node = next(node for node in graph if node.op == "rms_norm")
        self.assertEqual((node.type, node.result.shape), ("f32[4,32]", (4, 32)))
        self.assertEqual([operand.kind for operand in node.operands], ["result", "weight"])
        self.assertEqual(str(node), f"%{node.name} = rms_norm(%{node.operands[0].name}, %{node.operands[1].name}) : f32[4,32]")
        self.assertIn("epsilon", node.attributes)
        json.dumps([dict(one.attributes) for one in graph])

    def test_weights_are_slices_of_the_checkpoint(self):
        weights = [self.model.graph("decode", rank=rank, before_passes=True).of_kind("weight") for rank in (0, 1)]
        rows = [next(one.slices[0][1][0] for one in of_rank if one.slices[0][0] == "model.layers.0.mlp.gate_proj.weight")
                for of_rank in weights]
        self.assertEqual(rows, [(0, 32), (32, 64)])

    def test_collectives_and_costs(self):
        graph = self.model.graph()
        self.assertTrue(all(node.is_collective for node in graph.collectives))
        self.assertEqual(graph.cost["collectives"], len(graph.collectives))
        self.assertGreater(graph.cost["weight_bytes"], 0)
        self.assertIn("tokens", graph.outputs)

    def test_it_prints_as_the_program_explains_it(self):
        # The engine's graphs have an output for logits, which explain leaves out, so the texts differ in its lines.
        said = subprocess.run([PROGRAM, "explain", "--model", self.directory, "--tp", "2", "--rank", "1", "--phase", "decode",
                               "--show", "graph", *SIZES], capture_output=True, text=True, timeout=60, check=True).stdout
        own = str(self.model.graph("decode", rank=1))
        self.assertEqual(own.splitlines()[0], said.splitlines()[0])
        operations = [line.split(" = ")[-1].split("(")[0] for line in said.splitlines()
                      if "(" in line and " = weight " not in line]
        self.assertEqual([node.op for node in self.model.graph("decode", rank=1)], [op.strip() for op in operations])

    def test_it_has_the_graphs_that_the_engine_compiled(self):
        self.assertEqual(len(self.model.facts["graphs"]), 3)
        for name in ("prefill", "decode", "score"):
            self.assertEqual(self.model.graph(name).name, name)

    def test_wrong_names_and_ranks(self):
        with self.assertRaisesRegex(lockstep.InputError, "found 'verify', expected one of prefill, decode, score"):
            self.model.graph("verify")
        with self.assertRaisesRegex(lockstep.InputError, "found rank 2, expected 0 to 1"):
            self.model.graph(rank=2)

    def test_tables(self):
        self.assertIn("<td>all_reduce</td>", self.model.graph()._repr_html_())
        self.assertIn("decode rank 0 of 2", repr(self.model.graph()))


class Plans(OnOneModel):
    def test_a_plan_is_that_of_the_program(self):
        file = self.folder / "plan.json"
        subprocess.run([PROGRAM, "plan", "--model", self.directory, "--max-tp", "5", "--bandwidth", "50", "--flops", "900",
                        "--json", file, *SIZES], capture_output=True, timeout=60, check=True)
        self.assertEqual(self.model.plan(tp=range(1, 6), bandwidth=50, flops=900), json.loads(file.read_text()))

    def test_only_the_degrees_asked_for(self):
        plan = self.model.plan(tp=[2, 4])
        self.assertEqual([degree["degree"] for degree in plan["degrees"]], [2, 4])
        self.assertIn(plan.best, (2, 4))
        self.assertEqual(self.model.plan(tp=2).best, 2)

    def test_a_memory_budget(self):
        plan = self.model.plan(memory_budget=1)
        self.assertIsNone(plan.best)
        self.assertIn("over the budget", plan["degrees"][0]["how_to_fit"])
        self.assertIn("none fits the budget", plan._repr_html_())

    def test_tables_name_the_degrees_that_do_not_work(self):
        table = self.model.plan(tp=range(1, 6))._repr_html_()
        self.assertIn("expected 1 to 4", table)
        self.assertIn("best: TP", table)

    def test_wrong_arguments(self):
        for degrees in ([], [0], "2", [True, 1.5]):
            with self.assertRaisesRegex(lockstep.InputError, "found tp="):
                self.model.plan(tp=degrees)
        with self.assertRaisesRegex(lockstep.InputError, "found machine option speed"):
            self.model.plan(speed=3)
        with self.assertRaisesRegex(lockstep.InputError, "new_tokens"):
            self.model.plan(new_tokens=1000)


class Timelines(OnOneModel):
    def test_the_last_steps(self):
        begin = time.monotonic()
        self.model.generate([PROMPT], max_new_tokens=6, eos_token_id=[])
        timeline = self.model.timeline()
        self.assertEqual(timeline.steps["kind"].tolist()[-6:], ["prefill"] + ["decode"] * 5)
        self.assertEqual(timeline.steps["rows"][-6], len(PROMPT))
        self.assertTrue((np.diff(timeline.steps["number"]) == 1).all())
        self.assertTrue((timeline.seconds() > 0).all())
        for _ in range(2):
            self.model.generate([PROMPT], max_new_tokens=100, eos_token_id=[])
        self.assertGreaterEqual(len(self.model.timeline().steps), 200)
        self.assertGreater(timeline.steps["begin_s"][-6], begin)
        self.assertLess(timeline.steps["end_s"][-1], timeline.read_s)
        self.assertEqual((len(timeline.slots), len(timeline.ranks)), (4, 2))
        self.assertIn("<td>decode</td>", timeline._repr_html_())

    def test_the_times_of_an_answers_tokens(self):
        times = self.model.complete("one", max_new_tokens=7, eos_token_id=[])[0].outputs[0].token_times
        self.assertEqual(times.shape, (7,))
        self.assertTrue((np.diff(times) >= 0).all() and times[0] > 0)

    def test_a_closed_model_has_none(self):
        model = lockstep.Model(self.directory)
        model.close()
        self.assertEqual(len(model.timeline().steps), 0)
        self.assertIn("0 steps", model.timeline()._repr_html_())
        self.assertEqual(model.graph().name, "decode")


class Sweeps(OnOneModel):
    RESULTS = {"format": 1, "verdicts": ["TP 2 is <best>"], "series": [{"name": "all", "points": [0, 1]}],
               "points": [{"tp": 1, "decode_tokens_per_s": 10.0, "status": "done"},
                          {"tp": 2, "decode_tokens_per_s": None, "status": "failed"}]}

    def test_a_table_of_the_programs_results(self):
        (self.folder / "results.json").write_text(json.dumps(self.RESULTS))
        sweep = lockstep.Sweep.read(self.folder)
        self.assertEqual(sweep["points"][1]["tp"], 2)
        self.assertIn("TP 2 is &lt;best&gt;", sweep._repr_html_())

    def test_other_files_are_refused(self):
        with self.assertRaisesRegex(lockstep.InputError, "expected results.json") as raised:
            lockstep.Sweep.read(self.folder / "nothing.json")
        self.assertEqual(raised.exception.kind, "not_found")
        (self.folder / "other.json").write_text("[]")
        with self.assertRaisesRegex(lockstep.InputError, 'found no "points"'):
            lockstep.Sweep.read(self.folder / "other.json")


class Plots(OnOneModel):
    def test_plots_where_matplotlib_is_there(self):
        self.model.generate([PROMPT], max_new_tokens=3)
        for shown in (self.model.plan(tp=(1, 2)), self.model.timeline(), lockstep.Sweep(Sweeps.RESULTS)):
            if matplotlib is not None:
                self.assertTrue(shown.plot().get_xlabel())
                continue
            with self.assertRaisesRegex(lockstep.Error, "found no matplotlib") as raised:
                shown.plot()
            self.assertEqual(raised.exception.kind, "unavailable")


if __name__ == "__main__":
    PROGRAM = pathlib.Path(sys.argv[1]).resolve()
    unittest.main("__main__", argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
