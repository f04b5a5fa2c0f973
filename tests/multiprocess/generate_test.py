"""Tests of `lockstep` for users: real processes, the demo model, bad input, exit codes and files.

    generate_test.py PROGRAM MODEL GOLDENS
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest.mock

import jobs
import program


def bound_cores(pid):
    """The cores to which threads of a process are currently bound one each."""
    cores = set()
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        try:
            words = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except (FileNotFoundError, ProcessLookupError):  # ended meanwhile
            continue
        allowed = words["Cpus_allowed_list"].strip()
        if allowed.isdecimal():
            cores.add(int(allowed))
    return cores


def forget(path):
    """Asks the system to drop a file from the page cache; returns the remaining share, 0 to 1."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())  # only written pages can be dropped
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return resident(path)


def resident(path):
    """The share of a file in the page cache, 0 to 1."""
    told = subprocess.run(["fincore", "--bytes", "--noheadings", "--output", "RES", str(path)], capture_output=True,
                          text=True, check=True)
    return int(told.stdout) / path.stat().st_size


def goldens():
    return program.golden("smollm2")["runs"]


class RealModel(program.Folder):
    def expect_goldens(self, *options, ranks=None, threads=None):
        rows = self.ids_file([golden["prompt_ids"] for golden in goldens()])
        answer = self.answer_of("--ids-file", rows, "--max-new-tokens", 32, "--ignore-eos", "--no-do-sample",
                                "--dtype", "float32", *options, ranks=ranks, threads=threads)
        for row, golden in enumerate(goldens()):
            self.assertEqual(answer["sequences"][row], golden["tokens"], f"row {row}")
            self.assertEqual(answer["finish_reasons"][row], "length")
        self.assertEqual(answer["graphs"]["compiled"], 2)
        return answer

    def test_two_uneven_ranks_give_hugging_faces_tokens(self):
        answer = self.expect_goldens(ranks=2)
        self.assertGreater(answer["timings"]["ttft_s"], 0)
        self.assertEqual(len(answer["memory"]["ranks"]), 2)

    def test_three_ranks_over_mpi_with_a_small_chunk_and_two_slots_give_the_same(self):
        self.expect_goldens("--communicator", "mpi", "--prefill-chunk", 16, "--batch-size", 2, ranks=3)

    def test_weights_that_are_on_the_disk_are_read_ahead(self):
        copy = self.folder / "model"  # other tests read the model itself meanwhile
        shutil.copytree(program.MODEL, copy)
        weights = copy / "model.safetensors"
        self.enterContext(unittest.mock.patch.object(program, "MODEL", str(copy)))
        if forget(weights) > 0.5:
            self.skipTest("this file system keeps its files in memory")
        answer = self.expect_goldens(ranks=2)
        ahead = [rank["bytes_read_ahead"] for rank in answer["memory"]["ranks"]]
        self.assertTrue(all(ahead), ahead)
        self.assertLessEqual(sum(ahead), weights.stat().st_size)
        if resident(weights) < 1:
            self.skipTest("this machine drops files from its memory as they are read")
        again = self.expect_goldens(threads=2)
        self.assertEqual([rank["bytes_read_ahead"] for rank in again["memory"]["ranks"]], [0, 0])

    def test_threads_of_one_process_give_the_same(self):
        self.expect_goldens(threads=2)

    def test_masked_ids_change_nothing(self):
        ids = goldens()[0]["prompt_ids"]
        padded = {"ids": [0] * 5 + ids, "mask": [0] * 5 + [1] * len(ids)}
        inside = {"ids": ids[:2] + [7, 8, 9] + ids[2:], "mask": [1, 1, 0, 0, 0] + [1] * (len(ids) - 2)}
        answer = self.answer_of("--ids-file", self.ids_file([padded, inside]), "--max-new-tokens", 32, "--ignore-eos",
                                "--no-do-sample", "--dtype", "float32", threads=1)
        self.assertEqual(answer["sequences"], [goldens()[0]["tokens"]] * 2)

    def test_the_logits_file_has_the_step_that_transformers_has(self):
        golden = goldens()[2]
        rows = self.ids_file([golden["prompt_ids"]])
        out = self.folder / "logits.safetensors"
        self.answer_of("--ids-file", rows, "--max-new-tokens", 2, "--ignore-eos", "--no-do-sample", "--dtype",
                       "float32", "--output-logits", out, threads=1)
        tensor = program.StepTensor(out, "logits")
        self.assertEqual(tensor.shape[:2], [1, 2])
        logits = tensor.at(0, 0)
        for token, expected in zip(golden["first_step_top"]["ids"], golden["first_step_top"]["logits"]):
            self.assertAlmostEqual(logits[token], expected, delta=1e-4 * golden["scale"])

    def test_chat_streams_sensible_text_to_stdout_and_nothing_else(self):
        code, stdout, stderr = program.run("generate", "--model", program.MODEL, "--chat", "--prompt",
                                           "What is the capital of France?", "--max-new-tokens", 12)
        self.assertEqual(code, 0, stderr)
        self.assertIn("Paris", stdout)
        self.assertNotIn("[r0]", stdout)
        self.assertNotIn("<|im_end|>", stdout)

    def test_several_prompts_print_whole_under_headers_in_order(self):
        code, stdout, stderr = program.run("generate", "--model", program.MODEL, "--prompt", "One two three",
                                           "--prompt", "Hello", "--max-new-tokens", 4, "--ignore-eos")
        self.assertEqual(code, 0, stderr)
        self.assertLess(stdout.index("=== prompt 0"), stdout.index("=== prompt 1"))

    def test_the_same_seed_draws_the_same_tokens_in_every_launch(self):
        arguments = ("--prompt", "The weather", "--max-new-tokens", 12, "--do-sample", "--temperature", 1.2, "--top-k",
                     30, "--seed", 5, "--ignore-eos", "--dtype", "float32")
        by_processes, by_threads = self.answer_of(*arguments, ranks=2), self.answer_of(*arguments, threads=3)
        self.assertEqual(by_processes["sequences"], by_threads["sequences"])


