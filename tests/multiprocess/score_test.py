"""Scores of texts with a real model: Hugging Face's log-probabilities, the same bytes at every degree, chunk and batch,
and no effect on `generate`.

    score_test.py PROGRAM MODEL GOLDENS
"""
import json
import math

import jobs
import program

TOLERANCE = 1e-4 * 40  # of the scale of the logits


class Score(program.Folder):
    def score(self, *arguments, ranks=None, name="scores"):
        out = self.folder / f"{name}.json"
        arguments = ["--model", program.MODEL, "--dtype", "float32", "--json", str(out), *map(str, arguments)]
        if ranks:
            with jobs.Job(program.PROGRAM, ranks, arguments, command="score") as job:
                self.assertEqual(job.wait(), 0, job.text())
        else:
            code, stdout, stderr = program.run("score", *arguments)
            self.assertEqual((code, stdout), (0, ""), stderr)
        return out.read_bytes()

    def refused(self, code, *words, arguments):
        out = self.folder / "refused.json"
        found, stdout, stderr = program.run("score", "--model", program.MODEL, *map(str, arguments), "--json", out)
        self.assertEqual((found, stdout, out.exists()), (code, "", False), stderr)
        for word in words:
            self.assertIn(word, stderr)

    def test_as_by_transformers_and_the_same_bytes_however_it_is_cut(self):
        texts = program.golden("scores")["models"]["smollm2"]["texts"]
        rows = self.ids_file([text["ids"] for text in texts] + [[17]])
        alone = self.score("--ids-file", rows, "--top", 3)
        found = json.loads(alone)["rows"]
        for row, text in zip(found, texts):
            self.assertEqual(row["ids"], text["ids"])
            self.assertIsNone(row["logprobs"][0])
            self.assertEqual(row["top"][0], [])
            for i, expected in enumerate(text["logprobs"], start=1):
                self.assertAlmostEqual(row["logprobs"][i], expected, delta=TOLERANCE)
                for (_, logprob), likeliest in zip(row["top"][i], text["top_logprobs"][i - 1]):
                    self.assertAlmostEqual(logprob, likeliest, delta=TOLERANCE)
                if text["top_logprobs"][i - 1][0] - text["top_logprobs"][i - 1][1] > 2 * TOLERANCE:
                    self.assertEqual(row["top"][i][0][0], text["top_ids"][i - 1][0])
        self.assertEqual(found[2], {"ids": [17], "logprobs": [None], "top": [[]]})
        self.assertEqual(alone, self.score("--ids-file", rows, "--top", 3, "--prefill-chunk", 24, "--batch-size", 1,
                                           ranks=2, name="ranks"))
        self.assertEqual(alone, self.score("--ids-file", rows, "--top", 3, "--launch", "threads", "--tp", 3,
                                           "--threads", 1, name="threads"))

    def test_texts_are_tokenised_and_summed_up_for_a_person(self):
        texts = ["The capital of France is Paris.", "The capital of France is Paris."]
        file = self.folder / "texts.json"
        file.write_text(json.dumps(texts))
        code, stdout, stderr = program.run("score", "--model", program.MODEL, "--texts-file", file, "--dtype", "float32")
        self.assertEqual(code, 0, stderr)
        first, second = stdout.splitlines()
        self.assertEqual(first.replace("text 0", "text 1"), second)
        self.assertRegex(first, r"^text 0: \d+ tokens, log-probability -\d+\.\d{4}, perplexity \d+\.\d{4}$")
        row = json.loads(self.score("--text", texts[0]))["rows"][0]
        total = sum(row["logprobs"][1:])
        self.assertIn(f"perplexity {math.exp(-total / (len(row['ids']) - 1)):.4f}", first)

    def test_what_cannot_be_scored_is_refused(self):
        self.refused(2, "--text", arguments=[])
        self.refused(2, "text 0", "token id 99999999", arguments=["--ids-file", self.ids_file([[99999999, 3]])])
        self.refused(2, "row 1", arguments=["--ids-file", self.ids_file([[1], []])])
        self.refused(2, "a mask with holes",
                     arguments=["--ids-file", self.ids_file([{"ids": [1, 2, 3], "mask": [1, 0, 1]}])])
        self.refused(2, "text 0", "expected at most 4",
                     arguments=["--ids-file", self.ids_file([[1, 2, 3, 4, 5]]), "--max-seq-len", 3])
        self.refused(2, "found top 60000, expected 0 to 49152", arguments=["--text", "a b", "--top", 60000])
        self.refused(2, "--texts-file", arguments=["--texts-file", self.ids_file([[1]])])


if __name__ == "__main__":
    program.start_tests("tools/fetch_demo_model.py")
