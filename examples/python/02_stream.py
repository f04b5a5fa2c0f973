"""Tokens as they are made, first for one prompt, then for three at once: 02_stream.py MODEL"""
import asyncio
import sys

import lockstep


async def collect(model, prompt):
    return "".join([token.text async for token in model.stream(prompt, max_new_tokens=12)])


async def collect_all(model, prompts):
    return await asyncio.gather(*(collect(model, prompt) for prompt in prompts))


with lockstep.Model(sys.argv[1], tp=2, max_seq_len=64) as model:
    for token in model.stream("Once upon a time", max_new_tokens=16):
        print(token, end="", flush=True)
    print()
    for text in asyncio.run(collect_all(model, ["One", "Two", "Three"])):
        print(repr(text))
