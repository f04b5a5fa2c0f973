"""A rank dies, is interrupted or differs: every survivor reports it at once, and nothing is left.

    failure_test.py PROGRAM MODEL GOLDENS
"""
import json
import os
import pathlib
import shutil
import signal
import tempfile
import unittest

import jobs
import mpirun
import program

BOUND = 2.0  # seconds from a death to the last survivor's record

BETWEEN = ("confirm", "idle", "slots")  # phases between two schedules, which a kill can also hit

ENDLESS = ["--prompt", "Once upon a time", "--ignore-eos", "--max-new-tokens", "6000"]
LONG_PROMPT = ["--prefill-chunk", "4", "--max-new-tokens", "8", "--ignore-eos"]


def endless_job(ranks, *options, **more):
    return jobs.Job(program.PROGRAM, ranks, ["--model", program.MODEL, *ENDLESS, *options], **more)


class LostRank(unittest.TestCase):
    def expect_loss(self, job, ranks, victim, phases):
        died = job.kill(program.PROGRAM, victim)
        for rank in set(range(ranks)) - {victim}:
            record = job.record_of_survivor(rank)
            if record is None:
                continue
            self.assertEqual(record["code"], 5, record)
            self.assertEqual(record["lost_rank"], victim, record)
            self.assertIn(f"rank {victim}", record["message"])
            self.assertTrue(any(phase in record["phase"] for phase in phases), record)
            self.assertIn(record["operation"], ("all_reduce", "all_gather", "barrier"), record)
            self.assertGreater(record["sequence"], 0)
            self.assertLess(record["unix_time"] - died, BOUND)
        self.assertIsNone(job.record(victim))
        job.wait()
        self.assertEqual(job.left_behind(), ([], []))

    def test_every_survivor_names_the_rank_that_was_killed_while_decoding(self):
        for ranks, victim in ((2, 1), (2, 0), (3, 1)):
            with self.subTest(ranks=ranks, victim=victim), endless_job(ranks) as job:
                job.wait_for_steps(program.PROGRAM)
                self.expect_loss(job, ranks, victim, ("decode", *BETWEEN))

    def test_every_survivor_names_the_rank_that_was_killed_while_prefilling(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = pathlib.Path(folder) / "rows.json"
            rows.write_text(json.dumps([[(7 * i) % 40000 for i in range(6000)]]))
            for victim in (1, 0):
                arguments = ["--model", program.MODEL, "--ids-file", str(rows), *LONG_PROMPT]
                with self.subTest(victim=victim), jobs.Job(program.PROGRAM, 2, arguments) as job:
                    job.wait_for_steps(program.PROGRAM)
                    self.expect_loss(job, 2, victim, ("prefill", *BETWEEN))

    def test_mpi_collectives_notice_the_death_as_well(self):
        with endless_job(2, "--communicator", "mpi") as job:
            job.wait_for_steps(program.PROGRAM)
            self.expect_loss(job, 2, 1, ("prefill", "decode", *BETWEEN))

    @unittest.skipIf(mpirun.ENDS_ALL, "mpirun ends the others, watched or not")
    def test_without_detection_nobody_notices_in_time(self):
        # The test of the tests above: they must be able to fail.
        with endless_job(2, "--peer-detection", "off") as job:
            job.wait_for_steps(program.PROGRAM)
            job.kill(program.PROGRAM, 1)
            with self.assertRaises(AssertionError):
                jobs.wait_until(lambda: job.record(0), BOUND, "a record that cannot come")


class Interruption(unittest.TestCase):
    def test_a_signal_ends_all_ranks_with_130(self):
        with endless_job(2) as job:
            job.wait_for_steps(program.PROGRAM)
            os.kill(job.pids(program.PROGRAM)[0], signal.SIGINT)
            for rank in range(2):
                self.assertEqual(job.wait_for_record(rank)["code"], 130)
            job.wait()
            self.assertEqual(job.left_behind(), ([], []))

    def test_ctrl_c_on_mpirun_ends_all_ranks_with_130(self):
        with endless_job(2) as job:
            job.wait_for_steps(program.PROGRAM)
            job.process.send_signal(signal.SIGINT)
            for rank in range(2):
                self.assertEqual(job.wait_for_record(rank)["code"], 130)
            job.wait()
            self.assertEqual(job.left_behind(), ([], []))


class Differences(unittest.TestCase):
    def expect_refusal(self, job, code, *words):
        for rank in range(job.ranks):
            record = job.wait_for_record(rank)
            self.assertEqual(record["code"], code, record)
            for word in words:
                self.assertIn(word, record["message"])
        job.wait()
        self.assertEqual(job.left_behind(), ([], []))

    def test_a_changed_option_is_named_before_weights_are_read(self):
        per_rank = [["--prefill-chunk", "32"], ["--prefill-chunk", "64"]]
        arguments = ["--model", program.MODEL, "--prompt", "hello", "--max-new-tokens", "4"]
        with jobs.Job(program.PROGRAM, 2, arguments, per_rank=per_rank) as job:
            self.expect_refusal(job, 4, "rank", "1", "--prefill-chunk")

    def test_ranks_of_unlike_instruction_sets_are_named_with_the_option_that_makes_them_alike(self):
        per_rank = [["--instruction-set", "portable"], []]
        arguments = ["--model", program.MODEL, "--prompt", "hello", "--max-new-tokens", "4"]
        if cpu_flags().isdisjoint(["avx2"]):
            self.skipTest("this machine has one instruction set")
        with jobs.Job(program.PROGRAM, 2, arguments, per_rank=per_rank) as job:
            self.expect_refusal(job, 4, "--instruction-set portable", "--instruction-set a")

    def test_a_flipped_weight_is_named_before_a_token_is_made(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "other"
            shutil.copytree(program.MODEL, other)
            with open(other / "model.safetensors", "r+b") as weights:
                header_bytes = int.from_bytes(weights.read(8), "little")
                header = json.loads(weights.read(header_bytes))
                begin = header["model.layers.3.input_layernorm.weight"]["data_offsets"][0]
                weights.seek(8 + header_bytes + begin)
                byte = weights.read(1)[0]
                weights.seek(8 + header_bytes + begin)
                weights.write(bytes([byte ^ 1]))
            per_rank = [["--model", program.MODEL], ["--model", str(other)]]
            with jobs.Job(program.PROGRAM, 2, ["--prompt", "hello", "--max-new-tokens", "4"], per_rank=per_rank) as job:
                self.expect_refusal(job, 4, "model.layers.3.input_layernorm.weight")

    def test_one_rank_without_the_model_fails_everywhere_with_its_message(self):
        per_rank = [["--model", program.MODEL], ["--model", "/nonexistent/model"]]
        with jobs.Job(program.PROGRAM, 2, ["--prompt", "hello", "--max-new-tokens", "4"], per_rank=per_rank) as job:
            self.expect_refusal(job, 2, "/nonexistent/model")


def cpu_flags():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return {flag for line in lines if line.startswith("flags") for flag in line.split()}


if __name__ == "__main__":
    program.start_tests("tools/fetch_demo_model.py")
