"""The cores of a job's ranks, with the stand-ins of AWS's compiler and runtime: concurrent jobs on one host, used
cores, too few cores, degrees that an instance does not support, insufficient memory.

    cores_test.py PROGRAM COMPILER RUNTIME WRITER GOLDENS [unittest arguments]
"""
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "multiprocess"))
import jobs  # noqa: E402  (needs the path above)

PROGRAM = COMPILER = RUNTIME = None
MODEL = EXPECTED = SHARED = None  # a golden's model, its answer, a folder for all tests


class Cores(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.machine = self.folder / "machine"
        self.machine.mkdir()
        self.rows = self.folder / "rows.json"
        self.rows.write_text(json.dumps(EXPECTED["prompts"][:1]))

    def job(self, ranks, name, *more, environment=None, runtime=None):
        arguments = ["--model", MODEL, "--ids-file", self.rows, "--max-new-tokens", 4, "--ignore-eos", "--dtype",
                     "float32", "--threads", 1, "--backend", "neuron", "--neuron-cc", COMPILER, "--neuron-runtime",
                     runtime or RUNTIME, "--compile-cache", SHARED / "cache", "--json", self.folder / f"{name}.json", *more]
        return jobs.Job(PROGRAM, ranks, list(map(str, arguments)),
                        environment={"STAND_IN_NRT_MACHINE": str(self.machine), **(environment or {})})

    def expect_tokens(self, job, name):
        self.assertEqual(job.wait(), 0, job.text())
        found = json.loads((self.folder / f"{name}.json").read_text())["sequences"]
        self.assertEqual(found, [row[:4] for row in EXPECTED["tokens"][:1]])

    def expect_failure(self, code, *texts, ranks=1, options=(), **job_options):
        with self.job(ranks, "failed", *options, **job_options) as job:
            record = job.wait_for_record(0)
            job.wait()
            self.assertEqual(record["code"], code, job.text())
            for text in texts:
                self.assertIn(text, record["message"])

    def test_two_jobs_run_side_by_side(self):
        with self.job(2, "first", "--neuron-cores", "0-1") as first:
            with self.job(2, "second", "--neuron-cores", "2-3") as second:
                self.expect_tokens(first, "first")
                self.expect_tokens(second, "second")
                self.assertRegex(second.text(), r"0 +\S+ +0/2 +neuron:2")  # in the table of ranks
        self.assertEqual({path.name for path in self.machine.iterdir()}, {f"core-{i}.lock" for i in range(4)})

    def test_a_core_of_another_process_is_an_error_that_says_so(self):
        with open(self.machine / "core-1.lock", "w") as taken:
            fcntl.flock(taken, fcntl.LOCK_EX)
            self.expect_failure(4, "status 9 NRT_LOAD_NOT_ENOUGH_NC", "taken by another process", "--neuron-cores",
                                options=["--neuron-cores", "1-1"])

    def test_too_few_cores_are_an_error_before_weights_are_read(self):
        self.expect_failure(4, "found 1 core (0) for the 2 ranks", ranks=2, options=["--neuron-cores", "1"])

    def test_what_the_user_shows_is_where_ranks_take_their_cores(self):
        environment = {"NEURON_RT_VISIBLE_CORES": "4-5"}
        with self.job(2, "shown", environment=environment) as job:
            self.expect_tokens(job, "shown")
            self.assertIn("NEURON_RT_VISIBLE_CORES=4-5 was set; this rank takes core 4", job.text())
        self.assertEqual({path.name for path in self.machine.iterdir()}, {"core-4.lock", "core-5.lock"})

    def test_a_degree_that_the_instance_does_not_have_is_refused(self):
        self.expect_failure(3, "found 3 ranks on trn1, expected 1, 2, 8, 16, 32", "--no-strict", ranks=3)

    def test_memory_that_does_not_suffice_is_said_before_weights_are_read(self):
        self.expect_failure(7, "cannot reserve the core's memory", "--max-seq-len",
                            environment={"STAND_IN_NRT_CORE_MEMORY": "4096"})

    def test_a_runtime_that_is_not_there_says_what_to_install(self):
        self.expect_failure(4, "aws-neuronx-runtime-lib", runtime="/nowhere/libnrt.so.1")

    def test_a_runtime_of_another_version_is_refused(self):
        self.expect_failure(4, "found version 3.1.0.0", "expected 2.x", environment={"STAND_IN_NRT_VERSION": "3.1.0.0"})

    def test_threads_cannot_be_ranks(self):
        done = subprocess.run([PROGRAM, "generate", "--model", MODEL, "--ids-file", self.rows, "--backend", "neuron", "--launch",
                               "threads", "--tp", "2"], capture_output=True, text=True, timeout=jobs.DEADLINE)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("a process for each", done.stderr)


def main():
    global PROGRAM, COMPILER, RUNTIME, MODEL, EXPECTED, SHARED
    PROGRAM, COMPILER, RUNTIME, writer, goldens = (os.path.abspath(path) for path in sys.argv[1:6])
    with tempfile.TemporaryDirectory() as folder:
        SHARED = pathlib.Path(folder)
        MODEL = SHARED / "model"
        subprocess.run([writer, goldens, "llama_grouped", MODEL], check=True, timeout=jobs.DEADLINE)
        EXPECTED = json.loads((pathlib.Path(goldens) / "family_llama_grouped.json").read_text())
        unittest.main("__main__", argv=[sys.argv[0], *sys.argv[6:]], verbosity=2)


if __name__ == "__main__":
    main()
