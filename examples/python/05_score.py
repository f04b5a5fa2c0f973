"""The perplexity of two texts, and the likeliest next tokens: 05_score.py MODEL"""
import sys

import lockstep

with lockstep.Model(sys.argv[1], tp=2, max_seq_len=64) as model:
    texts = ["The capital of France is Paris.", "The capital of France is banana."]
    rows = model.score([model.tokenizer.encode(text) for text in texts], top=3)
    for text, row in zip(texts, rows):
        print(f"{row['perplexity']:9.2f}  {text}")
    print([model.tokenizer.decode([token]) for token, _ in rows[0]["top"][-2]])
