"""`lockstep serve` with ranks of mpirun and of other launchers: the answers of `lockstep generate`, and the end of all.

    launchers_test.py PROGRAM MODEL
"""
import getpass
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import unittest

import served

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import launches  # noqa: E402
import test_folder  # noqa: E402
import tiny_model  # noqa: E402

PROGRAM = MODEL = None
MPIRUN = ("mpirun", "-n", 2, *launches.CROWDED)
TEMPLATE = " ".join(map(str, ("mpirun", "-n", "{ranks}", *launches.CROWDED)))
ENVIRONMENT = {**launches.environment(), "OMPI_MCA_mpi_yield_when_idle": "1"}
PROMPTS = ["Once upon a time", "The capital of France is", "One two three four"]


def run(*words):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=served.DEADLINE, check=False,
                          env=ENVIRONMENT)


def rank_of(pid):
    return served.variables_of(pid).get("OMPI_COMM_WORLD_RANK")


class Servers(test_folder.FolderTests):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tiny = tiny_model.write(cls.folder / "tiny")
        tiny_model.write_tokenizer(cls.tiny)

    def serve(self, model, *words, before=(), environment=None):
        return served.Served(PROGRAM, model, "--threads", 1, *words, before=before,
                             environment={**ENVIRONMENT, **(environment or {})})

    def expect_answers(self, server, model, prompts, headers=None):
        """The texts are those of `lockstep generate` on one rank."""
        if not hasattr(self, "expected"):
            report = self.folder / "report.json"
            done = run(PROGRAM, "generate", "--model", model, "--launch", "threads", "--threads", 1, "--max-new-tokens", 8,
                       "--no-do-sample", "--json", report, *(word for prompt in prompts for word in ("--prompt", prompt)))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.expected = json.loads(report.read_text())["texts"]
        status, answer = server.call("POST", "/v1/completions",
                                     {"prompt": prompts, "max_tokens": 8, "temperature": 0}, headers)
        self.assertEqual(status, 200, answer)
        self.assertEqual([choice["text"] for choice in answer["choices"]], self.expected)

    def expect_nothing_left(self, processes):
        self.assertTrue(served.until(lambda: not any(map(served.is_alive, processes))), processes)