class Threads(program.Folder):
    """Starts a thread for each core available to the process."""
    cores = os.sched_getaffinity(0)

    def run_with(self, *options):
        """The cores to which threads were bound during the run, and its output."""
        words = ["generate", "--model", program.MODEL, "--prompt", "Once", "--max-new-tokens", "48", "--ignore-eos",
                 "--threads", str(len(self.cores)), *options]
        log = self.folder / "log"
        with open(log, "wb") as output, subprocess.Popen([program.PROGRAM, *words], stdout=subprocess.DEVNULL,
                                                         stdin=subprocess.DEVNULL, stderr=output) as process:
            cores = set()

            def has_ended():
                cores.update(bound_cores(process.pid))
                return process.poll() is not None

            try:
                jobs.wait_until(has_ended, what="the program's end")
            finally:
                process.kill()
        self.assertEqual(process.returncode, 0, log.read_text())
        return cores, log.read_text()

    def test_each_is_bound_to_its_core(self):
        cores, log = self.run_with()
        self.assertEqual(cores, self.cores)
        self.assertIn("each bound to a core", log)

    def test_none_is_bound_where_the_user_says_so(self):
        cores, log = self.run_with("--bind-threads", "none")
        self.assertLess(len(cores), max(2, len(self.cores)))  # on one core everything is
        self.assertNotIn("bound", log)


