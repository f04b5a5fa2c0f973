"""Mixed traffic for a while: no memory grows, no slot is lost, and every answer is what its request deserves.

    soak_test.py PROGRAM TOKENIZER SECONDS          TOKENIZER: a model's directory, of which only the tokenizer is used

The model is tiny and random, so that there are as many requests as possible. Its clients draw from fixed seeds.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
import unittest

import crowd_test
import served
import traffic

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "compare"))
import make_model  # noqa: E402

PROGRAM = TOKENIZER = SECONDS = None
CLIENTS, SEED, SLOTS = 16, 24, 4
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128,
          "hidden_act": "silu", "vocab_size": 49152, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5,
          "rope_theta": 10000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "bos_token_id": 1,
          "eos_token_id": 2}
# An engine keeps 32 compiled constraints, each in a process with one socket of rank 0, and one process that makes them.
# A long run compiles more of them than that in its warm-up.
CONSTRAINT_PROCESSES = 33
LONG, SCHEMAS, FEW_SCHEMAS = 600, 400, 4
# The warm-up is the first part of the run, and lasts until each kind of request was there so many times.
WARM_UP, WARM_COUNT = 0.3, 8
# Growth in bytes between the medians of the first and the last third of the samples after the warm-up. In a short run
# some buffers of the engine (of 16 MiB on each rank) have not met their largest request yet.
MOST_GROWTH = {"door": 4 << 20, "rank 0": 8 << 20, "rank 1": 4 << 20}
MOST_SHORT_GROWTH = {"door": 4 << 20, "rank 0": 40 << 20, "rank 1": 24 << 20}
LEAST_SAMPLES = 9
SLOWEST = 300  # seconds more than asked for that a run may take on a slow machine
KNOWN = [crowd_test.completion("The keeper wrote", temperature=0), crowd_test.completion("Rain", temperature=1, seed=5),
         crowd_test.chat("Name a city.", temperature=0, logprobs=True, top_logprobs=3),
         crowd_test.completion(traffic.SHARED[0], temperature=0.7, seed=9, n=2),
         crowd_test.chat("As JSON.", temperature=0, max_tokens=40, response_format={
             "type": "json_schema", "json_schema": {"name": "thing", "schema": traffic.SCHEMA, "strict": True}})]


def write_model(folder):
    (folder / "shape.json").write_text(json.dumps(CONFIG))
    make_model.make(folder / "shape.json", folder / "tiny", ("safetensors",))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(pathlib.Path(TOKENIZER) / name, folder / "tiny" / name)
    return folder / "tiny"


def private_bytes(pid):
    """What the process alone has: no files, no memory that the ranks share."""
    return int(re.search(r"RssAnon:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) << 10


def descriptors(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


class Run:
    """The traffic of all clients. It lasts for SECONDS, or until each kind was there often enough."""

    def __init__(self, server, processes, known):
        self.server, self.processes, self.known = server, processes, known
        self.failures = []
        self.done = collections.Counter({kind.__name__: 0 for kind in traffic.KINDS}, known=0)
        self.samples = {name: [] for name in processes}
        self.lock, self.is_over = threading.Lock(), threading.Event()

    def run(self):
        """Whether it came to its end."""
        clients = [threading.Thread(target=self.act, args=(number,)) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        begin, has_ended = time.monotonic(), False
        while not self.failures and not has_ended and time.monotonic() - begin < SECONDS + SLOWEST:
            self.is_over.wait(max(0.1, SECONDS / 300))
            passed, least = time.monotonic() - begin, min(self.done.values())
            if passed > WARM_UP * SECONDS and least >= WARM_COUNT:
                for name, pid in self.processes.items():
                    self.samples[name].append(private_bytes(pid))
            has_ended = passed > SECONDS and least >= 2 * WARM_COUNT and len(self.samples["door"]) >= LEAST_SAMPLES
        self.is_over.set()
        for client in clients:
            client.join()
        return has_ended

    def act(self, number):
        client = traffic.Client(self.server, "tiny", number, SEED, SCHEMAS if SECONDS >= LONG else FEW_SCHEMAS)
        kinds = [*traffic.KINDS, self.ask_known]
        while not self.is_over.is_set():
            client.random.shuffle(kinds)
            for kind in kinds:
                if self.is_over.is_set():
                    return
                self.attempt(kind, client)

    def attempt(self, kind, client):
        name = "known" if kind == self.ask_known else kind.__name__
        try:
            kind(client)
        except Exception as failure:  # noqa: BLE001  none may be lost with its thread
            with self.lock:
                self.failures.append(f"{name} of client {client.number}: {failure!r}"[:2000])
        with self.lock:
            self.done[name] += 1

    def ask_known(self, client):
        index = client.random.randrange(len(KNOWN))
        answer = crowd_test.essence(client.good(*KNOWN[index]))
        assert answer == self.known[index], (KNOWN[index], answer, self.known[index])


class Soak(unittest.TestCase):
    maxDiff = None

    def test_mixed_traffic_leaves_the_server_as_it_was(self):
        with tempfile.TemporaryDirectory() as folder:
            model = write_model(pathlib.Path(folder))
            with served.Served(PROGRAM, model, "--tp", 2, "--threads", 1, "--batch-size", SLOTS, "--max-seq-len", 768,
                               "--prefill-chunk", 64) as server:
                self.soak(server)
            self.assertEqual(server.process.returncode, 0)

    def soak(self, server):
        ranks = served.ranks_below(server.process.pid)
        processes = {"door": server.process.pid, **{f"rank {rank}": pid for rank, pid in ranks.items()}}
        known = [self.known_answer(server, request) for request in KNOWN]
        self.wait_until_idle(server)
        said_before = len(server.said())
        open_before = {name: descriptors(pid) for name, pid in processes.items()}

        run = Run(server, processes, known)
        has_ended = run.run()
        print(f"{sum(run.done.values())} requests and more: {dict(run.done)}", file=sys.stderr)
        self.assertEqual(run.failures[:5], [], server.said()[-4000:])
        self.assertTrue(has_ended, "the machine is too slow for the least number of requests")

        self.wait_until_idle(server)
        for index, request in enumerate(KNOWN):
            self.assertEqual(self.known_answer(server, request), known[index])
        open_before["rank 0"] += CONSTRAINT_PROCESSES
        for name, pid in processes.items():
            self.assertTrue(served.until(lambda pid=pid, name=name: descriptors(pid) <= open_before[name]),
                            f"{name} has {descriptors(pid)} descriptors, expected at most {open_before[name]}")
        most = len(ranks) + CONSTRAINT_PROCESSES
        self.assertTrue(served.until(lambda: len(served.processes_below(server.process.pid)) <= most),
                        served.processes_below(server.process.pid))
        self.check_memory(run.samples)
        self.check_log(server.said()[said_before:])

    def known_answer(self, server, request):
        status, answer = server.post(*request)
        self.assertEqual(status, 200, answer)
        return crowd_test.essence(answer)

    def wait_until_idle(self, server):
        """No request is left, no slot is in use, and the metrics agree."""
        def is_idle():
            health, status = server.get("/health")[1], server.get("/admin/status")[1]
            metrics = server.get("/metrics")[1]
            return (health["open_requests"], health["running"], health["queue"]) == (0, 0, 0) and all(
                slot["state"] in ("free", "kept") for slot in status["slots"]) and len(status["slots"]) == SLOTS and (
                "\nlockstep_requests_running 0\n" in metrics and "\nlockstep_requests_waiting 0\n" in metrics)
        self.assertTrue(served.until(is_idle), server.get("/admin/status")[1]["slots"])

    def check_memory(self, samples):
        most = MOST_GROWTH if SECONDS >= LONG else MOST_SHORT_GROWTH
        for name, taken in samples.items():
            third = len(taken) // 3
            first, last = statistics.median(taken[:third]), statistics.median(taken[-third:])
            print(f"{name}: {first / 2**20:.1f} MiB after the warm-up, {last / 2**20:.1f} at the end", file=sys.stderr)
            if "ASAN_OPTIONS" not in os.environ:  # which keeps freed memory, and names leaks itself
                self.assertLessEqual(last - first, most[name], name)

    def check_log(self, log):
        """Nothing but requests, and none that failed."""
        self.assertEqual([line for line in log.split("\n") if line and not re.search(r"\] \S+ request \w+=", line)], [])
        failed = [line for line in log.split("\n") if re.search(r"request .*status=5", line)]
        self.assertEqual(failed, [])


if __name__ == "__main__":
    PROGRAM, TOKENIZER, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
