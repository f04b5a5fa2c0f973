"""tools/fair_share.py with a stand-in for the bench, whose speed depends on the busy loops beside it.

    fair_share_test.py
"""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import fair_share  # noqa: E402

# Counts the other children of its parent before each repetition.
BENCH = """
import json, os, pathlib, socket, sys
words = sys.argv[1:]
value = lambda name: words[words.index(name) + 1]
end = socket.socket(fileno=int(value("--barrier")))
def loops():
    found = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        found += int(parent) == os.getppid() and state != "Z" and int(stat.parent.name) != os.getpid()
    return found
done = []
for _ in range(int(value("--warmup")) + int(value("--repeats"))):
    end.send(b".")
    assert end.recv(1) == b"."
    beside = loops()
    done.append({"prefill_tokens_per_s": 100 / (1 + beside), "decode_tokens_per_s": 20 / (2 + beside)})
pathlib.Path(value("--json")).write_text(json.dumps({"repetitions": done[int(value("--warmup")):]}))
"""


class FairShare(unittest.TestCase):
    def test_each_round_has_its_loops_and_is_compared_with_its_quiet_repetition(self):
        with tempfile.TemporaryDirectory() as folder:
            bench = pathlib.Path(folder) / "bench.py"
            bench.write_text(BENCH)
            loads = [0, 1, 3, 0, 1, 3]
            found = fair_share.repetitions_beside([sys.executable, str(bench)], loads)
        self.assertEqual([one["prefill_tokens_per_s"] for one in found], [100, 50, 25] * 2)
        shares = fair_share.shares_of(found, loads, cores=2)
        self.assertEqual(shares[1], {"prefill": [0.75, 0.75], "decode": [1.0, 1.0]})
        self.assertEqual(shares[3], {"prefill": [0.625, 0.625], "decode": [1.0, 1.0]})

    def test_a_bench_that_ends_is_an_error_in_its_words(self):
        with self.assertRaisesRegex(SystemExit, "no such config"):
            fair_share.repetitions_beside([sys.executable, "-c", "raise SystemExit('no such config')"], [0, 1])


if __name__ == "__main__":
    unittest.main()
