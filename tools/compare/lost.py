#!/usr/bin/env python3
"""What a client sees when a server's computing process is killed: of `lockstep serve` and of other servers.

    lost.py --program PATH-OF-LOCKSTEP --model DIR [--rival NAME=PYTHON]… [--gguf FILE] [--markdown OUT]

A client streams an answer without sampling twice: once undisturbed, and once while the process that computes is killed
(SIGKILL) after some tokens. It then asks every half second whether the server answers a new request. Standard library
only; the servers are those of servers.py.
"""
from __future__ import annotations

import argparse
import http.client
import json
import os
import pathlib
import signal
import sys
import time
from typing import Any

import servers
import streamed
from servers import Failed, Server

TOKENS, KILLED_AFTER = 200, 20
BACK_S, ANSWER_S, LOOK_S = 60.0, 90.0, 0.5
PROMPT = "Once upon a time there was a lighthouse keeper who"


def say(text: str) -> None:
    print(f"[lost] {text}", file=sys.stderr, flush=True)


def body_of(server: Server, tokens: int) -> str:
    return json.dumps({"model": server.model, "prompt": PROMPT, "max_tokens": tokens, "temperature": 0, "stream": True,
                       "seed": 1, **server.fields})


class Heard:
    """A streamed answer: its text, how it ended, the longest time without a word."""

    def __init__(self, server: Server, on_events: Any = None) -> None:
        self.text, self.end, self.longest, events = "", "broke off", 0.0, 0
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=ANSWER_S)
        try:
            connection.request("POST", "/v1/completions", body_of(server, TOKENS), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            for data, pause in streamed.events(answer):
                self.longest = max(self.longest, pause)
                if data == streamed.DONE:
                    self.end = "complete" if self.end != "an error" else self.end
                    return
                event = json.loads(data)
                if "error" in event or not event.get("choices"):
                    self.end = "an error" if "error" in event else self.end
                    continue
                self.text += event["choices"][0].get("text") or ""
                events += 1
                if on_events and events == KILLED_AFTER:
                    on_events()
        except (OSError, http.client.HTTPException, ValueError) as failure:
            self.end = f"broke off ({type(failure).__name__})"
        finally:
            connection.close()


def computing_process(server: Server) -> int:
    """The process of the server that has used the most processor time."""
    pids = [server.pid, *servers.children(server.pid)]
    return max(pids, key=servers.cpu_seconds)


def seconds_until_it_answers(server: Server) -> float | None:
    begin = time.monotonic()
    while time.monotonic() - begin < BACK_S:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=ANSWER_S)
            connection.request("POST", "/v1/completions", body_of(server, 1), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status == 200 and b"[DONE]" in answer.read():
                return time.monotonic() - begin
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(LOOK_S)
    return None


def row_of(server: Server) -> list[str]:
    whole = Heard(server)
    if whole.end != "complete":
        raise Failed(f"{server.name}: the undisturbed answer: {whole.end}")
    heard = Heard(server, lambda: os.kill(computing_process(server), signal.SIGKILL))
    back = seconds_until_it_answers(server)
    same = "the same" if heard.text == whole.text else f"{len(heard.text)} of {len(whole.text)} characters"
    return [server.name, heard.end, same, f"{heard.longest:.2f}" if heard.end == "complete" else "–",
            f"{back:.1f}" if back is not None else f"not within {BACK_S:.0f}"]


def lockstep(arguments: argparse.Namespace) -> Server:
    port = servers.free_port()
    return Server("lockstep", [arguments.program, "serve", "--model", str(arguments.model), "--port", str(port), "--tp",
                               str(arguments.tp), "--threads", "1", "--max-seq-len", "2048"], port, arguments.model.name)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--tp", type=int, default=2, help="our ranks")
    parser.add_argument("--rival", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--gguf", help="the same model for llama-cpp-python")
    parser.add_argument("--markdown", type=pathlib.Path)
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    starts = [lambda: lockstep(arguments)]
    for word in arguments.rival:
        name, python = word.split("=", 1)
        starts.append(lambda name=name, python=python: servers.RIVALS[name](python, arguments.model, arguments.gguf, 8, 2048))
    lines, failed = [["server", "the stream", "its text", "longest pause, s", "a new request is answered after, s"]], 0
    lines.append(["---"] * len(lines[0]))
    for start in starts:
        server = None
        try:
            server = start()
            lines.append(row_of(server))
            say(", ".join(lines[-1]))
        except Failed as failure:
            failed += 1
            say(str(failure))
        finally:
            if server is not None:
                server.stop()
    table = "".join("| " + " | ".join(cells) + " |\n" for cells in lines)
    if arguments.markdown:
        arguments.markdown.write_text(table)
    print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
