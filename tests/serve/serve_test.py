"""The processes of `lockstep serve`: keys, health, logs, the end of clients, ranks, engines and the server itself.

    serve_test.py PROGRAM MODEL
"""
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
import unittest
import urllib.parse

import served

PROGRAM = MODEL = None
SIZES = ("--threads", 1, "--max-seq-len", 8192, "--batch-size", 2)
# Minutes on any machine: a test that catches it in the middle is no race.
LONG = {"prompt": "Once upon a time", "max_tokens": 8000, "ignore_eos": True, "temperature": 0}
SHORT = {"prompt": "Once upon a time", "max_tokens": 2, "temperature": 0}
METRICS = ("lockstep_requests_running", "lockstep_requests_waiting", "lockstep_prompt_tokens_total",
           "lockstep_generation_tokens_total", "lockstep_prefix_cached_tokens_total",
           "lockstep_time_to_first_token_seconds_count", "lockstep_inter_token_latency_seconds_count",
           "lockstep_request_duration_seconds_count", "lockstep_request_queue_seconds_count",
           "lockstep_prefix_cache_hits_total", "lockstep_engine_restarts_total", 'lockstep_ranks{state="ready"}',
           'lockstep_slots{state="decode"}', 'lockstep_rank_resident_bytes{rank="0"}')


def exists(pid):
    return pathlib.Path(f"/proc/{pid}").exists()


def begin(server, body=LONG, name="open"):
    """An open stream that has its first bytes: (connection, answer)."""
    connection = server.connect()
    connection.request("POST", "/v1/completions", json.dumps({**body, "stream": True}),
                       {"Content-Type": "application/json", "x-request-id": name})
    answer = connection.getresponse()
    answer.read(10)
    return connection, answer


def leave(stream):
    connection, answer = stream
    answer.close()
    connection.close()


