"""A second real model, Gemma 3 270M: text beyond its window of 512 tokens continues as in Hugging Face transformers.

    gemma_test.py PROGRAM MODEL GOLDENS

The golden is transformers' own loading of the GGUF that MODEL was made from.
"""
import json

import program

TOLERANCE = 1e-4  # of the largest logit: rounding moves them by about 1e-6, a window of 511 or 513 by 4e-4 and more


class BeyondTheWindow(program.Folder):
    def expect_golden(self, ranks, *options):
        runs = program.golden("gemma3_270m")["runs"]
        rows, logits = self.ids_file([run["prompt_ids"] for run in runs]), self.folder / "logits.safetensors"
        steps = len(runs[0]["tokens"])
        answer = self.answer_of("--ids-file", rows, "--max-new-tokens", steps, "--ignore-eos", "--no-do-sample",
                                "--output-logits", logits, *options, ranks=ranks)
        self.assertEqual(answer["graphs"]["compiled"], 2)
        logits = program.StepTensor(logits, "logits")
        for row, run in enumerate(runs):
            self.assertEqual(answer["sequences"][row], run["tokens"], run["name"])
            self.assertEqual(answer["texts"][row], run["text"])
            for step, name in ((0, "first_step_top"), (steps - 1, "last_step_top")):
                found = logits.at(row, step)
                for token, expected in zip(run[name]["ids"], run[name]["logits"]):
                    self.assertAlmostEqual(found[token], expected, delta=TOLERANCE * run["scale"], msg=run["name"])

    def test_one_rank_goes_on_as_transformers_does(self):
        self.expect_golden(1)

    def test_two_ranks_that_share_the_only_key_value_head_do_so_in_small_chunks(self):
        self.expect_golden(2, "--prefill-chunk", "96", "--batch-size", "1")

    def test_the_tokenizer_gives_the_ids_of_transformers(self):
        golden, out = program.golden("gemma3_270m"), self.folder / "ids.json"
        texts = self.folder / "texts.json"
        texts.write_text(json.dumps([golden["prompt_text"]]))
        code, _, stderr = program.run("tokenize", "--model", program.MODEL, "--texts-file", texts, "--json", out)
        self.assertEqual(code, 0, stderr)
        self.assertEqual(json.loads(out.read_text())["ids"], [golden["prompt_text_ids"]])


if __name__ == "__main__":
    program.start_tests("tools/fetch_gemma_model.py")
