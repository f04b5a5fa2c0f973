"""What a rank's process needs at most: prompts in chunks need less memory than prompts in one piece."""
import program

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


if __name__ == "__main__":
    program.start_tests("tools/fetch_demo_model.py")
