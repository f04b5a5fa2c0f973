"""A running `lockstep serve` for tests: its address, its processes, plain HTTP."""
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
from waiting import DEADLINE, signal_if_there, until  # noqa: E402, F401



def processes_below(pid):
    """{pid: name} of the processes below `pid` that have not ended."""
    parents, names = {}, {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name, rest = (folder / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        except (OSError, IndexError):
            continue  # it has ended
        state, parent = rest.split()[:2]
        if state != "Z":
            parents[int(folder.name)], names[int(folder.name)] = int(parent), name
    below, found = {pid}, {}
    while below:
        below = {child for child, parent in parents.items() if parent in below}
        found |= {child: names[child] for child in below}
    return found


def variables_of(pid):
    """The environment with which a process was started."""
    words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    return dict(word.partition("=")[::2] for word in words)


def ranks_below(pid):
    """{rank: pid} of the processes named lockstep below `pid`. What a rank has forked has its name and variables, too,
    until it becomes another program; processes come before those below them."""
    ranks = {}
    for child, name in processes_below(pid).items():
        if name != "lockstep":
            continue
        try:
            ranks.setdefault(int(variables_of(child)["LOCKSTEP_RANK"]), child)
        except (FileNotFoundError, ProcessLookupError, KeyError):
            pass  # it has ended meanwhile, or has not begun
    return ranks


def started_rank(pid, rank, other_than=None):
    """Waits for a process of `rank` below `pid`, other than an old one that may not have ended yet. Returns its id, or
    False where none comes."""
    def found():
        started = ranks_below(pid).get(rank)
        return started if started != other_than else None
    return until(found)


def is_alive(pid):
    try:
        return ") Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=DEADLINE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(self.path)


class Served:
    """Starts the server on a free port; ends it with the block. `words` are more words of the command line, `before` is a
    launcher in front of it; `command` stands in for `program serve`."""

    def __init__(self, program, model, *words, address=("--port", 0), before=(), command=None, environment=None):
        self.output = tempfile.TemporaryFile("w+")
        command = [*before, *(command or (program, "serve")), "--model", model, *address, *words]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=self.output,
                                        stdin=subprocess.DEVNULL, text=True, env=environment)
        self.url = self.process.stdout.readline().strip()  # empty: it ended

    def __enter__(self):
        if not self.url:
            self.process.wait(DEADLINE)
            raise AssertionError(self.said())
        end = time.monotonic() + DEADLINE
        while self.get("/health")[0] != 200:
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(self.said())
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        self.output.close()

    def said(self):
        self.output.seek(0)
        return self.output.read()

    def connect(self):
        if self.url.startswith("unix:"):
            return UnixConnection(self.url[len("unix:"):])
        return http.client.HTTPConnection(urllib.parse.urlsplit(self.url).netloc, timeout=DEADLINE)

    def call(self, method, path, body=None, headers=None):
        """(status, decoded JSON or text)"""
        connection = self.connect()
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            text = answer.read().decode()
            is_json = answer.headers.get("Content-Type", "").startswith("application/json")
            return answer.status, json.loads(text) if is_json else text
        finally:
            connection.close()

    def get(self, path):
        return self.call("GET", path)

    def post(self, path, body):
        return self.call("POST", path, body)

    def events(self, path, body):
        """The decoded data lines of a stream, without [DONE]."""
        status, text = self.post(path, {**body, "stream": True})
        assert status == 200, text
        lines = [line[len("data: "):] for line in text.split("\n") if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"]
