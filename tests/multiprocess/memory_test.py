"""What a rank's process needs at most: prompts in chunks need less memory than prompts in one piece, and loading needs
the rank's packed slice and one tensor."""
import program

LARGEST_TENSOR = 49152 * 576 * 2  # the embedding, as the file has it
PROGRAM_ITSELF = 40 << 20  # its code and libraries, the tokenizer
PROMPT = [(7 * place) % 40000 + 100 for place in range(1536)]


class Memory(program.Folder):
    def peak(self, chunk):
        """Bytes of the process at most, and of its workspace, with prefill chunks of `chunk` tokens."""
        answer = self.answer_of("--ids-file", self.ids_file([PROMPT]), "--max-new-tokens", 2, "--no-do-sample",
                                "--prefill-chunk", chunk, ranks=1)
        rank = answer["memory"]["ranks"][0]
        return rank["peak_resident"], rank["workspace"], answer["sequences"]

    def test_chunks_lower_the_peak_by_the_workspace_that_they_save(self):
        whole, workspace_of_whole, tokens = self.peak(len(PROMPT))
        chunked, workspace_of_chunk, tokens_of_chunks = self.peak(64)
        self.assertEqual(tokens_of_chunks, tokens)
        saved = workspace_of_whole - workspace_of_chunk
        self.assertGreater(saved, 16 << 20)
        self.assertLess(chunked, whole - saved / 2)  # other memory of the process varies a little

    def test_loading_holds_the_packed_slice_and_one_tensor(self):
        for options, ranks in (((), 1), (("--weights", "q4"), 1), (("--weights", "q4"), 2), (("--weights", "int8"), 2)):
            with self.subTest(options=options, ranks=ranks):
                answer = self.answer_of("--ids-file", self.ids_file([[1, 2]]), "--max-new-tokens", 1, *options,
                                        ranks=ranks)
                for rank in answer["memory"]["ranks"]:
                    self.assertLess(rank["peak_resident_loading"], rank["weights"] + LARGEST_TENSOR + PROGRAM_ITSELF)


if __name__ == "__main__":
    program.start_tests("tools/fetch_demo_model.py")
