"""Ranks whose config.json differs in one key: refused before weights are read, the key and both values named.

    agreement_test.py PROGRAM MODEL GOLDENS        models are the configs of the goldens alone; MODEL is not used
"""
import json
import pathlib
import unittest

import jobs
import program


class OneKey(program.Folder):
    """Two ranks that read one config each."""

    def model(self, config, rank):
        folder = self.folder / f"rank-{rank}"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config))
        return str(folder)

    def expect_refused(self, golden, path, value):
        config = json.loads((pathlib.Path(program.GOLDENS) / f"family_{golden}.json").read_text())["config"]
        other = json.loads(json.dumps(config))
        *outer, key = path.split(".")
        owner = other
        for name in outer:
            owner = owner[name]
        before, owner[key] = owner[key], value
        out = self.folder / "out.json"
        rows = ["--ids-file", str(self.ids_file([[1, 5, 9]])), "--max-new-tokens", "4", "--json", str(out)]
        per_rank = [["--model", self.model(config, 0)], ["--model", self.model(other, 1)]]
        with jobs.Job(program.PROGRAM, 2, rows, per_rank=per_rank) as job:
            for rank in range(2):
                record = job.wait_for_record(rank)
                self.assertEqual(record["code"], 4, record)
                self.assertIn("the ranks disagree on options and model: rank 1 differs", record["message"])
                self.assertIn(f"{path} {json.dumps(value)} on rank 1, {json.dumps(before)} on rank 0", record["message"])
            job.wait()
            self.assertNotIn("<stdout>", job.text())
        self.assertFalse(out.exists())

    def test_ends_every_rank(self):
        for golden, path, value in (
            ("gemma2_alternating_windows", "attn_logit_softcapping", 30.0),
            ("gemma2_alternating_windows", "final_logit_softcapping", 10.0),
            ("gemma2_alternating_windows", "query_pre_attn_scalar", 64),
            ("gemma3_every_sixth_full", "rope_local_base_freq", 5000.0),
            ("gpt_oss_plain", "swiglu_limit", 3.0),
            ("gpt_oss_plain", "rope_parameters.truncate", True),
            ("phi3_window_partial_rotary", "rope_parameters.partial_rotary_factor", 0.5),
        ):
            with self.subTest(golden=golden, key=path):
                self.expect_refused(golden, path, value)


if __name__ == "__main__":
    program.start_tests("tools/fetch_demo_model.py")
