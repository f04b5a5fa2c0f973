"""Injected faults of ranks (--fault), in every phase: reports, delays, remaining files and processes.

    fault_test.py PROGRAM [--table] [--slack F] [unittest arguments]

--table   every phase, rank and kind, for 2 and 4 ranks, instead of a selection
--slack   multiplies the bounds below, for busy machines
"""
import argparse
import array
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import jobs
import mpirun

DEATH = 2.0       # seconds from a death until every other process has ended
FREEZE = 2.0      # the same beyond --silence-s, which is 8 s unless it is given
SILENCE = 1.5     # --silence-s of these tests
START = 2.0       # --start-deadline-s if a rank dies before it has connected

PHASES = ("launch", "bootstrap", "plan", "connect", "load", "compile", "agreement", "session", "run", "prefill",
          "decode", "report", "finish")
PROGRAM = MODEL = None
TABLE, SLACK = False, 1.0
MEASURED = []


def write_tiny_llama(folder):
    """A Hugging Face directory: 2 layers, hidden 16, 4 query heads over 2, MLP 32, vocabulary 64; random weights."""
    config = {"model_type": "llama", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 32, "hidden_act": "silu", "vocab_size": 64,
              "max_position_embeddings": 1 << 20, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "tie_word_embeddings": False, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2}
    shapes = {"model.embed_tokens.weight": [64, 16], "model.norm.weight": [16], "lm_head.weight": [64, 16]}
    for layer in range(2):
        for name, shape in {"input_layernorm": [16], "post_attention_layernorm": [16], "self_attn.q_proj": [16, 16],
                            "self_attn.k_proj": [8, 16], "self_attn.v_proj": [8, 16], "self_attn.o_proj": [16, 16],
                            "mlp.gate_proj": [32, 16], "mlp.up_proj": [32, 16], "mlp.down_proj": [16, 32]}.items():
            shapes[f"model.layers.{layer}.{name}.weight"] = shape
    draw, header, data = random.Random(7), {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = array.array("f", (draw.uniform(-0.5, 0.5) for _ in range(count))).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "rows.json").write_text(json.dumps([[1, 5, 9, 13]]))


def arguments(*more, silence=SILENCE, tokens=64):
    return ["--model", str(MODEL), "--ids-file", str(MODEL / "rows.json"), "--ignore-eos", "--threads", "1",
            "--max-new-tokens", str(tokens), "--silence-s", str(silence), *more]


def fault(rank, phase, kind):
    step = ",step=5" if phase == "decode" else ""
    return ["--fault", f"rank={rank},phase={phase},kind={kind}{step}"]


@dataclasses.dataclass
class Case:
    ranks: int
    victim: int
    phase: str
    kind: str

    def bound(self):
        if self.phase == "launch":
            return (START + DEATH) * SLACK
        return (DEATH if self.kind == "kill" else SILENCE + FREEZE) * SLACK

    def options(self):
        return ["--start-deadline-s", str(START)] if self.phase == "launch" else []


def moment_of_fault(job):
    """The time of the fault, in unix time, as printed by the rank."""
    said = jobs.wait_until(lambda: re.search(r"--fault: rank \d+ fails in [\w-]+ at ([\d.]+)", job.text()),
                           what="the fault")
    return float(said[1])


def moment_of_exit(job, survivors):
    """The time at which the last surviving process was found to have ended."""
    jobs.wait_until(lambda: not set(job.pids(PROGRAM)) & set(survivors), what=f"the end of ranks {survivors}")
    return time.time()


