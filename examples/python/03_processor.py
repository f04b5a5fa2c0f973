"""A logits processor in numpy, which excludes tokens with digits: 03_processor.py MODEL"""
import sys

import numpy as np

import lockstep

with lockstep.Model(sys.argv[1], tp=2, max_seq_len=64) as model:
    tokenizer = model.tokenizer
    digits = [token for token in range(tokenizer.vocab_size) if any(c.isdigit() for c in tokenizer.decode([token]))]

    def no_digits(ids, scores):
        scores[:, digits] = -np.inf
        return scores

    print(model.complete("1 2 3", logits_processor=[no_digits], max_new_tokens=16)[0].text)
