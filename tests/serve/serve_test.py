"""The processes of `lockstep serve`: keys, health, the end of clients, ranks and the server itself.

    serve_test.py PROGRAM MODEL
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import served

PROGRAM = MODEL = None
SIZES = ("--threads", 1, "--max-seq-len", 512, "--batch-size", 2)
LONG = {"prompt": "Once upon a time", "max_tokens": 400, "ignore_eos": True, "temperature": 0}


def ranks_below(pid):
    """{rank: pid} of the processes named lockstep below `pid`."""
    parents, names = {}, {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name, rest = (folder / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            parents[int(folder.name)], names[int(folder.name)] = int(rest.split()[1]), name
        except (OSError, IndexError):
            continue  # it has ended
    below, found = {pid}, {}
    for _ in range(4):
        below |= {child for child, parent in parents.items() if parent in below}
    for child in below - {pid}:
        if names[child] == "lockstep":
            environment = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            found[next(int(one.split(b"=")[1]) for one in environment if one.startswith(b"LOCKSTEP_RANK="))] = child
    return found


def until(condition):
    """Whether `condition` becomes true before the deadline."""
    end = time.monotonic() + served.DEADLINE
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


class Serve(unittest.TestCase):
    def test_a_server_with_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            keys, endpoint = pathlib.Path(folder, "keys"), pathlib.Path(folder, "endpoint.json")
            keys.write_text("# of the tests\nfirst-key\nsecond-key\n")
            with served.Served(PROGRAM, MODEL, "--tp", 2, *SIZES, "--api-key-file", keys, "--endpoint-file",
                               endpoint) as server:
                with self.subTest("what needs a key"):
                    for path in ("/v1/models", "/admin/status", "/tokenizer_info"):
                        self.assertEqual(server.get(path)[0], 401)
                        self.assertEqual(server.call("GET", path, headers={"Authorization": "Bearer other"})[0], 401)
                        self.assertEqual(server.call("GET", path, headers={"Authorization": "Bearer first-key"})[0], 200)
                        self.assertEqual(server.call("GET", path, headers={"x-api-key": "second-key"})[0], 200)
                    self.assertEqual(server.get("/v1/models")[1]["error"]["code"], "invalid_api_key")
                    for path in ("/", "/metrics", "/health", "/health/live", "/health/ready"):
                        self.assertEqual(server.get(path)[0], 200, path)
                with self.subTest("the endpoint file"):
                    self.assertEqual(endpoint.stat().st_mode & 0o777, 0o600)
                    self.assertEqual(json.loads(endpoint.read_text())["url"], server.url)
                with self.subTest("one process for each rank"):
                    self.assertEqual(sorted(ranks_below(server.process.pid)), [0, 1])
                    name = pathlib.Path(f"/proc/{server.process.pid}/comm").read_text().strip()
                    self.assertEqual(name, "lockstep-serve")
            self.assertEqual(server.process.returncode, 0)
            self.assertFalse(endpoint.exists())

    def test_a_server_without_keys(self):
        with served.Served(PROGRAM, MODEL, *SIZES, "--max-queue", 0) as server:
            with self.subTest("paths and methods"):
                self.assertEqual(server.get("/v1/nothing")[0], 404)
                self.assertEqual(server.post("/health", {})[0], 405)
                self.assertEqual(server.get("/v1/completions")[0], 405)
            with self.subTest("a client that goes away frees its slot"):
                for _ in range(2):
                    connection = server.connect()
                    connection.request("POST", "/v1/completions", json.dumps({**LONG, "stream": True}),
                                       {"Content-Type": "application/json"})
                    connection.getresponse().read(10)
                    self.assertEqual(server.get("/health")[1]["open_requests"], 1)
                    connection.close()
                    self.assertTrue(until(lambda: server.get("/health")[1]["open_requests"] == 0))
            with self.subTest("a constraint that would use up the machine"):
                many = {"type": "array", "items": {"type": "string"}, "minItems": 10**9}
                for hostile in ({"regex": r"(\w+\s?){2000}"}, {"response_format": {
                        "type": "json_schema", "json_schema": {"name": "many", "schema": many}}}):
                    chat = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 400, "temperature": 0}
                    status, answer = server.post("/v1/chat/completions", {**chat, **hostile})
                    self.assertEqual(status, 400, answer)
                    self.assertIn("[runtime/constraint] ", answer["error"]["message"])
                status, answer = server.post("/v1/chat/completions", {**chat, "regex": "[a-c]{3}"})
                self.assertEqual((status, len(answer["choices"][0]["message"]["content"])), (200, 3), answer)
            with self.subTest("a full server"):
                connections = []
                for _ in range(2):
                    connections.append(server.connect())
                    connections[-1].request("POST", "/v1/completions", json.dumps({**LONG, "stream": True}),
                                            {"Content-Type": "application/json"})
                    connections[-1].getresponse().read(10)
                status, answer = server.post("/v1/completions", {"prompt": "x", "max_tokens": 1})
                self.assertEqual(status, 429, answer)
                self.assertEqual(server.get("/health")[0], 200)  # busy is not ill
                for connection in connections:
                    connection.close()

    def test_a_killed_rank_ends_the_server_with_code_5(self):
        for rank in (0, 1):
            with self.subTest(rank=rank), served.Served(PROGRAM, MODEL, "--tp", 2, *SIZES) as server:
                ranks = ranks_below(server.process.pid)
                connection = server.connect()
                connection.request("POST", "/v1/completions", json.dumps({**LONG, "stream": True}),
                                   {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read(10)
                os.kill(ranks[rank], signal.SIGKILL)
                self.assertIn(b'"error"', answer.read())
                connection.close()
                self.assertEqual(server.process.wait(served.DEADLINE), 5, server.said())
                self.assertTrue(until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in ranks.values())))

    def test_a_frozen_rank_ends_the_server_with_code_5(self):
        for rank in (0, 1):
            with self.subTest(rank=rank), served.Served(PROGRAM, MODEL, "--tp", 2, "--silence-s", 2, *SIZES) as server:
                os.kill(ranks_below(server.process.pid)[rank], signal.SIGSTOP)
                self.assertEqual(server.get("/metrics")[0], 200)
                self.assertEqual(server.get("/admin/status")[0], 200)
                self.assertEqual(server.process.wait(served.DEADLINE), 5, server.said())

    def test_a_term_signal_lets_open_requests_end(self):
        with served.Served(PROGRAM, MODEL, *SIZES) as server:
            connection = server.connect()
            connection.request("POST", "/v1/completions", json.dumps({**LONG, "max_tokens": 60, "stream": True}),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read(10)
            server.process.send_signal(signal.SIGTERM)
            self.assertTrue(until(lambda: server.get("/health")[1]["state"] == "draining"))
            self.assertEqual(server.post("/v1/completions", {"prompt": "x", "max_tokens": 1})[0], 503)
            self.assertTrue(answer.read().endswith(b"data: [DONE]\n\n"))
            connection.close()
            self.assertEqual(server.process.wait(served.DEADLINE), 0, server.said())

    def test_a_model_that_cannot_be_served_ends_the_server_with_the_engines_code(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([PROGRAM, "serve", "--model", folder, "--port", "0"], capture_output=True, text=True,
                                  timeout=served.DEADLINE, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("config.json", done.stderr)

    def test_a_port_in_use_is_said(self):
        with served.Served(PROGRAM, MODEL, *SIZES) as server:
            port = server.url.rsplit(":", 1)[1]
            done = subprocess.run([PROGRAM, "serve", "--model", MODEL, "--port", port], capture_output=True, text=True,
                                  timeout=served.DEADLINE, check=False)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn(port, done.stderr)

    def test_the_servers_program_has_no_backend_and_no_mpi(self):
        program = pathlib.Path(PROGRAM).with_name("lockstep-serve")
        libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for name in ("libmpi", "libtorch", "libcaf", "libprotobuf"):
            self.assertNotIn(name, libraries)


if __name__ == "__main__":
    PROGRAM, MODEL = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
