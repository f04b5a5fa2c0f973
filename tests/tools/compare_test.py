"""tools/compare without the engines: parsers with recorded outputs, and stand-ins that use the protocol.

    compare_test.py
"""
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import textwrap
import unittest
import unittest.mock

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "compare"
sys.path.insert(0, str(FOLDER))

import compare  # noqa: E402
import make_model  # noqa: E402
import protocol  # noqa: E402
import run_llama_bench  # noqa: E402

CONFIG = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
          "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 16, "vocab_size": 32,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True}

# llama-bench -p 512 -n 64 -d 128 -o json, cut to what matters.
BENCH = """warning: asserts enabled, performance may be affected
[
  {"build_commit": "0000000", "model_type": "llama 1B BF16", "n_threads": 2, "n_prompt": 512, "n_gen": 0,
   "n_depth": 0, "avg_ns": 1431826352, "stddev_ns": 0, "avg_ts": 357.585, "samples_ns": [ 1431826352 ]},
  {"build_commit": "0000000", "model_type": "llama 1B BF16", "n_threads": 2, "n_prompt": 0, "n_gen": 64,
   "n_depth": 128, "avg_ns": 3657142857, "stddev_ns": 0, "avg_ts": 17.5, "samples_ns": [ 3657142857 ]}
]
"""
# llama-batched-bench -npp 128 -ntg 64 -npl 1,8: as JSON lines, and as the table of builds that know no other.
BATCHED_LINES = """main: n_kv_max = 2048
{"n_kv_max": 2048, "n_batch": 2048, "pp": 128, "tg": 64, "pl": 1, "n_kv": 192, "t_pp": 0.4, "t_tg": 3.7, "speed": 46.8}
{"n_kv_max": 2048, "n_batch": 2048, "pp": 128, "tg": 64, "pl": 8, "n_kv": 1536, "t_pp": 3.1, "t_tg": 6.4, "speed": 161}
"""
BATCHED_TABLE = """|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|   128 |     64 |    8 |   1536 |    3.100 |   330.32 |    6.400 |    80.00 |    9.500 |   161.68 |
"""

# `lockstep bench`: notes that it ran, and which of the rivals was stopped meanwhile.
OURS = """
import json, os, pathlib, sys
def after(option):
    return sys.argv[sys.argv.index(option) + 1]
notes = pathlib.Path(os.environ["NOTES"])
pid = int((notes / "rival.pid").read_text())
state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
with open(notes / "log", "a") as log:
    log.write(f"ours {after('--prompt-tokens')} {after('--batch-size')} {state}\\n")
half = {"tokens_per_s": 30.0, "of_bandwidth": 0.75, "of_peak": 0.5}
pathlib.Path(after("--json")).write_text(json.dumps({"decode": half, "prefill": half}))
"""

# A module `vllm` that takes 10 ms for a first token and 1 ms for each one after it.
VLLM = """
import os, pathlib, time
__version__ = "0.0-stand-in"
notes = pathlib.Path(os.environ["NOTES"])
class SamplingParams:
    def __init__(self, max_tokens, **others):
        self.max_tokens = max_tokens
class LLM:
    def __init__(self, model, **others):
        (notes / "rival.pid").write_text(str(os.getpid()))
        assert (pathlib.Path(model) / "model.safetensors").exists()
    def generate(self, rows, parameters, use_tqdm):
        with open(notes / "log", "a") as log:
            log.write(f"vllm {len(rows[0]['prompt_token_ids'])} {len(rows)} {parameters.max_tokens}\\n")
        print("noise on stdout")
        time.sleep(0.01 + 0.001 * (parameters.max_tokens - 1))
"""


def folder_of(test):
    """A folder that ends with the test."""
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    return pathlib.Path(folder.name)


class Parsers(unittest.TestCase):
    def test_llama_bench_by_the_sizes_of_the_test(self):
        self.assertEqual(run_llama_bench.parse_bench(BENCH, 512, 0), (1.431826352, 512))
        seconds, tokens = run_llama_bench.parse_bench(BENCH, 0, 64)
        self.assertAlmostEqual(tokens / seconds, 17.5, places=3)
        with self.assertRaisesRegex(ValueError, "no test of 2048"):
            run_llama_bench.parse_bench(BENCH, 2048, 0)

    def test_llama_batched_bench_in_both_of_its_formats(self):
        for text in (BATCHED_LINES, BATCHED_TABLE):
            self.assertEqual(run_llama_bench.parse_batched(text, 8), (6.4, 512))
        with self.assertRaisesRegex(ValueError, "no batch of 32"):
            run_llama_bench.parse_batched(BATCHED_TABLE, 32)

    def test_a_table_that_llama_batched_bench_writes_to_its_log(self):
        folder = folder_of(self)
        for name, text in (("llama-bench", ""), ("llama-batched-bench", BATCHED_TABLE)):
            (folder / name).write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\n")
            (folder / name).chmod(0o755)
        with unittest.mock.patch.object(sys, "argv", ["run_llama_bench.py", str(folder / "llama-bench")]):
            engine = run_llama_bench.Engine({"gguf": "model.gguf", "threads": 2})
        job = {"kind": "decode", "prompt_tokens": 128, "new_tokens": 64, "batch": 8}
        self.assertEqual(engine.run(job), (6.4, 512))


class Protocol(unittest.TestCase):
    def test_prompts_are_the_same_in_every_run_and_differ_between_sequences(self):
        job = {"prompt_tokens": 5, "batch": 2}
        first = protocol.prompts(job, 100)
        self.assertEqual(first, protocol.prompts(job, 100))
        self.assertEqual([len(row) for row in first], [5, 5])
        self.assertNotEqual(first[0], first[1])


