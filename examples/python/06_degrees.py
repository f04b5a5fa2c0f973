"""One prompt at several tensor-parallel degrees: the same tokens, and the time of each: 06_degrees.py MODEL"""
import sys
import time

import lockstep

answers = set()
for tp in (1, 2, 3):
    with lockstep.Model(sys.argv[1], tp=tp, max_seq_len=64, threads=1, scoring=False) as model:
        begin = time.perf_counter()
        answers.add(model.complete("Once upon a time", max_new_tokens=16)[0].text)
        seconds = time.perf_counter() - begin
        weights = max(rank["weights"] for rank in model.memory())
        print(f"tp={tp}  {16 / seconds:6.1f} tokens/s  {weights / 2**20:6.1f} MiB of weights in the largest rank")
print(f"{len(answers)} different answer")