class Faults(unittest.TestCase):
    def end_of(self, case, *options):
        """Runs the case; returns (seconds from the fault until the survivors ended, their records)."""
        job = jobs.Job(PROGRAM, case.ranks,
                       arguments(*fault(case.victim, case.phase, case.kind), *case.options(), *options))
        survivors = [rank for rank in range(case.ranks) if rank != case.victim]
        with job:
            struck = moment_of_fault(job)
            seconds = moment_of_exit(job, survivors) - struck
            records = [record for rank in survivors if (record := job.record_of_survivor(rank, 5.0))]
            for pid in job.pids(PROGRAM).values():  # the victim, if it is stopped
                jobs.signal_if_there(pid)  # the launcher may be faster
            job.wait()
            self.assertEqual(job.left_behind(), ([], []))
        return seconds, records

    def check(self, case, *options):
        seconds, records = self.end_of(case, *options)
        MEASURED.append((case, seconds))
        for record in records:
            self.assertNotEqual(record["code"], 0, record)
            self.assertEqual(record["host"], socket.gethostname())
            self.assertTrue(record["phase"] and record["operation"], record)
            if case.phase == "launch":
                self.assertEqual(record["code"], 6, record)
                if case.victim == 0 or record["rank"] == 0:
                    self.assertIn(f"no word from rank {case.victim}", record["message"])
                continue
            self.assertEqual((record["code"], record["lost_rank"]), (5, case.victim), record)
            self.assertIn(f"rank {case.victim} on host {socket.gethostname()} was lost", record["message"])
            self.assertIn(f"rank {record['rank']} on host", record["message"])
            if case.phase not in ("launch", "bootstrap", "plan"):
                self.assertGreater(record["sequence"], 0, record)
                self.assertIn(f"(operation {record['sequence']})", record["message"])
        self.assertLess(seconds, case.bound(), case)

    def check_all(self, cases):
        for case in cases:
            with self.subTest(case=case):
                self.check(case)

    def test_every_survivor_ends_in_time_and_names_the_lost_rank(self):
        if TABLE:
            return self.check_all(Case(ranks, victim, phase, kind) for ranks in (2, 4) for kind in ("kill", "stop")
                                  for phase in PHASES for victim in range(ranks))
        early = [Case(2, 0, "bootstrap", "stop")] if mpirun.NAMES_JOB else []
        self.check_all([Case(2, 1, "launch", "kill"), Case(2, 1, "bootstrap", "kill"), Case(2, 0, "load", "kill"),
                        Case(4, 2, "agreement", "kill"), Case(2, 0, "decode", "kill"), Case(2, 1, "finish", "kill"),
                        *early, Case(4, 3, "compile", "stop")])

    @unittest.skipIf(mpirun.NAMES_JOB, "the ranks of one host meet before MPI_Init")
    def test_a_rank_that_stops_before_the_ranks_have_met_ends_the_start_at_its_deadline(self):
        job = jobs.Job(PROGRAM, 2, arguments(*fault(0, "bootstrap", "stop"), "--start-deadline-s", str(START)))
        with job:
            struck = moment_of_fault(job)
            self.assertLess(moment_of_exit(job, [1]) - struck, (START + DEATH) * SLACK)
            self.assertEqual(job.wait_for_record(1)["code"], 6)

    @unittest.skipIf(mpirun.ENDS_ALL, "mpirun ends the others, watched or not")
    def test_the_check_fails_when_nobody_watches(self):
        # The test of the test above: it must be able to fail.
        with self.assertRaises(AssertionError):
            self.check(Case(2, 1, "load", "kill"), "--peer-detection", "off", "--deadline-s", "3")
        MEASURED.pop()

    def test_ranks_meet_over_tcp_where_the_launcher_knows_of_several_hosts(self):
        # The early connection depends on the launcher's number of ranks of this host.
        job = jobs.Job("/usr/bin/env", 2, arguments(*fault(1, "load", "kill")), before=[*mpirun.ALONE, str(PROGRAM)])
        with job:
            struck = moment_of_fault(job)
            self.assertLess(moment_of_exit(job, [0]) - struck, DEATH * SLACK)
            if record := job.record_of_survivor(0, 5.0):
                self.assertEqual(record["lost_rank"], 1)

    def test_two_deaths_at_once_end_the_others(self):
        # Killed from here, because a rank that kills itself in a phase may be ended by the other's death before that.
        with jobs.Job(PROGRAM, 4, arguments(tokens=500_000)) as job:
            job.wait_for_steps(PROGRAM)
            pids = job.pids(PROGRAM)
            struck = time.time()
            for sign in (signal.SIGSTOP, signal.SIGKILL):  # a stopped rank does not leave when the other dies
                for rank in (0, 2):
                    jobs.signal_if_there(pids[rank], sign)  # the launcher may be faster
            self.assertLess(moment_of_exit(job, [1, 3]) - struck, DEATH * SLACK)
            for rank in (1, 3):
                if record := job.record_of_survivor(rank, 5.0):
                    self.assertEqual(record["code"], 5, record)
                    self.assertIn(record["lost_rank"], (0, 2))


