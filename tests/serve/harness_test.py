"""A short run of guidellm, a load generator, against `lockstep serve`: every request succeeds.

    harness_test.py PROGRAM MODEL PYTHON        PYTHON: of .venv-harness
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import served

PROGRAM = MODEL = PYTHON = None
SKIPPED = 77
STAND_IN = pathlib.Path(__file__).parent / "torch_stand_in"
REQUESTS, TOKENS = 4, 6


class Guidellm(unittest.TestCase):
    def run_guidellm(self, url, path, folder):
        """The benchmark of its report."""
        report = pathlib.Path(folder) / "report.json"
        words = [PYTHON, "-m", "guidellm", "run", "--backend", f"kind=openai_http,target={url},request_format={path}",
                 "--profile", "kind=concurrent,streams=2", "--constraint", f"kind=max_requests,count={REQUESTS}",
                 "--data", f"kind=synthetic_text,prompt_tokens=24,output_tokens={TOKENS}",
                 "--tokenizer", f"kind=huggingface_auto,model={MODEL}", "--output", f"kind=json,path={report}",
                 "--disable-console"]
        # Without this, its data sets library asks the stand-in for more of torch.
        environment = {**os.environ, "PYTHONPATH": str(STAND_IN), "USE_TORCH": "0", "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(words, capture_output=True, text=True, timeout=2 * served.DEADLINE, check=False, cwd=folder,
                              env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        benchmark, = json.loads(report.read_text())["benchmarks"]
        return benchmark

    def test_it_finds_no_error(self):
        with served.Served(PROGRAM, MODEL, "--threads", 1, "--batch-size", 4, "--max-seq-len", 512) as server:
            for path in ("/v1/chat/completions", "/v1/completions"):
                with self.subTest(path=path), tempfile.TemporaryDirectory() as folder:
                    benchmark = self.run_guidellm(server.url, path, folder)
                    self.assertEqual(benchmark["metrics"]["request_totals"],
                                     {"successful": REQUESTS, "errored": 0, "incomplete": 0, "total": REQUESTS})
                    for request in benchmark["requests"]["successful"]:
                        self.assertTrue(request["output"])
                        self.assertEqual(request["output_metrics"]["text_tokens"], TOKENS)


if __name__ == "__main__":
    PROGRAM, MODEL, PYTHON = map(os.path.abspath, sys.argv[1:4])
    if not os.access(PYTHON, os.X_OK):
        print(f"skipped: {PYTHON} is not there; scripts/setup harness makes it")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1], verbosity=2)
