"""`lockstep bench --suite cpu` as a program, with a tiny model.

    suite_test.py PROGRAM …
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import jobs
import mpirun
from sweep_test import Page

PROGRAM = None
CONFIG = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128, "hidden_act": "silu", "vocab_size": 256,
          "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
          "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}

# Stands in for tools/compare/compare.py.
COMPARE = """
import json, sys
rows = {"decode": {"ratios": [1.2, 1.1], "ours": 12.0, "fastest": 10.0}}
rivals = [{"name": "ik", "state": "missing", "reason": "build it", "version": ""}]
with open(sys.argv[sys.argv.index("--json") + 1], "w") as out:
    json.dump({"rows": rows, "rivals": rivals}, out)
"""


class Suite(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tiny.json").write_text(json.dumps(CONFIG))
        (self.folder / "scripts").mkdir()
        (self.folder / "scripts" / "compare.py").write_text(COMPARE)

    def words(self, *options):
        return [PROGRAM, "bench", "--suite", "cpu", "--random-weights", "--config", str(self.folder / "tiny.json"),
                "--out", str(self.folder / "out"), "--pairs", "1", "--quick", "--probe-mib", "1", "--rival-scripts",
                str(self.folder / "scripts"), "--tp", "2", "--child-deadline-s", "60", *options]

    def run_suite(self, *options):
        return subprocess.run(self.words(*options), env=mpirun.environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=150, check=False)

    def rows(self):
        report = json.loads((self.folder / "out" / "suite.json").read_text())
        return {row["id"]: row for row in report["rows"]}, report

    def test_measures_rows_and_writes_json_and_pictures(self):
        ran = self.run_suite("--only", "decode,ranks,batch-8,start,rivals-l1b-decode")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        rows, report = self.rows()
        self.assertEqual(list(rows), ["decode", "ranks-decode", "ranks-prefill", "ranks-speed-up", "start-warm",
                                      "start-cold", "start-bytes", "start-seconds", "batch-8", "rivals-l1b-decode",
                                      "rivals-l1b-decode-8"])
        for row, pairs in (("decode", 4), ("ranks-decode", 1), ("ranks-speed-up", 1), ("batch-8", 4)):
            self.assertIn(rows[row]["verdict"], ("aim", "pass", "below"), rows[row])
            self.assertEqual(len(rows[row]["pairs"]), pairs, row)
            self.assertGreater(rows[row]["median"], 0)
        self.assertEqual(rows["start-warm"]["verdict"], "missing")
        self.assertIn("--checkpoint", rows["start-warm"]["reason"])
        self.assertEqual((rows["rivals-l1b-decode"]["verdict"], rows["rivals-l1b-decode"]["median"]), ("aim", 1.15))
        self.assertEqual(rows["rivals-l1b-decode-8"]["verdict"], "not available")
        self.assertEqual([child["side"] for child in report["children"] if child["measurement"] == "ranks"],
                         ["ranks", "whole", "single"])
        self.assertRegex(ran.stdout, r"ranks-decode +[0-9.]+ +≥ 0.97 +≥ 1 ")
        self.assertRegex(ran.stdout, r"ik +missing +build it")
        page = Page((self.folder / "out" / "suite.html").read_text())
        self.assertEqual((page.open, page.references), ([], []))
        self.assertNotIn("script", page.tags)
        self.assertTrue((self.folder / "out" / "suite.svg").read_text().startswith("<svg"))

    def test_a_launcher_that_fails_costs_its_rows_and_no_others(self):
        ran = self.run_suite("--only", "decode,small-decode", "--launch-template", "false {ranks}")
        rows, _ = self.rows()
        self.assertEqual((rows["small-decode"]["verdict"], rows["decode"]["verdict"] in ("aim", "pass", "below")),
                         ("failed", True), rows)
        self.assertIn("exit code 1", rows["small-decode"]["reason"])
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn('the measurement "small" failed', ran.stderr)

    def test_start_up_is_measured_where_a_checkpoint_is(self):
        checkpoint = self.folder / "checkpoint"
        maker = pathlib.Path(__file__).resolve().parents[2] / "tools" / "compare" / "make_model.py"
        subprocess.run([sys.executable, str(maker), str(self.folder / "tiny.json"), str(checkpoint), "--safetensors"],
                       check=True, timeout=60)
        ran = self.run_suite("--only", "start-warm,start-seconds", "--checkpoint", str(checkpoint),
                             "--launch-template", "threads")
        rows, report = self.rows()
        self.assertIn(rows["start-seconds"]["verdict"], ("aim", "pass", "below"), ran.stderr)
        warm = next(child for child in report["children"] if child["side"] == "warm")
        files = (checkpoint / "model.safetensors").stat().st_size  # and not config.json beside it
        self.assertEqual(warm["result"]["suite"]["files"]["bytes"], files)

    def test_an_interruption_keeps_what_was_measured(self):
        hang = f"sh -c 'touch {self.folder / 'started'}; exec sleep 600' {{ranks}}"
        suite = subprocess.Popen(self.words("--only", "decode,small-decode", "--launch-template", hang),
                                 env=mpirun.environment(), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(suite.stderr.close)
        self.addCleanup(suite.wait)
        self.addCleanup(suite.kill)
        jobs.wait_until((self.folder / "started").exists, what="the program that hangs")
        suite.send_signal(signal.SIGINT)
        self.assertEqual(suite.wait(timeout=60), 130)
        rows, _ = self.rows()
        self.assertEqual(len(rows["decode"]["pairs"]), 4)
        self.assertIn("interrupted", rows["small-decode"]["reason"])

    def test_without_python_or_the_tool_the_message_has_the_command_to_run(self):
        alone = self.folder / "bin" / "lockstep"  # far from any sources
        alone.parent.mkdir()
        shutil.copy(PROGRAM, alone)
        for program, path in ((alone, os.environ["PATH"]), (pathlib.Path(PROGRAM).resolve(), "/there/is/nothing")):
            words = [program, "bench", "--suite", "cpu", "--only", "decode"]
            ran = subprocess.run(words, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60,
                                 check=False)
            self.assertEqual(ran.returncode, 4, ran.stderr)
            self.assertRegex(ran.stderr, f"python3 .*tools/suite/suite.py --program={program} .*--only=decode")

    def test_options_of_a_suite_want_one(self):
        for words, refusal in (
            (["--quick"], "--quick requires --suite"),
            (["--suite", "gpu"], "--suite: gpu not in {cpu}"),
            (["--suite", "cpu", "--only", "speed", "--out", str(self.folder)], "--only: found speed, expected one of "),
        ):
            ran = subprocess.run([PROGRAM, "bench", *words], env=os.environ, capture_output=True, text=True, timeout=60,
                                 check=False)
            self.assertEqual(ran.returncode, 2, words)
            self.assertIn(refusal, ran.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
