"""The demo model answers from its GGUF file as from the directory that tools/fetch_demo_model.py makes of that file.

    smollm2_gguf_test.py PROGRAM DIRECTORY GGUF

The directory has the same weights rounded to bfloat16, the file is multiplied in its codes: log-probabilities differ a
little. Every degree gives the same answer. Without the file (tools/fetch_demo_model.py --keep-gguf) the test is skipped.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM, DIRECTORY, GGUF = sys.argv[1:4]
TEXTS = ["", "Hello, world!", "  two  spaces\n\n\tand a tab ", "don't DON'T 12345 x=1;", "naïve Ünïcode 東京 🙂🏽",
         "<|im_start|>user\nHi<|im_end|>\n", "a\u0301 combining \u00a0 no-break"]  # fmt: skip


def run(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=200, check=True)


class DemoModelFromItsGguf(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.result = pathlib.Path(folder.name) / "result.json"

    def result_of(self, command, model, *options):
        run(command, "--model", model, *options, "--json", self.result)
        return json.loads(self.result.read_text())

    def test_one_command_answers_a_chat(self):
        options = ("--chat", "--prompt", "What is the capital of France?", "--max-new-tokens", 24)
        self.assertIn("Paris", run("generate", "--model", GGUF, *options).stdout)

    def test_ids_of_odd_texts_are_those_of_the_directory(self):
        texts = self.result.with_name("texts.json")
        texts.write_text(json.dumps(TEXTS))
        ids = [self.result_of("tokenize", model, "--texts-file", texts) for model in (GGUF, DIRECTORY)]
        self.assertEqual(ids[0], ids[1])

    def test_log_probabilities_are_near_those_of_the_directory(self):
        text = "The sky above the port was the color of television, tuned to a dead channel."
        found, expected = (self.result_of("score", model, "--text", text)["rows"][0]["logprobs"][1:]
                           for model in (GGUF, DIRECTORY))  # fmt: skip
        self.assertEqual(len(found), len(expected))
        for position, (of_codes, of_elements) in enumerate(zip(found, expected)):
            self.assertAlmostEqual(of_codes, of_elements, delta=0.2, msg=f"position {position}")

    def test_every_degree_gives_the_same_answer(self):
        options = ("--prompt", "The sky is", "--max-new-tokens", 24, "--launch", "threads")
        answers = [run("generate", "--model", GGUF, *options, "--tp", ranks).stdout for ranks in (1, 3, 5)]
        self.assertGreater(len(answers[0]), 24)
        self.assertEqual(answers[1:], answers[:1] * 2)


if __name__ == "__main__":
    if not pathlib.Path(GGUF).is_file():
        print(f"{GGUF} is not there: tools/fetch_demo_model.py --keep-gguf")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
