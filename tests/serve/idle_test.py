"""What `lockstep serve` costs while nobody asks: at most 1 % of a core, of all its processes together.

    idle_test.py PROGRAM MODEL
"""
import os
import pathlib
import sys
import time
import unittest

import served

PROGRAM = MODEL = None
SETTLING = 2.0  # seconds after the last request
INTERVAL = 10.0  # seconds; long enough that a clock tick of 10 ms counts little


def family(pid):
    """The process and its descendants."""
    found = [pid]
    for one in found:
        for children in pathlib.Path(f"/proc/{one}/task").glob("*/children"):
            found += [int(child) for child in children.read_text().split()]
    return found


def cpu_seconds(pids):
    ticks = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])  # in user and in system mode
    return ticks / os.sysconf("SC_CLK_TCK")


class Idle(unittest.TestCase):
    def test_an_idle_server_uses_one_hundredth_of_a_core_at_most(self):
        with served.Served(PROGRAM, MODEL, "--tp", 2, "--threads", 1, "--max-seq-len", 512) as server:
            self.assertEqual(server.post("/v1/completions", {"prompt": "Once", "max_tokens": 4})[0], 200)
            time.sleep(SETTLING)
            pids = family(server.process.pid)
            self.assertEqual(len(pids), 3)  # the door and two ranks
            begun, used = time.monotonic(), cpu_seconds(pids)
            time.sleep(INTERVAL)
            share = (cpu_seconds(pids) - used) / (time.monotonic() - begun)
            print(f"{share:.4f} of a core")
            self.assertLessEqual(share, 0.01)


if __name__ == "__main__":
    PROGRAM, MODEL = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
