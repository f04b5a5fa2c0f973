"""The page at / as it is served, and what /admin/status says for it while requests run.

    page_test.py PROGRAM MODEL
"""
import base64
import hashlib
import json
import re
import sys
import unittest

import served

PROGRAM = MODEL = None
MOST_BYTES = 100_000
LONG = {"prompt": "Once upon a time", "max_tokens": 8000, "ignore_eos": True, "temperature": 0, "stream": True}


def until(condition):
    """Its first true value."""
    value = served.until(condition)
    assert value, "waited until the deadline"
    return value


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = served.Served(PROGRAM, MODEL, "--tp", 2, "--threads", 1, "--batch-size", 2, "--max-seq-len", 8192)
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        connection = cls.server.connect()
        connection.request("GET", "/")
        answer = connection.getresponse()
        cls.headers, cls.page = answer.headers, answer.read().decode()
        connection.close()

    def element(self, name):
        return self.page.split(f"<{name}>", 1)[1].rsplit(f"</{name}>", 1)[0]

    def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else(self):
        policy = dict(part.strip().split(" ", 1) for part in self.headers["Content-Security-Policy"].split(";"))
        for name, directive in (("script", "script-src"), ("style", "style-src")):
            digest = base64.b64encode(hashlib.sha256(self.element(name).encode()).digest()).decode()
            self.assertEqual(policy.pop(directive), f"'sha256-{digest}'")
        self.assertEqual(policy, {"default-src": "'none'", "connect-src": "'self'", "img-src": "data:", "base-uri": "'none'",
                                  "form-action": "'none'", "frame-ancestors": "'none'",
                                  "require-trusted-types-for": "'script'", "trusted-types": "'none'"})
        self.assertEqual(self.headers["Content-Type"], "text/html; charset=utf-8")
        self.assertEqual(self.headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(self.headers["Referrer-Policy"], "no-referrer")

    def test_the_page_is_whole_and_small_and_uses_no_outside_resource(self):
        self.assertLess(len(self.page.encode()), MOST_BYTES)
        self.assertNotIn("{{", re.sub(r"\$\{\{", "", self.page))  # every part has its place
        for word in ("http://", "https://", " src=", "@import", "url("):
            self.assertNotIn(word, self.page)
        self.assertEqual(re.findall(r'<(?:link|a|base)\b[^>]*href="([^"]*)"', self.page), ["data:,"])
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            self.assertNotIn(word, self.page)
        self.assertIsNone(re.search(r"<[^>]* (?:on[a-z]+|style)=", self.page.split("<script>")[0]))

    def test_the_page_answers_GET_and_HEAD(self):
        self.assertEqual(self.server.call("HEAD", "/"), (200, ""))
        self.assertEqual(self.server.post("/", {})[0], 405)

    def test_the_status_says_who_holds_which_slot(self):
        connections = []
        self.addCleanup(lambda: [connection.close() for connection in connections])
        for name in ("first", "second", "third"):
            connections.append(self.server.connect())
            connections[-1].request("POST", "/v1/completions", json.dumps(LONG),
                                    {"Content-Type": "application/json", "x-request-id": name})

        def taken():
            status = self.server.get("/admin/status")[1]
            is_whole = len(status["requests"]) == 3 and status["queue"] == 1
            decodes = all(slot["new_tokens"] > 0 for slot in status["slots"])
            return status if is_whole and decodes and all(rank["resident_bytes"] > 0 for rank in status["ranks"]) else None

        status = until(taken)
        self.assertEqual((status["state"], status["running"], status["queue"]), ("ready", 2, 1))
        self.assertEqual(status["slot_tokens"], 8192)
        requests = {request["id"]: request for request in status["requests"]}
        self.assertEqual(sorted(requests), ["first", "second", "third"])
        self.assertEqual(sorted(request["state"] for request in requests.values()), ["running", "running", "waiting"])
        for request in requests.values():
            self.assertEqual((request["endpoint"], request["choices"]), ("/v1/completions", 1))
            self.assertEqual(request["most_tokens"], request["prompt_tokens"] + LONG["max_tokens"])
            self.assertEqual(len(request["slots"]), 1 if request["state"] == "running" else 0)
            for number in request["slots"]:
                slot = status["slots"][number]
                self.assertEqual((slot["slot"], slot["request"], slot["endpoint"]), (number, request["id"], "/v1/completions"))
                self.assertEqual(slot["state"], "decode")
                self.assertGreaterEqual(slot["tokens"], request["prompt_tokens"])
        self.assertEqual([rank["rank"] for rank in status["ranks"]], [0, 1])
        for rank in status["ranks"]:
            self.assertEqual(rank["state"], "ready")
            self.assertGreater(rank["resident_bytes"], 10 << 20)
        numbers = [step["number"] for step in status["steps"]]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        for step in status["steps"]:
            self.assertIn(step["kind"], ("prefill", "decode"))
            self.assertGreater(step["rows"], 0)
            self.assertGreater(step["seconds"], 0)

        for connection in connections:
            connection.close()
        ended = until(self.idle_status)
        self.assertEqual([slot["request"] for slot in ended["slots"]], [None, None])
        self.assertGreaterEqual(ended["new_tokens"], status["new_tokens"])

    def idle_status(self):
        status = self.server.get("/admin/status")[1]
        is_idle = all(slot["state"] in ("free", "kept") for slot in status["slots"])
        return status if is_idle and not status["requests"] else None

    def test_the_slots_of_several_answers_name_one_request(self):
        connection = self.server.connect()
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/completions", json.dumps({**LONG, "n": 2}),
                           {"Content-Type": "application/json", "x-request-id": "both"})

        def both():
            request = next(iter(self.server.get("/admin/status")[1]["requests"]), None)
            return request if request and len(request["slots"]) == 2 else None

        self.assertEqual({**until(both), "age_s": 0, "new_tokens": 0, "prompt_tokens": 0, "most_tokens": 0},
                         {"id": "both", "endpoint": "/v1/completions", "state": "running", "slots": [0, 1], "choices": 2,
                          "prompt_tokens": 0, "new_tokens": 0, "most_tokens": 0, "age_s": 0})
        connection.close()
        until(self.idle_status)


if __name__ == "__main__":
    PROGRAM, MODEL = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