class BadInput(program.Folder):
    def model(self, **changes):
        """A folder with the demo model's config, changed, and nothing else."""
        config = json.loads((pathlib.Path(program.MODEL) / "config.json").read_text())
        config.update(changes)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="model-", dir=self.folder))
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    def tiny_model(self, **replaced):
        """A whole one-layer model in float32; `replaced` changes its config, and its tensors by their `shapes`."""
        hidden, inner, vocabulary = 8, 16, 12
        shapes = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,)}
        layer = "model.layers.0."
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{layer}{name}.weight"] = (hidden,)
        for name in "qkvo":
            shapes[f"{layer}self_attn.{name}_proj.weight"] = (hidden, hidden)
        for name, shape in (("gate", (inner, hidden)), ("up", (inner, hidden)), ("down", (hidden, inner))):
            shapes[f"{layer}mlp.{name}_proj.weight"] = shape
        shapes.update(replaced.pop("shapes", {}))
        header, data = {}, b""
        for name, shape in shapes.items():
            count = 1
            for dim in shape:
                count *= dim
            begin = len(data)
            data += struct.pack(f"<{count}f", *[(i * 37 + sum(name.encode())) % 11 / 10 for i in range(count)])
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
        folder = self.model(hidden_size=hidden, intermediate_size=inner, vocab_size=vocabulary, num_hidden_layers=1,
                            num_attention_heads=2, num_key_value_heads=2, head_dim=4, eos_token_id=2, bos_token_id=1,
                            pad_token_id=0, torch_dtype="float32", **replaced)
        text = json.dumps(header).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        return folder

    def test_tensors_that_do_not_fit_the_config_are_named(self):
        rows = ("--ids-file", self.ids_file([[1, 3]]), "--max-new-tokens", "2")
        out = self.folder / "good.json"
        code, _, stderr = program.run("generate", "--model", self.tiny_model(), *rows, "--json", out)
        self.assertEqual(code, 0, stderr)
        self.assertEqual(len(json.loads(out.read_text())["sequences"][0]), 2)
        out.unlink()
        wrong = {"model.layers.0.mlp.up_proj.weight": (16, 7)}
        self.expect_refusal(2, "up_proj", "[16,7]", "[16,8]",
                            arguments=("--model", self.tiny_model(shapes=wrong), *rows))

    def test_a_head_beside_a_tied_embedding_is_used_where_it_differs(self):
        rows = ("--ids-file", self.ids_file([[1, 3], [5, 4, 3]]), "--max-new-tokens", 6, "--ignore-eos")
        other_head = {"lm_head.weight": (12, 8)}
        answers = {}
        for name, model in (("tied", self.tiny_model()), ("both", self.tiny_model(shapes=other_head)),
                            ("untied", self.tiny_model(shapes=other_head, tie_word_embeddings=False))):
            with jobs.Job(program.PROGRAM, 2, ["--model", model, *map(str, rows), "--json", self.folder / name]) as job:
                self.assertEqual(job.wait(), 0, job.text())
                self.assertEqual("set tie_word_embeddings to false" in job.text(), name == "both")
            answers[name] = json.loads((self.folder / name).read_text())["sequences"]
        self.assertEqual(answers["both"], answers["untied"])
        self.assertNotEqual(answers["both"], answers["tied"])

    def test_each_mistake_has_its_code_and_says_what_is_wrong(self):
        prompt = ("--prompt", "hello", "--max-new-tokens", "4")
        rows = lambda value: ("--ids-file", self.ids_file(value))
        for code, words, arguments in (
            (2, ("--model", "required"), prompt),
            (2, ("/nonexistent",), ("--model", "/nonexistent", *prompt)),
            (2, ("prompt 0", "empty"), ("--model", program.MODEL, "--prompt", "")),
            (2, ("UTF-8",), ("--model", program.MODEL, "--prompt", b"\xff\xfe".decode("utf-8", "surrogateescape"))),
            (2, ("row 0", "no tokens"), ("--model", program.MODEL, *rows([[]]))),
            (2, ("99999", "vocabulary"), ("--model", program.MODEL, *rows([[99999]]), "--max-new-tokens", "2")),
            (2, ("capacity", "--max-seq-len"), ("--model", program.MODEL, *rows([[1] * 20]), "--max-seq-len", "16",
                                                "--max-new-tokens", "2")),
            (2, ("temperature",), ("--model", program.MODEL, *prompt, "--do-sample", "--temperature", "0")),
            (2, ("top_p",), ("--model", program.MODEL, *prompt, "--do-sample", "--top-p", "1.5")),
            (2, ("--frobnicate",), ("--model", program.MODEL, *prompt, "--frobnicate")),
            (2, ("num_beams",), ("--model", program.MODEL, *prompt, "--num-beams", "0")),
            (3, ("mamba", "llama"), ("--model", self.model(model_type="mamba"), *rows([[1]]))),
            (3, ("expected 1 to 9",), ("--model", self.model(), *rows([[1]]), "--launch", "threads", "--tp", "10")),
            (4, ("--tp",), ("--model", program.MODEL, *prompt, "--tp", "3")),
            (7, ("--memory-budget",), ("--model", program.MODEL, *prompt, "--memory-budget", "1000000")),
        ):
            with self.subTest(words=words):
                self.expect_refusal(code, *words, arguments=arguments)

    def test_singletons_instead_of_ranks_are_told_apart_from_a_launch(self):
        self.expect_refusal(4, "does not fit this program's MPI", "found MPI rank 0 of 1, expected rank 0 of 2",
                            arguments=("--model", program.MODEL, "--prompt", "hello", "--max-new-tokens", "2"),
                            environment={"PMI_SIZE": "2", "PMI_RANK": "0"})

    def test_an_output_that_cannot_be_written_is_refused_before_the_work(self):
        code, stdout, stderr = program.run("generate", "--model", program.MODEL, "--prompt", "hello", "--json",
                                           "/nonexistent/out.json")
        self.assertEqual((code, stdout), (2, ""))
        self.assertIn("/nonexistent/out.json", stderr)

    def test_damaged_weights_are_named_with_what_was_expected(self):
        folder = self.model()
        weights = (pathlib.Path(program.MODEL) / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(weights[:len(weights) // 2])
        self.expect_refusal(2, "model.safetensors", arguments=("--model", folder, "--ids-file", self.ids_file([[1]]),
                                                               "--max-new-tokens", "2"))


class OtherCommands(program.Folder):
    def test_tokenize_round_trips_text(self):
        out = self.folder / "ids.json"
        texts = ["Hello, world!", "  spaces\tand\nlines", "naïve 日本語 🧀", "<|im_start|>user"]
        file = self.folder / "texts.json"
        file.write_text(json.dumps(texts))
        code, _, stderr = program.run("tokenize", "--model", program.MODEL, "--texts-file", file, "--json", out)
        self.assertEqual(code, 0, stderr)
        answer = json.loads(out.read_text())
        self.assertEqual(answer["decoded"], texts)
        self.assertEqual(answer["ids"][3][0], 1)

    def test_explain_prints_graphs_without_weights(self):
        config = self.folder / "only-config"
        config.mkdir()
        (config / "config.json").write_text((pathlib.Path(program.MODEL) / "config.json").read_text())
        code, stdout, stderr = program.run("explain", "--model", config, "--tp", 2, "--rank", 1, "--phase", "decode")
        self.assertEqual(code, 0, stderr)
        self.assertIn("graph decode", stdout)
        self.assertIn("all_reduce", stdout)
        self.assertIn("5:9", stdout)

    def test_help_and_version_start_without_heavy_libraries(self):
        libraries = subprocess.run(["ldd", program.PROGRAM], capture_output=True, text=True, timeout=30).stdout
        self.assertNotIn("libtorch", libraries)
        self.assertEqual(program.run("--version")[0], 0)
        self.assertIn("generate", program.run("--help")[1])


if __name__ == "__main__":
    program.start_tests("tools/fetch_demo_model.py")
