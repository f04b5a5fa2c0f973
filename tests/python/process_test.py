"""Ctrl-C, forks, other processes and the interpreter's end, with a tiny model. Each case is a Python of its own.

    process_test.py
"""
import pathlib
import signal
import subprocess
import sys
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import test_folder
import tiny_model

START = """
import os, signal, sys, threading, time
import lockstep
model = lockstep.Model(sys.argv[1], tp=2, batch_size=2)
prompt = [1, 17, 23, 99]
def long(**options):
    return model.generate([prompt], max_new_tokens=60, eos_token_id=[], **options)
def slow(ids, scores):
    time.sleep(0.02)
    return scores
"""


class Processes(test_folder.FolderTests):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = tiny_model.write(cls.folder / "model")

    def run_script(self, script, expected_code=0):
        """The output of `script` after START."""
        done = subprocess.run([sys.executable, "-c", START + textwrap.dedent(script), self.directory], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, expected_code, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def test_ctrl_c_ends_a_generation_and_nothing_else(self):
        out, _ = self.run_script("""
            expected = long()
            found = []
            other = threading.Thread(target=lambda: found.append(long(logits_processor=[slow])))
            other.start()
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                long(logits_processor=[slow])
            except KeyboardInterrupt:
                print("interrupted", model.counters["running"])
            other.join()
            print(found[0] == expected, long() == expected)
        """)
        self.assertEqual(out.split(), ["interrupted", "1", "True", "True"])

    def test_ctrl_c_ends_a_stream(self):
        out, _ = self.run_script("""
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                for token in model.stream(prompt, max_new_tokens=60, eos_token_id=[], logits_processor=[slow]):
                    pass
            except KeyboardInterrupt:
                print("interrupted", model.counters["running"])
        """)
        self.assertEqual(out.split(), ["interrupted", "0"])

    def test_an_interrupt_that_nothing_catches_ends_the_program(self):
        _, err = self.run_script("""
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            long(logits_processor=[slow])
        """, expected_code=-signal.SIGINT)
        self.assertIn("KeyboardInterrupt", err)

    def test_a_forked_process_gets_a_sentence(self):
        out, err = self.run_script("""
            expected = long()
            stream = model.stream(prompt, max_new_tokens=60, eos_token_id=[], logits_processor=[slow])
            next(stream)
            child = os.fork()
            if child == 0:
                for call in (long, lambda: next(stream), lambda: model.score([prompt])):
                    try:
                        call()
                    except lockstep.Error as error:
                        print(error, flush=True)
                model.close()
                sys.exit(3)  # not os._exit: destructors run
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), long() == expected)
        """)
        self.assertNotIn("leaked", err)
        lines = out.splitlines()
        self.assertEqual(len(lines), 4, out)
        for line in lines[:3]:
            self.assertIn("found a forked process, expected the one that opened it", line)
        self.assertEqual(lines[3], "3 True")

    def test_the_import_leaves_to_later_what_takes_long(self):
        script = "import numpy, sys; before = set(sys.modules); import lockstep; print(*(set(sys.modules) - before))"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
        added = {name for name in done.stdout.split() if name.partition(".")[0] != "lockstep"}
        self.assertLessEqual(added, {"__future__", "atexit", "threading"})
        later = {"lockstep." + name for name in ("graph", "inside", "job", "outputs", "plan", "remote", "sampling_params")}
        self.assertFalse(later & set(done.stdout.split()))

    def test_a_spawned_process_opens_its_own(self):
        script = pathlib.Path(self.directory) / "spawned.py"
        script.write_text(textwrap.dedent("""
            import multiprocessing, sys
            import lockstep

            def ids(directory):
                with lockstep.Model(directory) as model:
                    return model.generate([[1, 17]], max_new_tokens=5)

            if __name__ == "__main__":
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    print(pool.apply(ids, (sys.argv[1],)) == ids(sys.argv[1]))
        """))
        done = subprocess.run([sys.executable, script, self.directory], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "True\n"), done.stderr)

    def test_the_interpreter_ends_with_open_models_streams_and_threads(self):
        _, err = self.run_script("""
            stream = model.stream(prompt, max_new_tokens=60, eos_token_id=[], logits_processor=[slow])
            next(stream)
            for _ in range(3):
                threading.Thread(target=long, kwargs={"logits_processor": [slow]}, daemon=True).start()
            time.sleep(0.2)
        """)
        self.assertNotIn("terminate", err)

    def test_a_stream_that_its_function_can_reach_is_freed_at_the_end(self):
        _, err = self.run_script("""
            stream = model.stream(prompt, max_new_tokens=60, eos_token_id=[], logits_processor=[slow])
            next(stream)  # owns slow, whose globals have the stream
        """)
        self.assertNotIn("leaked", err)

    def test_sys_exit_inside_a_callback_ends_the_program(self):
        self.run_script("long(logits_processor=[lambda ids, scores: sys.exit(7)])", expected_code=7)


if __name__ == "__main__":
    unittest.main(verbosity=2)
