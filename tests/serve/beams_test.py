"""Requests with beams to ranks that die, over the engine's protocol: the answers are those of ranks that lived.

    beams_test.py SERVE_BEAMS PROGRAM MODEL KILLS RANKS…
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import served

SEED = 20261127


class Rounds:
    """The running serve_beams."""

    def __init__(self, words):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.expect("ready")

    def expect(self, word):
        line = self.process.stdout.readline().strip()
        assert line == word, f"{line}: {self.said()}"

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def begin(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.expect("begun")

    def answers(self):
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(served.DEADLINE) == 0, self.said()


def main():
    program, lockstep, model, kills, *degrees = sys.argv[1:]
    assert degrees, "no number of ranks"
    drawn, expected = random.Random(SEED), None
    for ranks in map(int, degrees):
        rounds = Rounds([program, lockstep, model, str(ranks)])
        rounds.begin()
        begun = time.monotonic()
        whole = rounds.answers()
        length = time.monotonic() - begun
        assert "ids" in whole and "failed" not in whole, whole
        expected = expected or whole
        assert whole == expected, f"{ranks} ranks: {whole}, expected {expected}"
        for number in range(int(kills)):
            rank, moment = drawn.randrange(ranks), drawn.uniform(0.0, length)
            rounds.begin()
            time.sleep(moment)
            pid = served.started_rank(rounds.process.pid, rank)  # the kill before may still be mended
            assert pid, rounds.said()
            os.kill(pid, signal.SIGKILL)
            found = rounds.answers()
            assert found == expected, f"kill {number}: rank {rank} of {ranks} after {moment:.2f} s: {found}, expected " \
                                      f"{expected}\n{rounds.said()}"
        said = rounds.said()
        rounds.end()
        print(f"{ranks} ranks: {kills} kills, the same answers; the ranks started again "
              f"{said.count('starts the ranks again')} times")
        assert said.count("starts the ranks again") >= int(kills) // 2, said


if __name__ == "__main__":
    main()