def metrics(server):
    """{name with labels: value}"""
    lines = [line for line in server.get("/metrics")[1].splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def log_lines(server):
    """The lines of requests, in the order of their ends, as dictionaries."""
    return [dict(word.split("=", 1) for word in line.split(" request ", 1)[1].split() if "=" in word)
            for line in server.said().splitlines() if " request id=" in line]


class Serve(unittest.TestCase):
    def test_a_server_with_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            keys, endpoint = pathlib.Path(folder, "keys"), pathlib.Path(folder, "endpoint.json")
            keys.write_text("# of the tests\nfirst-key\nsecond-key\n")
            with served.Served(PROGRAM, MODEL, "--tp", 2, *SIZES, "--api-key-file", keys, "--endpoint-file",
                               endpoint, "--max-body-mib", 0.01) as server:
                with self.subTest("what needs a key"):
                    for path in ("/v1/models", "/admin/status", "/tokenizer_info"):
                        self.assertEqual(server.get(path)[0], 401)
                        self.assertEqual(server.call("GET", path, headers={"Authorization": "Bearer other"})[0], 401)
                        self.assertEqual(server.call("GET", path, headers={"Authorization": "Bearer first-key"})[0], 200)
                        self.assertEqual(server.call("GET", path, headers={"x-api-key": "second-key"})[0], 200)
                    self.assertEqual(server.get("/v1/models")[1]["error"]["code"], "invalid_api_key")
                    for path in ("/", "/metrics", "/health", "/health/live", "/health/ready"):
                        self.assertEqual(server.get(path)[0], 200, path)
                with self.subTest("a body without a key is not waited for"):
                    address = urllib.parse.urlsplit(server.url)
                    for path in ("/v1/completions", "/health"):
                        with socket.create_connection((address.hostname, address.port), served.DEADLINE) as client:
                            client.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"
                                           "Expect: 100-continue\r\n\r\n".encode())
                            answer = client.makefile("rb").read()
                        self.assertEqual(answer.split()[1], b"401")
                        self.assertIn(b"\r\nConnection: close\r\n", answer)
                with self.subTest("the log names each request and its client"):
                    key = {"x-api-key": "first-key"}
                    server.call("GET", "/v1/models", headers={"x-request-id": "without-key"})
                    server.call("GET", "/nothing", headers={**key, "x-request-id": "no-path"})
                    server.call("POST", "/v1/completions", {}, {**key, "x-request-id": "no-prompt"})
                    server.call("POST", "/v1/completions", SHORT, {**key, "x-request-id": "answered"})
                    self.assertEqual(server.call("POST", "/v1/completions", {"prompt": "x" * 20000}, key)[0], 413)
                    lines = log_lines(server)
                    found = {line["id"]: line for line in lines}
                    for name, status in (("without-key", 401), ("no-path", 404), ("no-prompt", 400), ("answered", 200)):
                        self.assertEqual(found[name]["status"], str(status))
                        self.assertTrue(found[name]["client"].startswith("127.0.0.1:"), found[name])
                    self.assertGreaterEqual(float(found["answered"]["queue_s"]), 0.0)
                    self.assertEqual([line["error"] for line in lines if line["status"] == "413"], ["body_too_large"])
                with self.subTest("the endpoint file"):
                    self.assertEqual(endpoint.stat().st_mode & 0o777, 0o600)
                    self.assertEqual(json.loads(endpoint.read_text())["url"], server.url)
                with self.subTest("one process for each rank"):
                    self.assertEqual(sorted(served.ranks_below(server.process.pid)), [0, 1])
                    name = pathlib.Path(f"/proc/{server.process.pid}/comm").read_text().strip()
                    self.assertEqual(name, "lockstep-serve")
            self.assertEqual(server.process.returncode, 0)
            self.assertFalse(endpoint.exists())

    def test_a_server_without_keys(self):
        with served.Served(PROGRAM, MODEL, *SIZES, "--max-queue", 2, "--silence-s", served.DEADLINE) as server:
            with self.subTest("paths and methods"):
                self.assertEqual(server.get("/v1/nothing")[0], 404)
                self.assertEqual(server.post("/health", {})[0], 405)
                self.assertEqual(server.get("/v1/completions")[0], 405)
            with self.subTest("a client that goes away frees its slot"):
                for _ in range(2):
                    stream = begin(server)
                    self.assertEqual(server.get("/health")[1]["open_requests"], 1)
                    self.assertTrue(served.until(lambda: metrics(server)["lockstep_requests_running"] == 1))
                    leave(stream)
                    self.assertTrue(served.until(lambda: server.get("/health")[1]["open_requests"] == 0))
                    self.assertTrue(served.until(lambda: metrics(server)["lockstep_requests_running"] == 0))
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
            with self.subTest("200 idle connections harm no request"):
                parts = urllib.parse.urlsplit(server.url)
                idle = [socket.create_connection((parts.hostname, parts.port)) for _ in range(200)]
                for one in idle[::2]:
                    one.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-")
                self.assertEqual(server.post("/v1/completions", SHORT)[0], 200)
                self.assertEqual(server.get("/health")[0], 200)
                for one in idle:
                    one.close()
            with self.subTest("a full server, and the order of those who wait"):
                running = [begin(server), begin(server)]
                waiting = []
                for name, priority in (("usual", 0), ("urgent", -1)):
                    waiting.append(server.connect())
                    waiting[-1].request("POST", "/v1/completions", json.dumps({**SHORT, "priority": priority}),
                                        {"Content-Type": "application/json", "x-request-id": name})
                self.assertTrue(served.until(lambda: metrics(server)["lockstep_requests_waiting"] == 2))
                status, answer = server.post("/v1/completions", SHORT)
                self.assertEqual(status, 429, answer)
                self.assertEqual(server.get("/health")[0], 200)  # busy is not ill
                self.assertEqual(metrics(server)['lockstep_slots{state="decode"}'], 2)
                leave(running[0])
                for connection in waiting:
                    self.assertEqual(connection.getresponse().status, 200)
                    connection.close()
                leave(running[1])
                self.assertEqual([line["id"] for line in log_lines(server) if line["id"] in ("usual", "urgent")],
                                 ["urgent", "usual"])
            with self.subTest("a frozen engine holds up no answer of the server itself"):
                rank = served.ranks_below(server.process.pid)[0]
                os.kill(rank, signal.SIGSTOP)
                for path in ("/metrics", "/admin/status", "/health/live"):
                    self.assertEqual(server.get(path)[0], 200)
                os.kill(rank, signal.SIGCONT)
                self.assertEqual(server.post("/v1/completions", SHORT)[0], 200)
            with self.subTest("the names of metrics"):
                self.assertLessEqual(set(METRICS), set(metrics(server)))

    def test_a_killed_rank_ends_the_server_with_code_5(self):
        for rank in (0, 1):
            with self.subTest(rank=rank), served.Served(PROGRAM, MODEL, "--tp", 2, "--on-lost-rank", "stop", *SIZES) as server:
                ranks = served.ranks_below(server.process.pid)
                connection, answer = begin(server)
                os.kill(ranks[rank], signal.SIGKILL)
                self.assertIn(b'"error"', answer.read())
                connection.close()
                self.assertEqual(server.process.wait(served.DEADLINE), 5, server.said())
                self.assertFalse(any(exists(pid) for pid in ranks.values()))  # the server has reaped all of them
                if rank == 1:
                    self.assertIn("rank 1", server.said().split("lockstep: ")[-1])

    def test_a_frozen_rank_ends_the_server_with_code_5(self):
        for rank in (0, 1):
            with self.subTest(rank=rank), served.Served(PROGRAM, MODEL, "--tp", 2, "--silence-s", 2, "--on-lost-rank", "stop",
                                                          *SIZES) as server:
                ranks = served.ranks_below(server.process.pid)
                os.kill(ranks[rank], signal.SIGSTOP)
                self.assertEqual(server.process.wait(served.DEADLINE), 5, server.said())
                self.assertIn("rank 0 is frozen" if rank == 0 else "rank 1", server.said().split("lockstep: ")[-1])
                self.assertFalse(any(exists(pid) for pid in ranks.values()))

    def test_a_term_signal_lets_open_requests_end(self):
        with served.Served(PROGRAM, MODEL, *SIZES, "--drain-s", served.DEADLINE) as server:
            endless = begin(server)  # so that it drains until this client has gone
            connection, answer = begin(server, {**LONG, "max_tokens": 60})
            server.process.send_signal(signal.SIGTERM)
            self.assertTrue(served.until(lambda: server.get("/health")[1]["state"] == "draining"))
            refused = server.connect()
            refused.request("POST", "/v1/completions", json.dumps(SHORT), {"Content-Type": "application/json"})
            response = refused.getresponse()
            self.assertEqual((response.status, response.headers["Connection"]), (503, "close"))
            refused.close()
            self.assertTrue(answer.read().endswith(b"data: [DONE]\n\n"))
            connection.close()
            self.assertIsNone(server.process.poll())
            leave(endless)
            self.assertEqual(server.process.wait(served.DEADLINE), 0, server.said())

    def test_a_second_term_signal_stops_at_once(self):
        with served.Served(PROGRAM, MODEL, *SIZES, "--drain-s", 1000) as server:
            ranks = served.ranks_below(server.process.pid)
            connection, answer = begin(server)
            server.process.send_signal(signal.SIGTERM)
            self.assertTrue(served.until(lambda: server.get("/health")[1]["state"] == "draining"))
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(served.DEADLINE), 130, server.said())
            with self.assertRaises((http.client.HTTPException, OSError)):
                answer.read()  # cut
            connection.close()
            self.assertFalse(any(exists(pid) for pid in ranks.values()))

    def test_it_serves_at_a_unix_socket_with_ranks_as_threads(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "serve.sock")
            with served.Served(PROGRAM, MODEL, *SIZES, "--tp", 2, "--launch", "threads",
                               address=("--unix-socket", path)) as server:
                self.assertEqual(server.url, f"unix:{path}")
                self.assertEqual(path.stat().st_mode & 0o777, 0o600)
                self.assertEqual(server.get("/health")[1]["ranks"], ["ready", "ready"])
                self.assertEqual(sorted(served.ranks_below(server.process.pid)), [0])  # one process
                self.assertEqual(server.post("/v1/completions", SHORT)[0], 200)
            self.assertEqual(server.process.returncode, 0)
            self.assertFalse(path.exists())

    def test_it_serves_an_engine_that_runs_already_and_leaves_it_running(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "engine.sock")
            words = [PROGRAM, "engine", "--model", MODEL, *SIZES, "--launch", "processes", "--socket", path]
            with subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                  text=True) as engine:
                try:
                    self.assertEqual(engine.stdout.readline().strip(), str(path))
                    for _ in range(2):  # one server after the other
                        with served.Served(PROGRAM, MODEL, "--engine", path) as server:
                            self.assertEqual(server.post("/v1/completions", SHORT)[0], 200)
                            self.assertEqual(served.ranks_below(server.process.pid), {})
                        self.assertEqual(server.process.returncode, 0)
                        self.assertIsNone(engine.poll())
                    with served.Served(PROGRAM, MODEL, "--engine", path) as server:
                        engine.kill()
                        self.assertEqual(server.process.wait(served.DEADLINE), 5, server.said())
                finally:
                    engine.kill()

    def test_a_model_that_cannot_be_served_ends_the_server_with_the_engines_code(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([PROGRAM, "serve", "--model", folder, "--port", "0"], capture_output=True, text=True,
                                  timeout=served.DEADLINE, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("config.json", done.stderr)

    def test_a_port_in_use_is_said(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
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