class OwnWords(unittest.TestCase):
    """A rank that fails with an error reports it before it leaves, and the others report the same error."""

    def expect_everywhere(self, job, ranks, code, origin, words):
        for rank in range(ranks):
            record = job.wait_for_record(rank)
            self.assertEqual(record["code"], code, record)
            self.assertIn(words, record["message"])
            self.assertIsNone(record["lost_rank"])
            if rank != origin:
                self.assertEqual(record["origin_rank"], origin, record)
                self.assertIn(f"rank {origin}", record["message"])

    def test_out_of_memory_on_one_rank_is_told_by_all(self):
        for rank, phase in ((2, "load"), (0, "compile"), (1, "decode"), (0, "finish"))[0 if TABLE else 2:]:
            with self.subTest(rank=rank, phase=phase), \
                    jobs.Job(PROGRAM, 3, arguments(*fault(rank, phase, "memory"))) as job:
                struck = moment_of_fault(job)
                self.assertLess(moment_of_exit(job, range(3)) - struck, DEATH * SLACK)
                self.expect_everywhere(job, 3, 7, rank, "out of memory")
                job.wait()
                self.assertEqual(job.left_behind(), ([], []))

    def test_an_error_on_one_thread_ends_all(self):
        for phase, kind, code in (("load", "memory", 7), ("decode", "memory", 7), ("report", "fail", 1)):
            with self.subTest(phase=phase, kind=kind), tempfile.TemporaryDirectory() as folder:
                command = [PROGRAM, "generate", *arguments(*fault(1, phase, kind)), "--launch", "threads", "--tp", "3",
                           "--exit-record", folder]
                done = subprocess.run(command, capture_output=True, timeout=jobs.DEADLINE, check=False)
                self.assertEqual(done.returncode, code, done.stderr.decode())
                for rank in range(3):
                    record = json.loads((pathlib.Path(folder) / f"rank-{rank}.json").read_text())
                    self.assertEqual(record["code"], code, record)

    def test_another_build_is_named_before_anything_else(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "lockstep"
            shutil.copy(PROGRAM, other)
            data = bytearray(other.read_bytes())
            note = data.index(struct.pack("<III4s", 4, 20, 3, b"GNU\0"))  # a build id of 20 bytes
            data[note + 16] ^= 1
            other.write_bytes(data)
            with jobs.Job("/usr/bin/env", 2, arguments(), per_program=[str(PROGRAM), str(other)]) as job:
                for rank in range(2):
                    record = job.wait_for_record(rank)
                    self.assertEqual(record["code"], 4, record)
                    self.assertIn("the ranks disagree on the program: rank 1 differs", record["message"])
                    self.assertIn("build ", record["message"])


class Drift(unittest.TestCase):
    def test_a_rank_whose_state_drifts_is_named_before_a_token_of_it_is_shown(self):
        for victim in (0, 2)[0 if TABLE else 1:]:
            with self.subTest(victim=victim), \
                    jobs.Job(PROGRAM, 3, arguments(*fault(victim, "decode", "differ"))) as job:
                moment_of_fault(job)
                for rank in range(3):
                    record = job.wait_for_record(rank)
                    self.assertEqual(record["code"], 4, record)
                    self.assertIn("ranks disagree at schedule 0 step 6", record["message"])
                    self.assertIn(f"on ranks {victim}", record["message"])
                job.wait()
                self.assertNotIn("<stdout>", job.text())


class FlightRecorder(unittest.TestCase):
    def test_a_hanging_rank_tells_where_it_waits_and_a_failing_one_why(self):
        with tempfile.TemporaryDirectory() as folder:
            dump = pathlib.Path(folder) / "rank-0.json"
            with jobs.Job(PROGRAM, 2, arguments(*fault(1, "decode", "stop"), "--flight-recorder", folder,
                                                silence=0)) as job:
                moment_of_fault(job)
                pids = job.pids(PROGRAM)

                def waits():
                    if not dump.exists():
                        return False
                    return json.loads(dump.read_text())["operations"][-1]["left"] is None

                def ask():
                    os.kill(pids[0], signal.SIGUSR1)
                    return waits()
                jobs.wait_until(ask, what="rank 0 to wait")
                self.assertEqual(json.loads(dump.read_text())["why"], "asked")
                os.kill(pids[1], signal.SIGKILL)
                record = job.record_of_survivor(0)
                job.wait()
            told = json.loads(dump.read_text())
            last = told["operations"][-1]
            if record:
                self.assertEqual(record["lost_rank"], 1)
                self.assertEqual((last["operation"], last["sequence"]), (record["operation"], record["sequence"]))
            self.assertEqual(last["group"], "model")
            if not mpirun.ENDS_ALL:
                self.assertIn("rank 1", told["why"])
            reader = pathlib.Path(__file__).parents[2] / "tools" / "read_flight.py"
            text = subprocess.run([sys.executable, reader, folder], capture_output=True, check=True).stdout.decode()
            self.assertIn(f"model operation {last['sequence']}: waited for by [0]", text)


def print_table():
    if not MEASURED:
        return
    print("\nseconds from the fault until the last survivor was gone\nranks  lost  phase      kind   found  bound")
    for case, seconds in MEASURED:
        print(f"{case.ranks:5}  {case.victim:4}  {case.phase:9}  {case.kind:4}  {seconds:6.2f} {case.bound():6.2f}")
    for kind in ("kill", "stop"):
        times = [(seconds, case) for case, seconds in MEASURED if case.kind == kind and case.phase != "launch"]
        if times:
            seconds, case = max(times, key=lambda each: each[0])
            print(f"worst {kind}: {seconds:.2f} s, rank {case.victim} of {case.ranks} in {case.phase}")


def main():
    global PROGRAM, MODEL, TABLE, SLACK
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--slack", type=float, default=1.0)
    options, rest = parser.parse_known_args()
    PROGRAM, TABLE, SLACK = options.program.resolve(), options.table, options.slack
    with tempfile.TemporaryDirectory(prefix="lockstep-model-") as folder:
        MODEL = pathlib.Path(folder)
        write_tiny_llama(MODEL)
        done = unittest.main(argv=[sys.argv[0], *rest], verbosity=2, exit=False)
    print_table()
    sys.exit(not done.result.wasSuccessful())


if __name__ == "__main__":
    main()
