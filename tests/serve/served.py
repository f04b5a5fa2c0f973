"""A running `lockstep serve` for tests: its address, its processes, plain HTTP."""
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse

DEADLINE = 120  # seconds of any wait; only a hang gets there


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
    """Starts the server on a free port; ends it with the block. `words` are more words of the command line."""

    def __init__(self, program, model, *words, address=("--port", 0)):
        self.output = tempfile.TemporaryFile("w+")
        command = [program, "serve", "--model", model, *address, *words]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=self.output,
                                        stdin=subprocess.DEVNULL, text=True)
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
