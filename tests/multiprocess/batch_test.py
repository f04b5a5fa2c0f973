"""Batch jobs that are killed at any moment and continue at another degree, and `supervise`, which restarts them.

    batch_test.py PROGRAM MODEL GOLDENS        with a tiny model; MODEL and GOLDENS are not used
"""
import fcntl
import json
import os
import pathlib
import random
import select
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import jobs
import mpirun
import program
import run_ranks

ROWS, NEW_TOKENS = 120, 32
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, COLUMNS, VOCABULARY = 48, 3, 6, 3, 8, 96, 64

CONFIG = {"model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
          "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "intermediate_size": COLUMNS, "hidden_act": "silu",
          "vocab_size": VOCABULARY, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
          "tie_word_embeddings": False, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2}


def write_model(folder):
    """A checkpoint of random weights, the same ones in every run."""
    rng = random.Random(5)
    shapes = {"model.embed_tokens": [VOCABULARY, HIDDEN], "lm_head": [VOCABULARY, HIDDEN], "model.norm": [HIDDEN]}
    for layer in range(LAYERS):
        own = {"input_layernorm": [HIDDEN], "post_attention_layernorm": [HIDDEN],
               "self_attn.q_proj": [HEADS * HEAD_DIM, HIDDEN], "self_attn.k_proj": [KV_HEADS * HEAD_DIM, HIDDEN],
               "self_attn.v_proj": [KV_HEADS * HEAD_DIM, HIDDEN], "self_attn.o_proj": [HIDDEN, HEADS * HEAD_DIM],
               "mlp.gate_proj": [COLUMNS, HIDDEN], "mlp.up_proj": [COLUMNS, HIDDEN], "mlp.down_proj": [HIDDEN, COLUMNS]}
        shapes.update({f"model.layers.{layer}.{name}": shape for name, shape in own.items()})
    header, data = {}, bytearray()
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [1.0 if len(shape) == 1 else rng.uniform(-0.5, 0.5) for _ in range(count)]
        begin = len(data)
        data += struct.pack(f"<{count}f", *values)
        header[name + ".weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(CONFIG))


def write_jobs(path, rows):
    """Greedy rows, rows sampled by their place or by their own seed, and one that does not fit."""
    rng = random.Random(6)
    with open(path, "w", encoding="utf-8") as file:
        for row in range(rows):
            job = {"id": f"row-{row}", "ids": [rng.randrange(3, VOCABULARY) for _ in range(rng.randrange(1, 30))]}
            if row % 3 > 0:
                job.update(do_sample=True, temperature=1.5)
            if row % 3 == 1:
                job.update(seed=row, max_new_tokens=rng.randrange(1, NEW_TOKENS))
            if row == 17:
                job["ids"] = job["ids"] * 200
            file.write(json.dumps(job) + "\n")


class BatchJob(unittest.TestCase):
    rows = ROWS

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.shared.cleanup)
        cls.model = pathlib.Path(cls.shared.name) / "model"
        cls.model.mkdir()
        write_model(cls.model)
        cls.jobs = pathlib.Path(cls.shared.name) / "jobs.jsonl"
        write_jobs(cls.jobs, cls.rows)
        out = pathlib.Path(cls.shared.name) / "whole.jsonl"
        code, _, stderr = program.run("generate", *cls.options(), "--output", out, "--launch", "threads")
        assert code == 0, stderr
        cls.whole = out.read_text()
        assert len(cls.whole.splitlines()) == cls.rows

    @classmethod
    def options(cls):
        return ["--model", str(cls.model), "--prompts-file", str(cls.jobs), "--max-new-tokens", str(NEW_TOKENS),
                "--max-seq-len", "80", "--ignore-eos", "--batch-size", "4", "--threads", "1"]

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.mark = run_ranks.mark()
        self.journal = self.folder / "journal"
        self.out = self.folder / "out.jsonl"

    def command(self, ranks, by_mpirun):
        words = [program.PROGRAM, "generate", *self.options(), "--journal", str(self.journal), "--output", str(self.out)]
        if by_mpirun:
            return [*mpirun.words(), "-n", str(ranks), *words]
        return [*words, "--launch", "threads", "--tp", str(ranks)]

    def start(self, command):
        output = open(self.folder / "output", "ab")
        self.addCleanup(output.close)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   start_new_session=True, env={**mpirun.environment(), **self.mark})
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
        run_ranks.end_job(self.mark)
        process.wait()

    def text(self):
        return (self.folder / "output").read_text(errors="replace")

    def journal_bytes(self):
        path = self.journal / "rows.journal"
        return path.stat().st_size if path.exists() else 0

    def ranks(self):
        """Process ids of the ranks that work on this test's journal, by rank."""
        found = {}
        prefix = f"{mpirun.RANK_VARIABLE}=".encode()
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if len(words) < 3 or words[1] != b"generate" or str(self.journal).encode() not in words:
                    continue
                environ = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            rank = [variable.split(b"=")[1] for variable in environ if variable.startswith(prefix)]
            found[int(rank[0]) if rank else 0] = int(entry.name)
        return found

    def wait_for_growth(self, process, beyond):
        """Waits until the journal is longer than `beyond` bytes, or the process has ended."""
        jobs.wait_until(lambda: self.journal_bytes() > beyond or process.poll() is not None, what="rows in the journal")

    def expect_whole(self):
        self.assertEqual(self.out.read_text(), self.whole)


