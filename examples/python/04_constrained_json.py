"""An answer in a fixed JSON shape, by the ids that may follow: 04_constrained_json.py MODEL"""
import json
import sys

import lockstep

with lockstep.Model(sys.argv[1], tp=2, max_seq_len=128) as model:
    tokenizer = model.tokenizer
    choices = [tokenizer.encode(json.dumps({"mood": mood, "stars": stars}), add_special_tokens=False)
               for mood in ("happy", "neutral", "angry") for stars in range(1, 6)]
    prompt = tokenizer.encode("Review: 'The food was cold and the waiter rude.' As JSON: ")
    end = 0

    def allowed(index, ids):
        made = ids[len(prompt):].tolist()
        return {choice[len(made)] if len(made) < len(choice) else end for choice in choices if choice[:len(made)] == made}

    answer = model.complete([prompt], prefix_allowed_tokens_fn=allowed, eos_token_id=end, max_new_tokens=32)[0]
    print(json.loads(answer.text))
