"""The same bits for every launch: processes and threads, every communicator, degrees, chunks, batches.

    invariance_test.py PROGRAM MODEL GOLDENS
"""
import program

ROWS = [[504, 253, 1789, 338], [28, 7, 30], [1, 4093, 260, 2591, 29889, 15, 77, 640, 11, 9, 350]]
NEW_TOKENS = 4


class Launches(program.Folder):
    """The reference is one rank of one thread, with all rows in one batch and their prompts in one chunk."""

    def answer(self, *options, **launch):
        logits = self.folder / "logits.safetensors"
        answer = self.answer_of("--ids-file", self.ids_file(ROWS), "--max-new-tokens", NEW_TOKENS, "--ignore-eos",
                                "--dtype", "bfloat16", "--output-logits", logits, *options, **launch)
        return answer["sequences"], program.StepTensor(logits, "logits")

    def expect_same(self, found, expected, what):
        self.assertEqual(found[0], expected[0], what)
        self.assertEqual(found[1].shape, expected[1].shape, what)
        if found[1].data[found[1].begin:] == expected[1].data[expected[1].begin:]:
            return
        for row in range(len(ROWS)):
            for step in range(NEW_TOKENS):
                pairs = zip(found[1].at(row, step), expected[1].at(row, step))
                for token, (ours, theirs) in enumerate(pairs):
                    self.assertEqual(ours, theirs, f"{what}: row {row}, step {step}, logit of token {token}")
        self.fail(f"{what}: other bits")

    def test_give_the_same_bits(self):
        expected = self.answer("--threads", 1, threads=1)
        for what, options, launch in (
                ("two processes over shm", ("--communicator", "shm", "--prefill-chunk", 5), {"ranks": 2}),
                ("three processes over MPI", ("--communicator", "mpi", "--batch-size", 2), {"ranks": 3}),
                ("five threads as ranks", ("--prefill-chunk", 3, "--batch-size", 1), {"threads": 5})):
            with self.subTest(what):
                self.expect_same(self.answer("--threads", 1, *options, **launch), expected, what)


if __name__ == "__main__":
    program.start_tests("tools/fetch_demo_model.py")
