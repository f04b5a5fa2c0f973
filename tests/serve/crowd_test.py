"""Answers over HTTP do not depend on other requests, on the cache, on streaming or on the number of ranks.

    crowd_test.py PROGRAM MODEL RANKS…
"""
import concurrent.futures
import sys
import unittest

import served

PROGRAM = MODEL = RANKS = None
STORY = "The lighthouse keeper wrote in his book every night. " * 6
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "people": {"type": "integer"}},
          "required": ["city", "people"], "additionalProperties": False}


def chat(text, **more):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": text}], "max_tokens": 10, **more}


def completion(prompt, **more):
    return "/v1/completions", {"prompt": prompt, "max_tokens": 10, **more}


REQUESTS = [
    chat("Name three colours.", temperature=0),
    chat("Name three colours.", temperature=0.8, seed=7),
    chat("Say hello.", temperature=1.1, seed=3, n=2, top_p=0.9),
    chat("Where is Rome?", temperature=0, logprobs=True, top_logprobs=3),
    chat("Give me a city as JSON.", temperature=0, max_tokens=40,
         response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA, "strict": True}}),
    completion(STORY + "In the morning", temperature=0),
    completion(STORY + "At noon", temperature=0, logprobs=2),
    completion(STORY, echo=True, logprobs=1, max_tokens=0, temperature=0),
    completion([[504, 2365, 253], [504, 2365, 253, 655]], temperature=0.9, seed=1, presence_penalty=0.5),
    completion("One two three four", temperature=0, stop=[" eight"], max_tokens=16),
    completion("One two three four", temperature=0, logit_bias={"1038": -100}),
]


def essence(answer):
    """An answer without what may differ: its id, its time and what the cache saved."""
    kept = {key: value for key, value in answer.items() if key not in ("id", "created", "system_fingerprint")}
    kept["usage"] = {key: value for key, value in answer["usage"].items() if key != "prompt_tokens_details"}
    return kept


def whole(events):
    """The texts of a stream's choices."""
    texts = {}
    for event in events:
        for choice in event["choices"]:
            piece = choice.get("text") or choice.get("delta", {}).get("content") or ""
            texts[choice["index"]] = texts.get(choice["index"], "") + piece
    return texts


def texts_of(answer):
    return {choice["index"]: choice.get("text") or choice.get("message", {}).get("content") or ""
            for choice in answer["choices"]}


class Crowd(unittest.TestCase):
    maxDiff = None

    def test_every_answer_is_the_same_alone_in_a_crowd_warm_and_at_every_degree(self):
        first = None
        for ranks in RANKS:
            with self.subTest(ranks=ranks), served.Served(PROGRAM, MODEL, "--tp", ranks, "--threads", 1, "--batch-size",
                                                          6, "--max-seq-len", 1024) as server:
                def answer(request, server=server):
                    status, got = server.post(*request)
                    self.assertEqual(status, 200, got)
                    return essence(got)

                alone = [answer(request) for request in REQUESTS]
                with concurrent.futures.ThreadPoolExecutor(16) as pool:
                    crowd = list(pool.map(answer, REQUESTS * 2))
                for index, request in enumerate(REQUESTS):
                    with self.subTest(ranks=ranks, request=request):
                        self.assertEqual(crowd[index], alone[index])
                        self.assertEqual(crowd[index + len(REQUESTS)], alone[index])
                first = first or alone
                self.assertEqual(alone, first)
                for index, (path, body) in enumerate(REQUESTS):
                    if not body.get("echo"):
                        with self.subTest(ranks=ranks, streamed=body):
                            self.assertEqual(whole(server.events(path, body)), texts_of(alone[index]))

    def test_a_second_turn_takes_the_first_from_the_cache(self):
        with served.Served(PROGRAM, MODEL, "--tp", RANKS[0], "--max-seq-len", 1024, "--batch-size", 2) as server:
            _, first = server.post("/v1/completions", {"prompt": STORY, "max_tokens": 8, "temperature": 0})
            text = STORY + first["choices"][0]["text"] + " Then"
            _, warm = server.post("/v1/completions", {"prompt": text, "max_tokens": 8, "temperature": 0})
            self.assertGreater(warm["usage"]["prompt_tokens_details"]["cached_tokens"],
                               first["usage"]["prompt_tokens"] - 2)


if __name__ == "__main__":
    PROGRAM, MODEL, *RANKS = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
