"""lm-eval's clients of servers, unchanged, against `lockstep serve`: the scores of `lockstep score`.

    evaluation_test.py PROGRAM MODEL RANKS        run by the Python of .venv-clients
"""
import json
import pathlib
import subprocess
import sys
import unittest

from lm_eval.api.instance import Instance
from lm_eval.models.api_models import JsonChatStr
from lm_eval.models.gguf import GGUFLM
from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI

import served

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import test_folder  # noqa: E402

PROGRAM = MODEL = RANKS = None
PAIRS = [("The capital of France is", " Paris"), ("The capital of France is", " Rome"), ("One two three", " four five six"),
         ("It was a dark and stormy night;", " the rain fell in torrents"), ("Straße und Übermut", " tun selten gut"),
         ("", "Once upon a time"), ("To be or not", " to be")]
TEXT = "The quick brown fox jumps over the lazy dog. Pack my box with five dozen liquor jugs."


def requests(kind, arguments):
    return [Instance(request_type=kind, doc={}, arguments=one, idx=number) for number, one in enumerate(arguments)]


def lockstep(folder, command, *words):
    """The JSON that a command of the program writes."""
    path = folder / f"{command}.json"
    done = subprocess.run(list(map(str, [PROGRAM, command, "--model", MODEL, "--launch", "threads", "--threads", 1, "--json",
                                         path, *words])), capture_output=True, text=True, timeout=served.DEADLINE,
                          check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text())


class Evaluations(test_folder.FolderTests):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = served.Served(PROGRAM, MODEL, "--tp", RANKS, "--threads", 1, "--batch-size", 4, "--max-seq-len", 512)
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        cls.model = cls.server.get("/v1/models")[1]["data"][0]["id"]
        cls.completions = LocalCompletionsAPI(base_url=cls.server.url + "/v1/completions", model=cls.model,
                                              tokenizer_backend="remote", max_retries=1, batch_size=4, max_length=512)

    def scored(self, rows):
        """(sum, whether each token is the likeliest) of the ends of rows, given as (context's ids, ids), by `score`."""
        path = self.folder / "rows.json"
        path.write_text(json.dumps([context + ids for context, ids in rows]))
        answer = lockstep(self.folder, "score", "--ids-file", path, "--top", 1)["rows"]
        self.assertEqual([row["ids"] for row in answer], [context + ids for context, ids in rows])
        return [(sum(row["logprobs"][len(context):]),
                 all(top[0][0] == one for top, one in zip(row["top"][len(context):], ids)))
                for row, (context, ids) in zip(answer, rows)]

    def test_log_likelihoods_over_completions_are_those_of_score(self):
        rows = [self.completions._encode_pair(*pair) if pair[0] else
                ([self.completions.prefix_token_id], self.completions.tok_encode(pair[1])) for pair in PAIRS]
        got = self.completions.loglikelihood(requests("loglikelihood", PAIRS), disable_tqdm=True)
        self.assertEqual(got, self.scored(rows))
        self.assertIn(True, [is_greedy for _, is_greedy in got])
        self.assertIn(False, [is_greedy for _, is_greedy in got])

    def test_log_likelihoods_of_whole_texts_are_those_of_score(self):
        got = self.completions.loglikelihood_rolling(requests("loglikelihood_rolling", [(TEXT,)]), disable_tqdm=True)
        expected = self.scored([([self.completions.prefix_token_id], self.completions.tok_encode(TEXT))])
        self.assertEqual(got, [expected[0][0]])

    def test_the_gguf_client_gets_the_same_log_likelihoods(self):
        pairs = [pair for pair in PAIRS if pair[0]]
        got = GGUFLM(base_url=self.server.url).loglikelihood(requests("loglikelihood", pairs), disable_tqdm=True)
        expected = self.completions.loglikelihood(requests("loglikelihood", pairs), disable_tqdm=True)
        self.assertEqual([number for number, _ in got], [number for number, _ in expected])

    def test_texts_until_a_stop_are_those_of_generate(self):
        prompts = ["One two three", "The capital of France is"]
        texts = lockstep(self.folder, "generate", "--no-do-sample", "--max-new-tokens", 12,
                         *(word for prompt in prompts for word in ("--prompt", prompt)))["texts"]
        stops = [text[5] for text in texts]
        expected = [text.split(stop)[0] for text, stop in zip(texts, stops)]
        arguments = [(prompt, {"until": [stop], "max_gen_toks": 12}) for prompt, stop in zip(prompts, stops)]
        got = self.completions.generate_until(requests("generate_until", arguments), disable_tqdm=True)
        self.assertEqual(got, expected)
        got = GGUFLM(base_url=self.server.url).generate_until(requests("generate_until", arguments), disable_tqdm=True)
        self.assertEqual(got, [text.strip() for text in expected])

    def test_chats_until_a_stop(self):
        chat = LocalChatCompletion(base_url=self.server.url + "/v1/chat/completions", model=self.model, max_retries=1,
                                   eos_string="<|im_end|>")
        history = JsonChatStr(json.dumps([{"role": "user", "content": "Count to ten."}]))
        got, = chat.generate_until(requests("generate_until", [
            (history, {"until": ["5"], "max_gen_toks": 24})]), disable_tqdm=True)
        self.assertTrue(got)
        self.assertNotIn("5", got)


if __name__ == "__main__":
    PROGRAM, MODEL, RANKS = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