class KilledJob(BatchJob):
    rows = 5 * ROWS  # more than the starts before the last can finish

    def test_loses_and_doubles_nothing_however_often_it_is_killed_at_whatever_degree(self):
        rng = random.Random(11)
        starts, killed = [(1, False), (2, True), (3, False), (3, True), (2, False)], 0
        for ranks, by_mpirun in starts:
            before = self.journal_bytes()
            process = self.start(self.command(ranks, by_mpirun))
            self.wait_for_growth(process, before)
            time.sleep(rng.uniform(0.0, 0.03))
            running = self.ranks()
            # Threads are one process.
            victims = rng.choice([[0], [ranks - 1], list(range(ranks))]) if by_mpirun else [0]
            was_running = process.poll() is None
            for rank in victims:
                if rank in running:
                    jobs.signal_if_there(running[rank])
            if len(victims) > 1 and process.poll() is None:
                process.kill()
            killed += was_running and process.wait(timeout=jobs.DEADLINE) != 0
            self.end(process)
        self.assertGreaterEqual(killed, 3, self.text())
        self.assertEqual(self.start(self.command(2, False)).wait(timeout=jobs.DEADLINE), 0, self.text())
        self.expect_whole()

    def test_writes_the_results_again_without_running(self):
        self.assertEqual(self.start(self.command(1, False)).wait(timeout=jobs.DEADLINE), 0, self.text())
        self.out.unlink()
        self.assertEqual(self.start(self.command(2, True)).wait(timeout=jobs.DEADLINE), 0, self.text())
        self.expect_whole()
        self.assertEqual(self.text().count("ready:"), 1)

    def test_refuses_a_second_process_and_another_job(self):
        process = self.start(self.command(1, False))
        self.wait_for_growth(process, 0)
        os.kill(process.pid, signal.SIGSTOP)
        code, _, stderr = program.run(*self.command(2, False)[1:])
        os.kill(process.pid, signal.SIGCONT)
        self.assertEqual(code, 4, stderr)
        self.assertIn("in use", stderr)
        self.assertEqual(process.wait(timeout=jobs.DEADLINE), 0, self.text())
        code, _, stderr = program.run(*self.command(1, False)[1:], "--temperature", "0.5")
        self.assertEqual(code, 2, stderr)
        self.assertIn("found temperature 0.5 now, expected none", stderr)


class SlowReader(BatchJob):
    def test_is_waited_for_longer_than_ranks_wait_for_each_other(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)  # less than the answers
        with open(self.folder / "output", "ab") as output:
            process = subprocess.Popen([program.PROGRAM, "generate", *self.options(), "--launch", "processes", "--tp", "2",
                                        "--deadline-s", "1"], stdin=subprocess.DEVNULL, stdout=writer, stderr=output,
                                       start_new_session=True, env={**os.environ, **self.mark})
        self.addCleanup(self.end, process)
        os.close(writer)
        select.select([reader], [], [], jobs.DEADLINE)
        time.sleep(2.0)  # the deadline has passed
        with open(reader, encoding="utf-8", closefd=False) as answers:
            self.assertEqual(answers.read(), self.whole, self.text())
        self.assertEqual(process.wait(timeout=jobs.DEADLINE), 0, self.text())