class MakeModel(unittest.TestCase):
    def test_safetensors_have_the_size_that_their_header_says(self):
        out = io.BytesIO()
        make_model.write_safetensors(out, CONFIG, make_model.pattern())
        data = out.getvalue()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + length])
        self.assertEqual(header["model.embed_tokens.weight"]["shape"], [32, 8])
        self.assertEqual(max(tensor["data_offsets"][1] for tensor in header.values()), len(data) - 8 - length)
        begin, end = header["model.norm.weight"]["data_offsets"]
        self.assertEqual(data[8 + length + begin:8 + length + end], b"\x80\x3f" * 8)

    def test_gguf_lays_every_tensor_at_an_aligned_offset_inside_the_file(self):
        out = io.BytesIO()
        make_model.write_gguf(out, CONFIG, make_model.pattern())
        data = out.getvalue()
        self.assertEqual(data[:4], b"GGUF")
        version, tensors, entries = struct.unpack("<IQQ", data[4:24])
        self.assertEqual((version, tensors, entries), (3, 11, len(make_model.metadata(CONFIG))))
        self.assertEqual(len(data) % make_model.ALIGNMENT, 0)
        bytes_of = [-(-(4 if w.is_norm else 2) * w.count // 32) * 32 for w in make_model.weights_of(CONFIG)]
        header = len(data) - sum(bytes_of)
        self.assertIn(b"output_norm.weight", data[:header])
        self.assertNotIn(struct.pack("<Q", 13) + b"output.weight", data[:header], "tied to the embedding")

    def test_what_is_there_already_is_kept(self):
        folder = folder_of(self)
        (folder / "config.in").write_text(json.dumps(CONFIG))
        make_model.make(folder / "config.in", folder / "m", ("safetensors",))
        first = (folder / "m" / "model.safetensors").stat()
        make_model.make(folder / "config.in", folder / "m")
        self.assertEqual((folder / "m" / "model.safetensors").stat().st_mtime_ns, first.st_mtime_ns)
        self.assertTrue((folder / "m" / "model.gguf").exists())
        self.assertEqual(list((folder / "m").glob("*.partial")), [])


class Rows(unittest.TestCase):
    def test_a_row_is_held_against_the_rival_with_the_highest_median(self):
        row = compare.row_of(compare.Samples({"lockstep": [10.0, 12.0, 11.0], "a": [8.0, 8.0, 30.0],
                                              "b": [10.0, 10.0, 10.0], "gave up": [99.0]}, [20.0, 20.0, 20.0]), 3)
        self.assertEqual(row["fastest_name"], "b")
        self.assertEqual(row["ratios"], [1.0, 1.2, 1.1])
        self.assertNotIn("gave up", row["engines"])
        self.assertEqual(row["of_limit"]["a"], 0.4)

    def test_without_rivals_there_are_no_ratios(self):
        self.assertNotIn("ratios", compare.row_of(compare.Samples({"lockstep": [1.0]}, [0.0]), 1))


class Rivals(unittest.TestCase):
    def rival(self, program):
        rival = compare.Rival("vllm", None)
        rival._words = [sys.executable, "-c", textwrap.dedent(program)]
        self.addCleanup(rival.stop)
        return rival

    def test_one_that_is_not_there_says_how_to_get_it(self):
        rival = compare.Rival("ik", None)
        self.assertFalse(rival.check())
        self.assertEqual(rival.state, "missing")
        self.assertIn("llama-bench", rival.reason)

    def test_one_that_hangs_is_given_up(self):
        rival = self.rival("""
            import json, time
            print(json.dumps({"event": "ready", "version": "x"}), flush=True)
            time.sleep(600)
            """)
        rival.load({})
        before, compare.JOB_S = compare.JOB_S, 0.3
        self.addCleanup(setattr, compare, "JOB_S", before)
        with self.assertRaisesRegex(compare.Failed, "said nothing for 0.3 s"):
            rival.run({})

    def test_one_that_dies_is_noticed(self):
        with self.assertRaisesRegex(compare.Failed, "ended without an answer"):
            self.rival("raise SystemExit(3)").load({})


class WholeComparison(unittest.TestCase):
    def test_engines_take_turns_and_those_that_wait_are_stopped(self):
        folder = folder_of(self)
        (folder / "lockstep").write_text(f"#!{sys.executable}\n{OURS}")
        (folder / "lockstep").chmod(0o755)
        (folder / "config.json").write_text(json.dumps(CONFIG))
        (folder / "modules" / "vllm").mkdir(parents=True)
        (folder / "modules" / "vllm" / "__init__.py").write_text(VLLM)
        words = [sys.executable, "-S", str(FOLDER / "compare.py"), "--program", str(folder / "lockstep"), "--config",
                 str(folder / "config.json"), "--threads", "1", "--pairs", "2", "--row", "decode", "--models",
                 str(folder / "models"), "--json", str(folder / "out.json")]
        environment = {**os.environ, "PYTHONPATH": str(folder / "modules"), "NOTES": str(folder)}
        ran = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        report = json.loads((folder / "out.json").read_text())
        states = {rival["name"]: rival["state"] for rival in report["rivals"]}
        self.assertEqual((states["vllm"], states["ik"]), ("ran", "missing"), report["rivals"])
        row = report["rows"]["decode"]
        self.assertEqual((row["ours"], row["fastest_name"], len(row["ratios"])), (30.0, "vllm", 2))
        log = (folder / "log").read_text().splitlines()
        once = ["vllm 128 1 1", "vllm 128 1 64"]
        self.assertEqual(log, [*once, "ours 128 1 T", *once, "ours 128 1 T", *once])  # T: stopped
        self.assertFalse(pathlib.Path(f"/proc/{(folder / 'rival.pid').read_text()}").exists(), "it outlived the run")


if __name__ == "__main__":
    unittest.main()
