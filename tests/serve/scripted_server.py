"""A server that gives the page of `lockstep serve`, and for its engine what a test has written."""
import http.server
import json
import threading

DEADLINE = 120  # seconds of any wait; only a hang gets there
HOLD = object()  # in a script: the stream waits until the test releases it
CUT = object()   # the connection ends here


def delta(**fields):
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}], "usage": None}


def end(reason="stop", prompt=20, new=5, cached=0, reasoning=0):
    """The last chunks: the reason, then the counts."""
    usage = {"prompt_tokens": prompt, "completion_tokens": new, "total_tokens": prompt + new,
             "prompt_tokens_details": {"cached_tokens": cached}, "completion_tokens_details": {"reasoning_tokens": reasoning}}
    return [{"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": None}, {"choices": [], "usage": usage}]


def status(**changes):
    """An idle engine of two ranks and four slots."""
    free = {"state": "free", "request": None, "endpoint": None, "tokens": 0, "new_tokens": 0, "most_tokens": None}
    return {"state": "ready", "model": "tiny", "backend": "cpu", "dtype": "bf16", "slot_tokens": 512, "uptime_s": 10.0,
            "ranks": [{"rank": rank, "state": "ready", "resident_bytes": (200 - rank) << 20} for rank in range(2)],
            "slots": [{"slot": slot, **free} for slot in range(4)], "queue": 0, "running": 0, "tokens_per_s": 0.0,
            "cached_tokens": 0, "prompt_tokens": 0, "new_tokens": 0, "restarts": 0, "steps": [], "requests": [], **changes}


class ScriptedServer:
    """`scripts`: for each coming chat a list of chunks, HOLD and CUT, or (status, message) of an error."""

    def __init__(self, page, headers):
        self.page, self.headers = page, headers
        self.scripts, self.bodies = [], []
        self.status, self.looks = status(), 0
        self.released = threading.Semaphore(0)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def release(self):
        self.released.release()

    def handler(self):
        scripted = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, code, body, headers):
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                if self.path == "/":
                    return self.answer(200, scripted.page, scripted.headers)
                scripted.looks += 1
                return self.answer(200, json.dumps(scripted.status).encode(), {"Content-Type": "application/json"})

            def do_POST(self):
                scripted.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                script = scripted.scripts.pop(0)
                if isinstance(script, tuple):
                    body = json.dumps({"error": {"message": script[1]}}).encode()
                    return self.answer(script[0], body, {"Content-Type": "application/json"})
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("x-request-id", f"req_{len(scripted.bodies)}")
                self.end_headers()  # the stream ends with the connection
                try:
                    self.stream(script)
                except OSError:
                    pass  # the page has stopped the answer
                return None

            def stream(self, script):
                for part in script:
                    if part is CUT:
                        return
                    if part is HOLD:
                        scripted.released.acquire(timeout=DEADLINE)
                    else:
                        self.wfile.write(f": a comment\n\ndata: {json.dumps(part)}\n\n".encode())
                self.wfile.write(b"data: [DONE]\n\n")

        return Handler
