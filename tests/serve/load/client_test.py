"""The load client and a stand-in of a server: what it sends, and what it counts.

    client_test.py PROGRAM
"""
import http.server
import json
import subprocess
import sys
import threading
import unittest

PROGRAM = None
DEADLINE = 60  # seconds of any wait; only a hang gets there


def event(**fields):
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


class StandIn(http.server.BaseHTTPRequestHandler):
    """Answers in words of one token; the prompt "refused" gets status 400, "broken" a stream without an end. "last" waits
    for three answers to others, "hung" after its first word for the end of the test."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.received.append((self.path, body))
        said = body.get("prompt") or body["messages"][-1]["content"]
        if said == "refused":
            text = json.dumps({"error": {"message": "not this one"}}).encode()
            self.send_response(400)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            return self.wfile.write(text)
        if said == "last":
            self.server.three_answered.wait(DEADLINE)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for word in ("one ", "two ", "three"):
            choice = {"text": word} if "prompt" in body else {"delta": {"content": word}}
            self.write_chunk(event(choices=[{"index": 0, **choice}]))
            if said == "hung":
                return self.server.is_over.wait(DEADLINE)
        if said != "broken":
            self.write_chunk(event(choices=[], usage={"prompt_tokens": 4, "completion_tokens": 3}))
            self.write_chunk(b"data: [DONE]\n\n")
        self.write_chunk(b"")
        with self.server.lock:
            self.server.answered += 1
            if self.server.answered == 3:
                self.server.three_answered.set()
        return None

    def write_chunk(self, data):
        self.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n")

    def log_message(self, *_):
        pass


class Client(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
        self.server.received, self.server.answered, self.server.lock = [], 0, threading.Lock()
        self.server.is_over, self.server.three_answered = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def tearDown(self):
        self.server.is_over.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def load(self, *groups, **more):
        plan = {"port": self.server.server_port, "model": "m", "deadline_s": DEADLINE, "groups": groups, **more}
        done = subprocess.run([PROGRAM], input=json.dumps(plan), capture_output=True, text=True, timeout=DEADLINE,
                              check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(done.stdout)

    def test_every_stream_has_its_requests_one_after_another(self):
        report = self.load({"name": "a", "streams": 3, "requests": 2, "prompts": ["x", "y"]})
        self.assertEqual(report["all"]["turns"], 6)
        self.assertEqual(report["all"]["tokens"], 18)
        self.assertEqual(report["all"]["errors"], 0)
        self.assertEqual(report["all"]["gap_s"]["count"], 12)
        self.assertEqual(sorted(body["prompt"] for _, body in self.server.received), ["x"] * 3 + ["y"] * 3)
        self.assertTrue(all(turn["ttft_s"] <= turn["wall_s"] for turn in report["turns"]))

    def test_a_second_turn_has_the_first_and_its_answer(self):
        report = self.load({"name": "a", "api": "chat", "prompts": ["x"], "turns": ["y"]})
        self.assertEqual([turn["turn"] for turn in report["turns"]], [0, 1])
        path, body = self.server.received[1]
        self.assertEqual(path, "/v1/chat/completions")
        self.assertEqual([message["content"] for message in body["messages"]], ["x", "one two three", "y"])

    def test_an_open_group_begins_at_its_times_whatever_the_others_do(self):
        report = self.load({"name": "last", "prompts": ["last"]},
                           {"name": "a", "requests": 3, "interval_s": 0.02, "prompts": ["x"]})
        self.assertEqual(report["all"]["errors"], 0)
        begins = [turn["started_s"] for turn in report["turns"] if turn["group"] == "a"]
        self.assertGreaterEqual(begins[2], 0.04)

    def test_a_turn_that_does_not_end_is_an_error_at_the_deadline(self):
        report = self.load({"name": "hung", "requests": 2, "prompts": ["hung"]}, deadline_s=2)
        self.assertEqual(len(report["turns"]), 1)
        self.assertEqual(report["turns"][0]["events"], 1)  # which was read as it came
        self.assertIn("deadline", report["turns"][0]["error"])

    def test_a_failed_turn_is_counted_with_its_reason(self):
        report = self.load({"name": "refused", "prompts": ["refused"]}, {"name": "broken", "prompts": ["broken"]})
        errors = {turn["group"]: turn for turn in report["turns"]}
        self.assertEqual(errors["refused"]["status"], 400, errors)
        self.assertIn("not this one", errors["refused"]["error"])
        self.assertIn("[DONE]", errors["broken"]["error"])


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
