"""`lockstep generate --backend neuron` with the stand-ins of AWS's compiler and runtime: tokens, starts, failures.

    end_to_end_test.py PROGRAM COMPILER RUNTIME WRITER GOLDENS [unittest arguments]

Models and expected tokens are goldens (tests/model/goldens): answers of Hugging Face transformers, with no token near a
tie. WRITER writes a golden's model.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "multiprocess"))
import jobs  # noqa: E402  (needs the path above)

PROGRAM = COMPILER = RUNTIME = WRITER = GOLDENS = None
MODELS = None  # a folder for all tests: models, and a shared compile cache

BOUND = 60.0  # seconds of a failing job, start included: generous, because a hanging rank would take ten minutes
DEADLINE_S = "4"


def golden(name):
    return json.loads((pathlib.Path(GOLDENS) / f"family_{name}.json").read_text())


def model_of(name):
    folder = MODELS / name
    if not folder.exists():
        subprocess.run([WRITER, GOLDENS, name, folder], check=True, timeout=jobs.DEADLINE)
    return folder


class Folder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.cache = MODELS / "cache"
        self.environment = {"STAND_IN_NRT_MACHINE": str(self.folder / "machine"),
                            "STAND_IN_CC_LOG": str(self.folder / "compiled")}

    def compiled(self):
        """The number of modules compiled in this test."""
        log = self.folder / "compiled"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def rows(self, prompts):
        path = self.folder / "rows.json"
        path.write_text(json.dumps(prompts))
        return path

    def neuron(self, *more):
        return ["--backend", "neuron", "--neuron-cc", COMPILER, "--neuron-runtime", RUNTIME, "--compile-cache",
                str(self.cache), "--threads", "1", "--communicator", "mpi", *map(str, more)]

    def job(self, ranks, arguments, environment=None):
        return jobs.Job(PROGRAM, ranks, list(map(str, arguments)),
                        environment={**self.environment, **(environment or {})})

    def sequences(self, ranks, arguments, environment=None):
        """The new tokens of a successful run."""
        out = self.folder / "answer.json"
        with self.job(ranks, [*arguments, "--json", out], environment) as job:
            self.assertEqual(job.wait(), 0, job.text())
            self.assertEqual(job.left_behind(), ([], []))
        answer = json.loads(out.read_text())
        self.assertEqual(answer["graphs"]["after_warmup"], 0)
        return answer["sequences"]


class Tokens(Folder):
    def expect_golden(self, name, ranks, *options):
        expected = golden(name)
        steps = len(expected["tokens"][0])
        found = self.sequences(ranks, ["--model", model_of(name), "--ids-file", self.rows(expected["prompts"]),
                                       "--max-new-tokens", steps, "--ignore-eos", "--dtype", "float32",
                                       *self.neuron(*options)])
        self.assertEqual(found, expected["tokens"], name)

    def test_greedy_tokens_of_families_are_those_of_hugging_face(self):
        for name, ranks in (("llama_grouped", 1), ("gpt2_bare_names", 2), ("bloom_eight_heads", 2),
                            ("gemma3_every_sixth_full", 2), ("mixtral_hub", 2)):
            with self.subTest(name=name, ranks=ranks):
                self.expect_golden(name, ranks, "--batch-size", 4, "--prefill-chunk", 16)

    def test_prompts_of_many_chunks_and_heads_that_do_not_divide_give_the_same(self):
        self.expect_golden("llama_nine_heads_llama3_tied", 2, "--batch-size", 3, "--prefill-chunk", 5)

    def test_modes_of_key_value_heads_and_lists_of_batch_sizes_give_the_same(self):
        for options in (["--gqa", "all-gather"], ["--gqa", "batch"], ["--batch-size", "1,4"]):
            with self.subTest(options=options):
                sizes = [] if "--batch-size" in options else ["--batch-size", 4]
                self.expect_golden("llama_nine_heads_llama3_tied", 2, "--prefill-chunk", 8, *sizes, *options)

    def test_sampled_tokens_are_those_of_the_reference_backend(self):
        prompts = self.rows(golden("llama_grouped")["prompts"])
        arguments = ["--model", model_of("llama_grouped"), "--ids-file", prompts, "--max-new-tokens", 16,
                     "--ignore-eos", "--dtype", "float32", "--do-sample", "--temperature", "0.8", "--top-k", "40",
                     "--top-p", "0.9", "--seed", "11", "--repetition-penalty", "1.2", "--batch-size", 4]
        expected = self.sequences(1, [*arguments, "--backend", "reference"])
        self.assertEqual(self.sequences(2, [*arguments, *self.neuron()]), expected)


class Refusals(Folder):
    def test_weights_in_4_bits_and_caches_in_8_bits_are_refused_by_name(self):
        for options, found in ((["--weights", "q4:16"], "found q4:16 weights"),
                               (["--kv-dtype", "int8"], "--kv-dtype: found int8"),
                               (["--kv-dtype", "fp8"], "--kv-dtype: found fp8")):
            with self.subTest(options=options):
                with self.job(1, ["--model", model_of("llama_grouped"), "--ids-file", self.rows([[3, 4]]),
                                  "--max-new-tokens", 2, *options, *self.neuron()]) as job:
                    record = job.wait_for_record(0)
                    self.assertEqual(record["code"], 3, record)
                    self.assertIn(found, record["message"])
                self.assertEqual(self.compiled(), 0)


class Starts(Folder):
    def run_once(self, *more, environment=None):
        expected = golden("llama_grouped")
        found = self.sequences(2, ["--model", model_of("llama_grouped"), "--ids-file",
                                   self.rows(expected["prompts"][:2]), "--max-new-tokens", 6, "--ignore-eos",
                                   "--dtype", "float32", *self.neuron(*more)], environment)
        self.assertEqual(found, [row[:6] for row in expected["tokens"][:2]])

    def test_the_second_compiles_nothing(self):
        self.cache = self.folder / "cache"
        self.run_once()
        self.assertEqual(self.compiled(), 2)  # prefill and decode, each by one rank
        self.run_once("--require-cached")
        self.assertEqual(self.compiled(), 2)

    def test_a_decode_step_is_given_nothing_but_its_number_and_allocates_nothing(self):
        log = self.folder / "calls"
        log.mkdir()
        self.run_once(environment={"STAND_IN_NRT_LOG": str(log)})
        calls = (log / "core-0.log").read_text().split()
        steps = [i for i, call in enumerate(calls) if call == "execute"]
        three_steps = calls[steps[-4]:steps[-1]]
        self.assertEqual(three_steps.count("tensor_write"), 3)
        self.assertEqual(set(three_steps), {"execute", "tensor_read", "tensor_write"})


class PlantedFailures(Folder):
    """Each ends in bounded time, with records on every rank of the failure, its place, and the fix."""

    def expect(self, faults, code, *words, failed=None, options=()):
        """Both ranks end with `code` and report `words`; the other one names the failed rank."""
        prompts = self.rows(golden("llama_grouped")["prompts"][:2])
        arguments = ["--model", model_of("llama_grouped"), "--ids-file", prompts, "--max-new-tokens", 16,
                     "--ignore-eos", "--dtype", "float32", "--deadline-s", DEADLINE_S, *self.neuron(*options)]
        begin = time.time()
        with self.subTest(faults=faults), self.job(2, arguments, {"STAND_IN_NRT_FAULTS": faults}) as job:
            records = [job.wait_for_record(rank) for rank in range(2)]
            for record in records:
                self.assertEqual(record["code"], code, record)
                for word in words:
                    self.assertIn(word, record["message"])
                self.assertLess(record["unix_time"] - begin, BOUND, record)
            if failed is not None:
                self.assertIn(f"rank {failed}", records[1 - failed]["message"])
            job.wait()
            self.assertEqual(job.left_behind(), ([], []))

    def test_at_the_start_and_at_loads(self):
        self.expect("init@1=9", 4, "cannot start the Neuron runtime", "status 9", "--neuron-cores", failed=1)
        self.expect("tensor_allocate@1#5=4", 7, "status 4", "use more ranks", failed=1)
        self.expect("load@1=2", 4, "cannot load prefill", "status 2", "--neuron-target", failed=1)
        self.expect("load@0#2=10", 4, "cannot load decode", "status 10", "of one SDK release", failed=0)

    def test_in_steps(self):
        self.expect("execute@1#4=1003", 2, "cannot run decode", "status 1003", "check the checkpoint", failed=1)
        self.expect("execute@0#4=1006", 1, "status 1006", "report it", failed=0)
        self.expect("execute@1#2=1200", 5, "cannot run prefill", "status 1200", "start again", failed=1)
        self.expect("execute@0#5=5", 6, "status 5", "--deadline-s", failed=0)

    def test_that_hang(self):
        self.expect("load@1=hang", 6, "cannot load prefill", "--neuron-load-deadline-s",
                    options=["--neuron-load-deadline-s", "4"])
        self.expect("execute@1#4=hang", 6, "cannot run decode", "--deadline-s")

    def test_of_a_rank_that_dies_in_a_step(self):
        arguments = ["--model", model_of("llama_grouped"), "--ids-file", self.rows([[5, 6, 7]]), "--max-new-tokens",
                     16, "--ignore-eos", "--dtype", "float32", *self.neuron()]
        with self.job(2, arguments, {"STAND_IN_NRT_FAULTS": "execute@1#4=die"}) as job:
            if record := job.record_of_survivor(0):
                self.assertEqual((record["code"], record["lost_rank"]), (5, 1), record)
                self.assertIn("decode", record["phase"])
            job.wait()
            self.assertEqual(job.left_behind(), ([], []))
            self.assertIsNone(job.record(1))


def main():
    global PROGRAM, COMPILER, RUNTIME, WRITER, GOLDENS, MODELS
    PROGRAM, COMPILER, RUNTIME, WRITER, GOLDENS = (os.path.abspath(path) for path in sys.argv[1:6])
    with tempfile.TemporaryDirectory() as folder:
        MODELS = pathlib.Path(folder)
        unittest.main("__main__", argv=[sys.argv[0], *sys.argv[6:]], verbosity=2)


if __name__ == "__main__":
    main()
