"""A client of `lockstep engine`: sends ids, prints the text as it is made.

    lockstep engine --model DIR --launch processes --tp 2 --socket /tmp/engine.sock &
    python3 examples/rpc/stream.py /tmp/engine.sock 504 2365 253 655        (needs pycapnp)
"""
import asyncio
import pathlib
import sys

import capnp

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = capnp.load(str(ROOT / "engine" / "rpc" / "engine.capnp"), imports=[str(pathlib.Path(capnp.__file__).parents[1])])


class Printer(SCHEMA.Sink.Server):
    """Prints tokens; `end` becomes the answers."""

    def __init__(self):
        self.end = asyncio.get_running_loop().create_future()

    async def tokens(self, tokens, **_):
        for token in tokens:
            print(token.text, end="", flush=True)

    async def done(self, answers, **_):
        self.end.set_result([answer.reason for answer in answers])

    async def failed(self, failure, **_):
        self.end.set_exception(RuntimeError(failure.message))


async def main(socket, ids):
    async with capnp.kj_loop():
        client = capnp.TwoPartyClient(await capnp.AsyncIoStream.create_unix_connection(socket))
        engine = (await client.bootstrap().cast_as(SCHEMA.Entrance).enter(b"")).engine
        printer = Printer()
        request = {"ids": ids, "options": [{"name": "max_new_tokens", "value": "24"}]}
        opened = await engine.generate(request, printer)
        if opened.which() == "failure":
            raise RuntimeError(opened.failure.message)
        call = opened.call  # dropping it would cancel the request
        reasons = await printer.end
        del call
        print(f"\n({reasons[0]})", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], [int(word) for word in sys.argv[2:]]))