class Replicated(BatchJob):
    """Several groups of ranks that the job starts itself."""

    def replicated(self, replicas, ranks, *words):
        return self.start([*self.command(ranks, False), "--replicas", str(replicas), *map(str, words)])

    def groups(self):
        """The processes of each replica of this job, rank 0 first, by the replica's number."""
        found = {}
        prefix = f"{mpirun.RANK_VARIABLE}=".encode()
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--replica" in words and str(self.jobs).encode() in words:
                found.setdefault(int(words[words.index(b"--replica") + 1]), []).append(int(entry.name))
        return {number: sorted(pids) for number, pids in found.items()}

    def test_has_the_same_results_as_one_group(self):
        self.assertEqual(self.replicated(2, 1).wait(timeout=jobs.DEADLINE), 0, self.text())
        self.expect_whole()
        self.out.unlink()
        process = self.replicated(2, 3)  # every row is in the journal
        self.assertEqual(process.wait(timeout=jobs.DEADLINE), 0, self.text())
        self.assertEqual(self.text().count("ready:"), 1)  # of the first start; one replica says so
        self.expect_whole()

    def test_goes_on_when_groups_are_killed_and_leaves_nothing_behind(self):
        process = self.replicated(2, 2)
        for replica in (0, 1, 1):
            self.wait_for_growth(process, self.journal_bytes())
            self.assertIsNone(process.poll(), self.text())
            for pid in self.groups().get(replica, [])[:1]:
                jobs.signal_if_there(pid)
        self.assertEqual(process.wait(timeout=jobs.DEADLINE), 0, self.text())
        self.assertIn("starts replica", self.text())
        self.assertEqual(self.groups(), {})
        self.expect_whole()

    def test_ends_all_groups_at_ctrl_c_and_goes_on_later(self):
        process = self.replicated(2, 1)
        self.wait_for_growth(process, 0)
        os.kill(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(timeout=jobs.DEADLINE), 130, self.text())
        self.assertEqual(self.groups(), {})
        self.assertEqual(self.start(self.command(2, False)).wait(timeout=jobs.DEADLINE), 0, self.text())
        self.expect_whole()

    def test_says_why_no_group_can_start(self):
        process = self.replicated(2, 7)  # one more than the query heads
        self.assertEqual(process.wait(timeout=jobs.DEADLINE), 3, self.text())
        self.assertIn("query heads", self.text().splitlines()[-1])
        self.assertNotIn("starts replica", self.text())

    def test_is_for_batch_jobs_alone(self):
        code, _, stderr = program.run("generate", "--model", self.model, "--prompt", "a", "--replicas", "2")
        self.assertEqual(code, 2, stderr)
        self.assertIn("--prompts-file", stderr)
        code, _, stderr = program.run(*self.command(1, False)[1:], "--replicas", "2", "--trace", self.folder / "trace")
        self.assertEqual(code, 2, stderr)
        self.assertIn("records of one group", stderr)


class Supervised(BatchJob):
    def supervise(self, ranks, *options):
        return self.start([program.PROGRAM, "supervise", "--backoff-s", "0.05", *options, "--",
                           *self.command(ranks, True)])

    def kill_rank(self, process, rank, beyond):
        self.wait_for_growth(process, beyond)
        running = jobs.wait_until(lambda: self.ranks() or process.poll() is not None, what="ranks")
        self.assertIsNone(process.poll(), self.text())
        os.kill(running[rank], signal.SIGKILL)

    def names_losses(self, rank, count):
        """Whether each loss was named. An mpirun that ends all ranks may do so before one has a record of it."""
        named = self.text().count(f"lost rank {rank}")
        if not mpirun.ENDS_ALL:
            self.assertEqual(named, count, self.text())
        return named == count

    def test_goes_on_when_a_rank_is_killed(self):
        process = self.supervise(2)
        self.kill_rank(process, 1, 0)
        self.assertEqual(process.wait(timeout=jobs.DEADLINE), 0, self.text())
        self.names_losses(1, 1)
        self.assertIn("start 2", self.text())
        self.expect_whole()

    def test_goes_on_with_fewer_ranks_when_one_is_lost_twice(self):
        process = self.supervise(3, "--shrink")
        self.kill_rank(process, 2, 0)
        jobs.wait_until(lambda: "starting again" in self.text(), what="a restart")
        self.kill_rank(process, 2, self.journal_bytes())
        self.assertEqual(process.wait(timeout=jobs.DEADLINE), 0, self.text())
        self.assertEqual("going on with 2 ranks" in self.text(), self.names_losses(2, 2), self.text())
        self.expect_whole()

    def test_does_not_start_bad_input_again(self):
        bad = self.folder / "bad.jsonl"
        bad.write_text("{\"prompts\": 1}\n")
        command = [bad if word == str(self.jobs) else word for word in self.command(2, False)]
        process = self.start([program.PROGRAM, "supervise", "--", *map(str, command)])
        self.assertEqual(process.wait(timeout=jobs.DEADLINE), 2, self.text())
        self.assertIn("bad.jsonl line 1", self.text())
        self.assertNotIn("start 2", self.text())

    def test_ends_everything_at_ctrl_c(self):
        process = self.supervise(2)
        self.wait_for_growth(process, 0)
        os.kill(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(timeout=jobs.DEADLINE), 130, self.text())
        self.assertEqual(self.ranks(), {})


if __name__ == "__main__":
    program.start_tests("tools/fetch_demo_model.py")
