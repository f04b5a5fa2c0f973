"""A model on the ranks of mpirun, which run this script: mpirun -n 2 python 07_ranks.py MODEL"""
import sys

import lockstep

# On the other ranks this line serves rank 0 until it ends; with script="all" every rank goes on, with the same results.
model = lockstep.Model(sys.argv[1], launch="inside", max_seq_len=64)
for row in model.memory():
    print(f"{row['weights'] / 2**20:.1f} MiB of weights")
print(model.complete("Once upon a time", max_new_tokens=16)[0].text)