class UnderMpirun(Servers):
    def test_its_ranks_serve_and_rank_0_lets_open_requests_end(self):
        keys, endpoint = self.folder / "keys", self.folder / "endpoint.json"
        keys.write_text("open-sesame\n")
        headers = {"Authorization": "Bearer open-sesame"}
        with self.serve(MODEL, "--max-seq-len", 2048, "--batch-size", 4, "--api-key-file", keys, "--endpoint-file",
                        endpoint, before=MPIRUN, environment={"PBS_JOBID": "17.head"}) as server:
            processes = served.processes_below(server.process.pid)
            door, = [pid for pid, name in processes.items() if name == "lockstep-serve"]
            ranks = {rank_of(pid): pid for pid, name in processes.items() if name == "lockstep"}
            with self.subTest("one process for each rank, rank 0 below the server's own"):
                self.assertEqual(sorted(ranks), ["0", "1"])
                self.assertEqual(served.ranks_below(door), {0: ranks["0"]})
                self.assertEqual(rank_of(door), "0")
            with self.subTest("the answers of generate"):
                self.expect_answers(server, MODEL, PROMPTS, headers)
            with self.subTest("the endpoint file"):
                found = json.loads(endpoint.read_text())
                port = int(server.url.rsplit(":", 1)[1])
                self.assertEqual(found, {
                    "url": server.url, "host": socket.gethostname(), "port": port, "model": pathlib.Path(MODEL).name,
                    "pid": door, "api_key_file": str(keys), "job": "17.head",
                    "ssh": f"ssh -N -L {port}:127.0.0.1:{port} {getpass.getuser()}@{socket.gethostname()}",
                    "base_url": server.url + "/v1"})
            with self.subTest("a launcher's signal to the ranks leaves the end to the server"):
                for rank, pid in ranks.items():
                    os.kill(pid, signal.SIGTERM)
                    self.assertTrue(served.until(lambda rank=rank: f"[r{rank}] leaves the end" in server.said()))
                self.expect_answers(server, MODEL, PROMPTS, headers)
            connection = server.connect()
            connection.request("POST", "/v1/completions", json.dumps(
                {"prompt": PROMPTS[0], "max_tokens": 2000, "ignore_eos": True, "stream": True}),
                {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            answer.read(10)
            os.kill(door, signal.SIGTERM)
            self.assertTrue(served.until(lambda: server.get("/health")[1]["state"] == "draining"))
            answer.read(2000)  # of several tokens
            connection.close()
            self.assertEqual(server.process.wait(served.DEADLINE), 0, server.said())
            self.expect_nothing_left(processes)
            self.assertFalse(endpoint.exists())

    def test_a_signal_to_mpirun_ends_everything(self):
        with self.serve(self.tiny, before=MPIRUN) as server:
            processes = served.processes_below(server.process.pid)
            self.assertGreaterEqual(len(processes), 3)
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(served.DEADLINE)
            self.expect_nothing_left(processes)

    def test_a_killed_process_ends_everything(self):
        for name, rank in (("lockstep-serve", "0"), ("lockstep", "0"), ("lockstep", "1")):
            with self.subTest(name=name, rank=rank), self.serve(self.tiny, before=MPIRUN) as server:
                processes = served.processes_below(server.process.pid)
                killed, = [pid for pid, own in processes.items() if own == name and rank_of(pid) == rank]
                os.kill(killed, signal.SIGKILL)
                self.assertNotEqual(server.process.wait(served.DEADLINE), 0)
                self.expect_nothing_left(processes)
                if name == "lockstep":
                    self.assertIn("starts them itself goes on after a loss", server.said())

    def test_its_ranks_start_no_others(self):
        for words, option in ((("--launch", "threads"), "--launch"), (("--launcher", TEMPLATE), "--launcher"),
                              (("--engine", self.folder / "none"), "--engine")):
            done = run(*MPIRUN, PROGRAM, "serve", "--model", self.tiny, "--port", 0, *words)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn(f"omit {option}, or start lockstep without the launcher", done.stderr)


class ByALauncher(Servers):
    def test_a_template_of_words_starts_the_ranks(self):
        with self.serve(self.tiny, "--tp", 2, "--launcher", TEMPLATE) as server:
            processes = served.processes_below(server.process.pid)
            ranks = {rank_of(pid): pid for pid, name in processes.items() if name == "lockstep"}
            self.assertEqual(sorted(ranks), ["0", "1"])
            self.assertEqual(len(processes), 3, processes)  # with mpirun
            self.expect_answers(server, self.tiny, ["one", "two"])
            os.kill(ranks["1"], signal.SIGKILL)
            self.assertTrue(served.until(lambda: "serves again" in server.said()), server.said())
            self.expect_nothing_left({pid: name for pid, name in processes.items() if name != "lockstep-serve"})
            self.expect_answers(server, self.tiny, ["one", "two"])

    def test_mpirun_and_threads_are_choices(self):
        for launch in ("threads",) if launches.CROWDED else ("threads", "mpirun"):
            with self.subTest(launch=launch), self.serve(self.tiny, "--tp", 2, "--launch", launch) as server:
                processes = served.processes_below(server.process.pid)
                self.expect_answers(server, self.tiny, ["one", "two"])
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(server.process.wait(served.DEADLINE), 0, server.said())
                self.expect_nothing_left(processes)

    def test_a_launcher_that_cannot_start_is_said(self):
        for launcher, code, words in (("no-such-launcher -n {ranks}", 2, "cannot start no-such-launcher"),
                                      ("mpirun '-n", 2, "--launcher: found a quote that is not closed"),
                                      (" ", 2, "--launcher: found no word"),
                                      (f"{TEMPLATE} env -u none", 4, "--tp: found 3")):
            done = run(PROGRAM, "serve", "--model", self.tiny, "--port", 0, "--tp", 3 if code == 4 else 1, "--launcher",
                       launcher.replace("{ranks}", "2") if code == 4 else launcher)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(words, done.stderr)

    def test_a_file_of_one_group_is_refused_with_several(self):
        for option in ("--trace", "--metrics"):
            for before, words in (((), ("serve", "--port", 0, "--replicas", 2)), (MPIRUN, ("engine", "--tp", 1))):
                done = run(*before, PROGRAM, *words, "--model", self.tiny, option, self.folder / "file")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"{option}: found 2 replicas", done.stderr)
                self.assertIn(f"omit {option} (/metrics", done.stderr)
                self.assertFalse((self.folder / "file").exists())


if __name__ == "__main__":
    PROGRAM, MODEL = sys.argv[1:3]
    if shutil.which("mpirun") is None:
        print("skipped: mpirun is not there (Debian: openmpi-bin)")
        sys.exit(launches.SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
