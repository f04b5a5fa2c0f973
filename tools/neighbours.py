"""What one request costs the others of an engine: tokens per second and gaps of plain streams beside it.

    neighbours.py PROGRAM MODEL [--streams 7] [--tokens 200] [--rounds 3] [--last plain,json] [--engine "--tp 2 …"]

Run by the Python of .venv, which has pycapnp. The last stream is, in turn: another plain one, one that the host chooses
for (no_repeat_ngram_size), one with a JSON constraint, one with an expression; then a prompt of 2000 tokens that arrives
while the others run.
"""
import argparse
import asyncio
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import capnp

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCHEMA = capnp.load(str(ROOT / "engine" / "rpc" / "engine.capnp"), imports=[str(pathlib.Path(capnp.__file__).parents[1])])


class Sink(SCHEMA.Sink.Server):
    def __init__(self):
        self.times = []
        self.end = asyncio.get_running_loop().create_future()

    async def tokens(self, tokens, **_):
        self.times += [time.perf_counter()] * len(tokens)

    async def done(self, answers, **_):
        self.end.set_result(None)

    async def failed(self, failure, **_):
        self.end.set_exception(RuntimeError(str(failure.message)))


async def ask(engine, ids, tokens, constraint="", eos=(), **values):
    sink = Sink()
    values = {"max_new_tokens": tokens, "do_sample": False, "eos_token_id": list(eos), **values}
    options = [{"name": name, "value": json.dumps(value)} for name, value in values.items()]
    opened = await engine.generate({"ids": ids, "options": options, "constraint": constraint}, sink)
    if opened.which() == "failure":
        raise RuntimeError(str(opened.failure.message))
    sink.call = opened.call
    return sink


LAST = {
    "plain": {},
    "host": {"no_repeat_ngram_size": 50},
    "json": {"constraint": json.dumps({"type": "json_schema", "json_schema": {
        "type": "array", "items": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 40},
                                                                    "age": {"type": "integer"}},
                                   "required": ["name", "age"]}, "minItems": 1000}}), "eos": [0]},
    "regex": {"constraint": json.dumps({"type": "regex", "pattern": "([a-z]{1,12} ){2000}"}), "eos": [0]},
}


async def rate(engine, streams, tokens, last):
    """Tokens per second of `streams` plain streams beside one more."""
    prompts = [[100 + 37 * i + j for j in range(12)] for i in range(streams + 1)]
    other = await ask(engine, prompts[-1], tokens, **LAST[last])
    plain = [await ask(engine, prompts[i], tokens) for i in range(streams)]
    for sink in plain:
        await sink.end
    await asyncio.wait_for(other.end, 600)
    first = max(sink.times[0] for sink in plain)
    end = max(sink.times[-1] for sink in plain)
    return streams * (tokens - 1) / (end - first)


async def gaps(engine, streams, tokens, seed):
    """The gaps between tokens of plain streams while a long prompt arrives: (median, 99th percentile, largest), and the
    time to its first token."""
    plain = [await ask(engine, [200 + 31 * i + j for j in range(12)], tokens) for i in range(streams)]
    while min(len(sink.times) for sink in plain) < 8:
        await asyncio.sleep(0.01)
    begin = time.perf_counter()
    late = await ask(engine, [300 + (i + 1) * (7919 + seed) % 20000 for i in range(2000)], 2)
    await asyncio.wait_for(late.end, 600)
    end = late.times[0]
    seen = []
    for sink in plain:
        times = [at for at in sink.times if begin <= at <= end]
        seen += [b - a for a, b in zip(times, times[1:])]
        sink.call.cancel()
    for sink in plain:
        await sink.end
    seen.sort()
    return statistics.median(seen), seen[int(0.99 * (len(seen) - 1))], seen[-1], end - begin


async def measure(address, arguments):
    async with capnp.kj_loop():
        client = capnp.TwoPartyClient(await capnp.AsyncIoStream.create_unix_connection(address))
        engine = (await client.bootstrap().cast_as(SCHEMA.Entrance).enter(b"")).engine
        await rate(engine, arguments.streams, 20, "json")  # starts what constraints need
        names = arguments.last.split(",")
        rates = {name: [] for name in names}
        for _ in range(arguments.rounds):
            for name in names:
                rates[name].append(await rate(engine, arguments.streams, arguments.tokens, name))
        plain = statistics.median(rates[names[0]])
        for name, seen in rates.items():
            middle = statistics.median(seen)
            print(f"last stream {name:6} {middle:7.1f} tokens/s of the others, {middle / plain:.3f} of the first "
                  f"(from {min(seen):.1f} to {max(seen):.1f})", flush=True)
        for seed in range(arguments.rounds):
            middle, p99, largest, ttft = await gaps(engine, arguments.streams // 2, 3000, seed)
            print(f"a prompt of 2000 tokens: gaps of the others {1e3 * middle:.1f} ms, p99 {1e3 * p99:.1f}, largest "
                  f"{1e3 * largest:.1f}; its first token after {ttft:.2f} s", flush=True)
        await engine.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--streams", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--last", default=",".join(LAST))
    parser.add_argument("--engine", default="--tp 1 --threads 1", help="more words of the engine's command")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lockstep-neighbours-") as folder:
        words = [arguments.program, "engine", "--model", arguments.model, "--launch", "processes", "--max-seq-len", "4096",
                 "--batch-size", str(arguments.streams + 1), "--socket", f"{folder}/engine.sock", *arguments.engine.split()]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as engine:
            try:
                asyncio.run(measure(engine.stdout.readline().strip(), arguments))
            finally:
                engine.terminate()


if __name__ == "__main__":
    main()
