"""`lockstep compile` and `lockstep export` with the stand-in compiler: compilations, hits, failures.

    compile_test.py PROGRAM STAND_IN
"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from compile_case import DEADLINE, CompileCase

PROGRAM, STAND_IN = sys.argv[1:3]
BUCKETS = ["prefill_8", "prefill_16", "decode_16", "decode_32"]  # of --buckets 16,32


class Compile(CompileCase):
    def setUp(self):
        super().setUp()
        self.seen = 0

    def words(self, *more, command="compile", compiler=STAND_IN):
        cache = [] if "--artifacts" in more else ["--compile-cache", str(self.folder / "cache")]
        buckets = [] if "--buckets" in more else ["--buckets", "16,32"]
        return [PROGRAM, command, "--config", str(self.config), "--tp", "2", "--max-seq-len", "32", *buckets,
                "--neuron-cc", compiler, "--json", str(self.folder / "out.json"), *cache, *map(str, more)]

    def lockstep(self, *more, command="compile", compiler=STAND_IN, expect=0, **variables):
        """Runs it: (stdout, stderr)."""
        (self.folder / "out.json").unlink(missing_ok=True)
        done = subprocess.run(self.words(*more, command=command, compiler=compiler), capture_output=True, text=True,
                              timeout=DEADLINE, env=self.environment(**variables), check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def new_runs(self):
        """Modules compiled since the last call."""
        lines = self.begun()
        new, self.seen = lines[self.seen:], len(lines)
        return sorted(line.split()[0] for line in new)

    def report(self):
        return json.loads((self.folder / "out.json").read_text())

    def statuses(self):
        return {graph["name"]: graph["status"] for graph in self.report()["graphs"]}

    def test_compiles_every_graph_once(self):
        stdout, _ = self.lockstep("--jobs", 3)
        self.assertEqual(self.new_runs(), sorted(BUCKETS))
        self.assertIn("4 graphs for trn1, compiler 0.0.0+stand-in: 4 compiled, 0 cached", stdout)
        report = self.report()
        self.assertEqual([graph["name"] for graph in report["graphs"]], BUCKETS)
        self.assertEqual(report["version"], "0.0.0+stand-in")
        for graph in report["graphs"]:
            data = pathlib.Path(graph["path"]).read_bytes()
            self.assertIn(b"lockstep stand-in", data)
            self.assertEqual(graph["bytes"], len(data))
            self.assertIn(graph["path"], stdout)

        stdout, _ = self.lockstep()
        self.assertEqual(self.new_runs(), [])
        self.assertIn("0 compiled, 4 cached", stdout)
        self.assertEqual(set(self.statuses().values()), {"cached"})

    def test_compiles_again_exactly_what_changed(self):
        self.lockstep()
        self.new_runs()
        for change, expected in [
                (["--neuron-cc-flags-decode", "-O3"], ["decode_16", "decode_32"]),
                (["--neuron-cc-flags-prefill", "--verbose info"], ["prefill_16", "prefill_8"]),
                (["--neuron-target", "trn2"], sorted(BUCKETS)),
                (["--batch-size", "3"], sorted(BUCKETS)),
                (["--dtype", "bfloat16"], sorted(BUCKETS)),
                (["--buckets", "8,16,32"], ["decode_8", "prefill_4"])]:
            with self.subTest(change=change):
                self.lockstep(*change)
                self.assertEqual(self.new_runs(), expected)
                self.lockstep(*change)
                self.assertEqual(self.new_runs(), [])
        _, stderr = self.lockstep(STAND_IN_CC_VERSION="0.0.1+stand-in")
        self.assertEqual(self.new_runs(), sorted(BUCKETS))
        self.assertIn("compiler", stderr)
        self.lockstep()  # earlier artifacts still exist
        self.assertEqual(self.new_runs(), [])

    def test_remembers_a_failure_until_it_is_asked_to_try_again(self):
        failing = {"STAND_IN_CC": "unroll", "STAND_IN_CC_ONLY": "decode_32"}
        stdout, stderr = self.lockstep(expect=3, **failing)
        self.assertEqual(self.new_runs(), sorted(BUCKETS))
        self.assertIn("3 compiled, 0 cached, 1 failed", stdout)
        self.assertIn("the graph becomes too many instructions; add -O1", stderr)
        self.assertIn("Too many instructions after unroll", stderr)
        self.assertEqual(self.statuses()["decode_32"], "failed")

        _, stderr = self.lockstep(expect=3)  # although it would not fail now
        self.assertEqual(self.new_runs(), [])
        self.assertIn("--retry-failed", stderr)
        self.lockstep("--retry-failed")
        self.assertEqual(self.new_runs(), ["decode_32"])
        self.lockstep()
        self.assertEqual(self.new_runs(), [])

    def test_two_at_once_compile_each_graph_once(self):
        both = [subprocess.Popen(self.words("--jobs", 2), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 env=self.environment(STAND_IN_CC_WAIT_MS="300")) for _ in range(2)]
        texts = [process.communicate(timeout=DEADLINE)[0] for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0], texts)
        self.assertEqual(self.new_runs(), sorted(BUCKETS))

    def test_exports_a_folder_that_needs_no_compiler(self):
        folder = self.folder / "exported"
        stdout, _ = self.lockstep("--to", folder, command="export")
        self.assertIn(f"start with --artifacts {folder}", stdout)
        self.new_runs()
        self.lockstep("--artifacts", folder, compiler="/nowhere/neuronx-cc")
        self.assertEqual(set(self.statuses().values()), {"cached"})
        self.assertEqual(self.report()["version"], "")
        for graph in self.report()["graphs"]:
            self.assertTrue(graph["path"].startswith(str(folder)), graph["path"])
        _, stderr = self.lockstep("--artifacts", folder, "--neuron-target", "trn2", expect=4)
        self.assertIn("target", stderr)
        self.assertIn("trn2", stderr)
        self.assertEqual(self.new_runs(), [])

    def test_without_a_compiler_says_so(self):
        _, stderr = self.lockstep(compiler="/nowhere/neuronx-cc", expect=4)
        self.assertIn("cannot compile: found no program /nowhere/neuronx-cc", stderr)
        _, stderr = self.lockstep("--require-cached", expect=4)
        self.assertEqual(self.new_runs(), [])
        self.lockstep()  # neither is remembered
        self.assertEqual(self.new_runs(), sorted(BUCKETS))

    def test_ends_at_the_deadline(self):
        _, stderr = self.lockstep("--neuron-compile-deadline-s", 1, expect=6, STAND_IN_CC="hang",
                                  STAND_IN_CC_ONLY="decode_16")
        self.assertIn("did not end within 1 s", stderr)

    def test_an_interruption_ends_the_compiler_and_is_not_remembered(self):
        process = subprocess.Popen(self.words(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=self.environment(STAND_IN_CC="hang"))
        end = time.monotonic() + DEADLINE
        while not self.runs.exists() or not self.runs.read_text().endswith("\n"):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        compiler = int(self.runs.read_text().split()[2])
        process.send_signal(signal.SIGINT)
        text = process.communicate(timeout=DEADLINE)[0]
        self.assertEqual(process.returncode, 130, text)
        self.assertFalse(pathlib.Path(f"/proc/{compiler}").exists())
        self.assertEqual(len(self.new_runs()), 1)
        self.lockstep()
        self.assertEqual(self.new_runs(), sorted(BUCKETS))

    def test_writes_the_modules_for_who_runs_the_compiler_by_hand(self):
        modules = self.folder / "modules"
        self.lockstep("--modules", modules)
        self.assertEqual(sorted(path.name for path in modules.iterdir()),
                         sorted(f"{name}.hlo.pb" for name in BUCKETS))
        neff = self.folder / "by_hand.neff"
        subprocess.run([STAND_IN, "compile", "--framework=XLA", "--target=trn1", modules / "decode_16.hlo.pb",
                        f"--output={neff}"], check=True, timeout=DEADLINE, capture_output=True)
        self.assertIn((modules / "decode_16.hlo.pb").read_bytes(), neff.read_bytes())

    def test_refuses_sizes_and_flags_before_anything_is_compiled(self):
        for words, code, expected in [
                (["--neuron-cc-flags-decode", "--target=trn2"], 2, "--neuron-cc-flags-decode: found --target"),
                (["--neuron-cc-flags-prefill", "'-O1"], 2, "not closed"),
                (["--model", "."], 2, "--model excludes --config")]:
            with self.subTest(words=words):
                _, stderr = self.lockstep(*words, expect=code)
                self.assertIn(expected, stderr)
        _, stderr = self.lockstep("--to", "/proc/nowhere", command="export", expect=2)
        self.assertIn("--to: cannot make the folder /proc/nowhere", stderr)
        self.assertEqual(self.new_runs(), [])


class StandIn(unittest.TestCase):
    def run_it(self, *words):
        done = subprocess.run([STAND_IN, *words], capture_output=True, text=True, timeout=DEADLINE, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_says_what_it_is(self):
        code, text = self.run_it("--version")
        self.assertEqual(code, 0)
        self.assertIn("Stand-in", text)
        self.assertIn("+stand-in", text)
        self.assertIn("It compiles nothing", text)

    def test_lists_operators(self):
        code, text = self.run_it("list-operators", "--framework", "XLA")
        self.assertEqual(code, 0)
        self.assertIn("all-reduce", text.split())
        self.assertNotIn("xor", text.split())

    def test_refuses_bytes_that_are_no_module(self):
        with tempfile.TemporaryDirectory() as folder:
            module = pathlib.Path(folder, "m.pb")
            module.write_bytes(b"no module\xff")
            code, text = self.run_it("compile", str(module), "--framework", "XLA", "--target", "trn1", "--output",
                                     str(module) + ".neff")
        self.assertEqual(code, 70)
        self.assertIn("stand-in: [NCC_EVRF064]", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
