"""Greedy tokens of two prompts, as with transformers: 01_generate.py MODEL"""
import sys

import lockstep

with lockstep.Model(sys.argv[1], tp=2, max_seq_len=64) as model:
    ids = [model.tokenizer.encode(text) for text in ("Once upon a time", "The capital of France is")]
    for row in model.generate(ids, max_new_tokens=16, do_sample=False):
        print(model.tokenizer.decode(row, skip_special_tokens=True))
