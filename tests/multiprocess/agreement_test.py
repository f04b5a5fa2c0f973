"""Ranks that differ in one key of config.json, one option or the headers of their weight files: refused before the first
token, the difference named.

    agreement_test.py PROGRAM MODEL GOLDENS        models are the configs of the goldens, and tiny ones; MODEL is not used
"""
import json
import pathlib
import unittest

import jobs
import program
import tiny_model


class Ranks(program.Folder):
    """Two ranks with different words."""

    def expect_both_refuse(self, per_rank, *words):
        out = self.folder / "out.json"
        rows = ["--ids-file", str(self.ids_file([[1, 5, 9]])), "--max-new-tokens", "4", "--json", str(out)]
        with jobs.Job(program.PROGRAM, 2, rows, per_rank=per_rank) as job:
            for rank in range(2):
                record = job.wait_for_record(rank)
                self.assertEqual(record["code"], 4, record)
                for word in words:
                    self.assertIn(word, record["message"])
            job.wait()
            self.assertNotIn("<stdout>", job.text())
        self.assertFalse(out.exists())


class OneKey(Ranks):
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
        self.expect_both_refuse([["--model", self.model(config, 0)], ["--model", self.model(other, 1)]],
                                "the ranks disagree on options and model: rank 1 differs",
                                f"{path} {json.dumps(value)} on rank 1, {json.dumps(before)} on rank 0")

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


class OneOption(Ranks):
    """Two ranks that read the same model; what the plan does not have from config.json."""

    def test_ends_every_rank(self):
        model = ["--model", str(tiny_model.write(self.folder / "tiny"))]
        for option, first, second in (
            ("--backend", "cpu", "reference"),
            ("--communicator", "shm", "mpi"),
            ("--dtype", "float32", "bfloat16"),
            ("--weights", "q8:32", "q4:32"),
            ("--kv-dtype", "int8", "fp8"),
            ("--batch-size", "1", "2"),
            ("--max-seq-len", "32", "64"),
        ):
            with self.subTest(option=option):
                self.expect_both_refuse([[*model, option, first], [*model, option, second]], f"'{option} ", "rank 1")


class OneFile(Ranks):
    def test_other_headers_end_every_rank(self):
        folders = [tiny_model.write(self.folder / f"rank-{rank}") for rank in range(2)]
        weights = folders[1] / "model.safetensors"
        data = weights.read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        header = data[8:begin] + b" " * 8  # the same tensors; a larger file
        weights.write_bytes(len(header).to_bytes(8, "little") + header + data[begin:])
        self.expect_both_refuse([["--model", str(folder)] for folder in folders],
                                "the ranks disagree on graphs and weights: rank 1 differs", "checkpoint headers and sizes")


if __name__ == "__main__":
    program.start_tests("tools/fetch_demo_model.py")
