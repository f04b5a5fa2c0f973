"""Two ranks beside many busy loops of other programs: slow, but no hang, with the same tokens and a reason in the log.

    neighbours_test.py PROGRAM MODEL GOLDENS
"""
import json
import os
import subprocess
import sys
import time
import unittest

import program

LOOPS_PER_CORE = 6
BOUND = 180.0  # seconds
PROMPT = [5 + 37 * position % 400 for position in range(64)]


class Neighbours(program.Folder):
    def generate(self, ranks, threads):
        """(tokens, what was logged) of 16 steps."""
        out = self.folder / "answer.json"
        words = [program.PROGRAM, "generate", "--model", program.MODEL, "--ids-file", self.ids_file([PROMPT]),
                 "--max-new-tokens", 16, "--ignore-eos", "--no-do-sample", "--launch", "processes", "--tp", ranks,
                 "--threads", threads, "--json", out]
        done = subprocess.run(list(map(str, words)), capture_output=True, stdin=subprocess.DEVNULL, timeout=BOUND,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return json.loads(out.read_text())["sequences"], done.stderr.decode()

    def test_many_busy_loops_are_no_hang(self):
        expected, _ = self.generate(1, 2)
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                 for _ in range(LOOPS_PER_CORE * len(os.sched_getaffinity(0)))]
        try:
            for ranks, threads in ((2, 1), (1, 2)):
                with self.subTest(ranks=ranks, threads=threads):
                    begin = time.monotonic()
                    tokens, logged = self.generate(ranks, threads)
                    print(f"{ranks} x {threads}: {time.monotonic() - begin:.1f} s", file=sys.stderr)
                    self.assertEqual(tokens, expected)
                    self.assertIn("other programs use its cores", logged)
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()


if __name__ == "__main__":
    program.start_tests("tools/fetch_demo_model.py")
