"""The compile cache between processes, with the stand-in compiler: one that is killed, one that waits too long, a tier
over HTTP, damage, misses.

    compile_cache_test.py PROGRAM STAND_IN
"""
import http.server
import signal
import subprocess
import sys
import threading
import time
import unittest

from compile_case import DEADLINE, CompileCase

PROGRAM, STAND_IN = sys.argv[1:3]
STEPS = 2  # prefill and decode


class Objects(http.server.BaseHTTPRequestHandler):
    """Keeps what is PUT, and gives it back."""
    kept = {}

    def do_GET(self):
        body = self.kept.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def do_PUT(self):
        self.kept[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class CompileCache(CompileCase):
    layers = 1

    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"

    def words(self, *more, cache=None):
        return [PROGRAM, "compile", "--config", str(self.config), "--tp", "2", "--max-seq-len", "32", "--prefill-chunk",
                "8", "--neuron-cc", STAND_IN, "--compile-cache", str(cache or self.cache), *map(str, more)]

    def lockstep(self, *more, cache=None, expect=0, **variables):
        """Runs it: (stderr, number of started compilations)."""
        before = len(self.begun())
        done = subprocess.run(self.words(*more, cache=cache), capture_output=True, text=True, timeout=DEADLINE,
                              env=self.environment(**variables), check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stderr, len(self.begun()) - before

    def start_slow_one(self, wait_ms):
        """A process in the middle of a compilation of this length."""
        process = subprocess.Popen(self.words(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=self.environment(STAND_IN_CC_WAIT_MS=str(wait_ms)))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        end = time.monotonic() + DEADLINE
        while not self.begun():
            self.assertLess(time.monotonic(), end, "no compilation began")
            time.sleep(0.02)
        return process

    def test_takes_over_from_one_that_was_killed(self):
        slow = self.start_slow_one(4000)
        self.assertEqual(len(list((self.cache / "making").iterdir())), 1)
        slow.send_signal(signal.SIGKILL)
        slow.wait()
        _, begun = self.lockstep()
        self.assertEqual(begun, STEPS)
        self.assertEqual(list((self.cache / "making").iterdir()), [])
        self.assertEqual(len(list((self.cache / "entries").iterdir())), STEPS)

    def test_waits_no_longer_than_it_was_told(self):
        slow = self.start_slow_one(4000)
        stderr, _ = self.lockstep("--compile-wait-s", "0.2", expect=6)
        modules = [line.split()[0] for line in self.runs.read_text().splitlines()]
        self.assertEqual(len(modules), len(set(modules)), modules)  # it continued with the other step, not this one
        self.assertIn(f"waits for process {slow.pid} on ", stderr)
        self.assertIn("waited 0.2 s for another compilation of the same step: found process", stderr)

    def test_brings_artifacts_over_http(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Objects)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        remote = ["--compile-cache-remote", f"http://127.0.0.1:{server.server_address[1]}/cache"]
        _, begun = self.lockstep(*remote)
        self.assertEqual((begun, len(Objects.kept)), (STEPS, 2 * STEPS))
        stderr, begun = self.lockstep(*remote, cache=self.folder / "elsewhere")
        self.assertEqual(begun, 0)
        self.assertIn(f"from {remote[1]}", stderr)
        # A server that breaks an object costs one compilation, and receives a correct one.
        path = next(path for path in Objects.kept if path.endswith(".artifact"))
        whole = Objects.kept[path]
        Objects.kept[path] = whole[:-1]
        stderr, begun = self.lockstep(*remote, cache=self.folder / "third")
        self.assertEqual(begun, 1)
        self.assertIn("damaged on its way", stderr)
        self.assertEqual(len(Objects.kept[path]), len(whole))

    def test_rebuilds_what_is_damaged(self):
        self.lockstep()
        artifact = next((self.cache / "entries").iterdir()) / "artifact"
        artifact.write_bytes(artifact.read_bytes()[:-1])
        stderr, begun = self.lockstep()
        self.assertEqual(begun, 1)
        self.assertIn("is damaged", stderr)
        self.assertEqual(self.lockstep()[1], 0)

    def test_says_which_field_differs(self):
        self.lockstep()
        stderr, begun = self.lockstep("--require-cached", "--neuron-target", "trn2", expect=4)
        self.assertEqual(begun, 0)
        self.assertIn('target: found "trn1", expected "trn2"', stderr)
        stderr, begun = self.lockstep("--neuron-target", "trn2")
        self.assertEqual(begun, STEPS)
        self.assertIn('target: found "trn1", expected "trn2"', stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
