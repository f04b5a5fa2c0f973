"""A real model with weights in 8 bits: the distance of its logits and tokens from float32's, equal for all ranks.

    int8_test.py PROGRAM MODEL GOLDENS

Each golden restarts after every STRIDE-th of its tokens, so that one different token does not change all later ones.
"""
import math
import operator

import program

STRIDE = 4
# A simulation over all 128 positions, with groups of 64, gives 0.10 and 126 of 128 (docs/quantization.md).
MEAN_ERROR = 0.15  # root mean square of the difference over that of the logits' own spread
LEAST_AGREEMENT = 0.9


def rows_and_tokens(stride=STRIDE):
    rows, tokens = [], []
    for golden in program.golden("smollm2")["runs"]:
        for place in range(0, len(golden["tokens"]), stride):
            rows.append(golden["prompt_ids"] + golden["tokens"][:place])
            tokens.append(golden["tokens"][place])
    return rows, tokens


def relative_error(found, exact):
    mean = sum(exact) / len(exact)
    spread = sum((e - mean) ** 2 for e in exact)
    return math.sqrt(sum(map(lambda d: d * d, map(operator.sub, found, exact))) / spread)


class WeightsIn8Bits(program.Folder):
    def ask(self, name, rows, *options, ranks=None, threads=None):
        logits = self.folder / f"{name}.safetensors"
        answer = self.answer_of("--ids-file", self.ids_file(rows), "--max-new-tokens", 1, "--ignore-eos",
                                "--no-do-sample", "--dtype", "float32", "--output-logits", logits, *options,
                                ranks=ranks, threads=threads)
        return answer, logits

    def test_logits_and_tokens_stay_near_those_of_float32_and_ranks_change_nothing(self):
        rows, tokens = rows_and_tokens()
        _, exact = self.ask("exact", rows, threads=1)
        answer, found = self.ask("int8", rows, "--weights", "int8", threads=1)
        exact, by_int8 = program.StepTensor(exact, "logits"), program.StepTensor(found, "logits")
        errors = [relative_error(by_int8.at(row, 0), exact.at(row, 0)) for row in range(len(rows))]
        agreeing = sum(answer["sequences"][row] == [token] for row, token in enumerate(tokens))
        print(f"largest error {max(errors):.4f}, mean {sum(errors) / len(errors):.4f}; {agreeing} of {len(tokens)} "
              "tokens agree")
        self.assertLess(sum(errors) / len(errors), MEAN_ERROR)
        self.assertGreater(min(errors), 1e-4)  # it did use other weights
        self.assertGreaterEqual(agreeing, LEAST_AGREEMENT * len(tokens))

        _, of_ranks = self.ask("ranks", rows, "--weights", "int8", "--prefill-chunk", 24, "--batch-size", 3, ranks=2)
        self.assertEqual(found.read_bytes(), of_ranks.read_bytes())

    def test_what_cannot_be_is_refused(self):
        for weights in ("int4", "int8:3", "int8:2048", "int8:x"):
            code, _, stderr = program.run("generate", "--model", program.MODEL, "--prompt", "a", "--weights", weights)
            self.assertEqual(code, 2, stderr)
            self.assertIn("expected int8 or int8:GROUP", stderr)


if __name__ == "__main__":
    program.start_tests("tools/fetch_demo_model.py")
