"""Models on ranks of mpirun: started by a script, or running it. With a tiny model.

    ranks_test.py [mpich]
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest

import numpy as np

for folder in ("launch", "serve"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / folder))
import launches
import lockstep
import one_model
import served
from one_model import PROMPT

LAUNCHER = "mpirun --oversubscribe -n {ranks}"
os.environ.update(launches.environment())


def long(model, **options):
    return model.generate([PROMPT], max_new_tokens=60, eos_token_id=[], **options)


def job_processes(folder):
    """{pid: environment} of the processes of the job with `folder`."""
    found = {}
    for pid in served.processes_below(os.getpid()):
        try:
            variables = served.variables_of(pid)
        except OSError:
            continue  # it has ended meanwhile
        if variables.get("LOCKSTEP_PYTHON_JOB", "").startswith(folder):
            found[pid] = variables
    return found


def rank_processes(model):
    """{rank: pid} of a model's job."""
    found = job_processes(model._open._folder)
    return {int(variables["OMPI_COMM_WORLD_RANK"]): pid for pid, variables in found.items()
            if "OMPI_COMM_WORLD_RANK" in variables}


class WithModel(one_model.WithDirectory):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with lockstep.Model(cls.directory, dtype="float32") as model:
            cls.expected = long(model)
            cls.scores = model.score(cls.expected, top=3)


class StartedByMpirun(WithModel):
    def open(self, **options):
        model = lockstep.Model(self.directory, dtype="float32", launch="mpirun",
                               **{"tp": 2, "launcher": LAUNCHER, "start_deadline": 100, **options})
        self.addCleanup(model.close)
        return model

    def test_gives_the_answers_of_threads(self):
        model = self.open(prompt_embeddings=True)
        self.assertEqual(model.facts["ranks"], 2)
        self.assertEqual(long(model), self.expected)
        embedded = {"inputs_embeds": one_model.embedding_table(self.directory)[[PROMPT]], "max_new_tokens": 60,
                    "eos_token_id": []}
        self.assertEqual(model.generate(**embedded).tolist(), [self.expected[0][len(PROMPT):]])
        self.assertEqual(model.score(self.expected, top=3), self.scores)
        found = long(model, return_dict_in_generate=True, output_logits=True)
        with lockstep.Model(self.directory, dtype="float32") as one:
            expected = long(one, return_dict_in_generate=True, output_logits=True)
            streamed = list(one.stream(PROMPT, max_new_tokens=9))
            completed = one.complete([PROMPT, [5, 9]], max_new_tokens=4, num_return_sequences=2, do_sample=True, seed=3)
        np.testing.assert_array_equal(np.stack(found.logits), np.stack(expected.logits))
        self.assertEqual(list(model.stream(PROMPT, max_new_tokens=9)), streamed)
        again = model.complete([PROMPT, [5, 9]], max_new_tokens=4, num_return_sequences=2, do_sample=True, seed=3)
        self.assertEqual([[answer.token_ids for answer in row.outputs] for row in again],
                         [[answer.token_ids for answer in row.outputs] for row in completed])
        self.assertGreater(len(model.graph("decode", rank=1).collectives), 2)
        self.assertGreater(len(model.timeline().steps), 3)
        self.assertGreater(len(model.plan(tp=2)), 0)
        processes = rank_processes(model)
        self.assertEqual(sorted(processes), [0, 1])
        model.close()
        self.assertIn("closed", repr(model))
        self.assertGreater(model.counters["new_tokens"], 60)
        self.assertEqual(rank_processes(model), {})
        with self.assertRaisesRegex(lockstep.Error, "a closed one"):
            long(model)

    def test_many_threads_share_the_batch(self):
        model = self.open(batch_size=2)
        found = []
        threads = [threading.Thread(target=lambda: found.append(long(model))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(found, [self.expected] * 4)

    def test_keeps_a_journal(self):
        model, prompts = self.open(), [[1, 5 + row] for row in range(5)]
        path = self.folder / "journal"
        found = model.complete(prompts, max_new_tokens=5, journal=path)
        with lockstep.Model(self.directory, dtype="float32") as one:
            again = one.complete(prompts, max_new_tokens=5, journal=path)
            self.assertEqual(one.counters["submitted"], 0)
        self.assertEqual([row.outputs[0].token_ids for row in again], [row.outputs[0].token_ids for row in found])

    def test_a_lost_rank_is_a_pause(self):
        model = self.open()
        for rank in (1, 0):
            with self.subTest(rank=rank), self.assertLogs("lockstep", "WARNING") as logged:
                stream, ids = model.stream(PROMPT, max_new_tokens=60, eos_token_id=[]), []
                for token in stream:
                    ids.append(token.id)
                    if len(ids) == 5:
                        os.kill(rank_processes(model)[rank], signal.SIGKILL)
                self.assertEqual([PROMPT + ids], self.expected)
                self.assertEqual(len(stream.answers[0].token_ids), 60)
                model.score([PROMPT])  # also where the loss was noticed after the last token
                self.assertIn("the ranks are lost", "".join(logged.output))

    def test_ranks_that_cannot_start_again_fail_the_calls_and_leave_nothing(self):
        script = self.folder / "launcher"
        for way, next_script in (("no program", None), ("a folder that is gone", None), ("no rank", "exec sleep 600")):
            with self.subTest(way):
                script.write_text('#!/bin/sh\nexec mpirun --oversubscribe -n "$@"\n')
                script.chmod(0o755)
                model = self.open(launcher=f"{script} {{ranks}}")
                folder, first = model._open._folder, rank_processes(model)[0]
                os.kill(first, signal.SIGSTOP)  # so the call is open when the rank is lost
                stream, failures = model.stream(PROMPT, max_new_tokens=60, eos_token_id=[]), []

                def read():
                    try:
                        list(stream)  # noqa: B023: joined in this round
                    except lockstep.Error as error:
                        failures.append(error.kind)  # noqa: B023

                if way == "a folder that is gone":
                    shutil.rmtree(folder)
                elif next_script is None:
                    script.unlink()
                else:
                    script.write_text(f"#!/bin/sh\n{next_script}\n")
                    model._open._start_deadline = 0.2
                reader, closer = threading.Thread(target=read, daemon=True), threading.Thread(target=model.close, daemon=True)
                with self.assertLogs("lockstep", "ERROR"):
                    os.kill(first, signal.SIGKILL)
                    reader.start()
                    reader.join(60)
                self.assertEqual(failures, ["peer_lost"])
                closer.start()
                closer.join(60)
                self.assertFalse(closer.is_alive())
                self.assertEqual(job_processes(folder), {})
                self.assertFalse(os.path.exists(folder))

    def test_ends_what_is_ended(self):
        model = self.open(batch_size=1)
        reasons = []
        for _ in range(40):  # a busy machine may complete some before they are ended
            stream = model.stream(PROMPT, max_new_tokens=100, eos_token_id=[])
            stream.close()
            reasons.append(stream.answers[0].finish_reason)
        self.assertIn("cancelled", reasons)
        self.assertEqual(long(model), self.expected)

    def test_refuses_what_needs_the_ranks_process(self):
        with self.assertRaisesRegex(lockstep.Error, "processes, expected the process of rank 0; use launch='threads'"):
            long(self.open(), logits_processor=[lambda ids, scores: scores])

    def test_passes_errors_on(self):
        model = self.open()
        with self.assertRaisesRegex(lockstep.InputError, "max_new_tokens"):
            model.generate([PROMPT], max_new_tokens=1000)
        with self.assertRaisesRegex(lockstep.Error, "cannot divide"):
            self.open(tp=5)

    def test_says_why_ranks_do_not_start(self):
        for launcher, words in (("mpirun", "a command with {ranks} in it"), ("mpirun -n '{ranks}", "words as in a shell"),
                                ("no-such-launcher {ranks}", "found no program 'no-such-launcher'"),
                                ("sh -c 'echo no slots for {ranks} >&2; exit 3' --", "found exit code 3.*no slots for 2")):
            with self.subTest(launcher), self.assertRaisesRegex(lockstep.Error, words):
                self.open(launcher=launcher)
        with self.assertRaisesRegex(lockstep.Error, "found no rank 0 on this host after 1 s"):
            self.open(launcher="sh -c 'sleep 30' {ranks}", start_deadline=1)
        with self.assertRaisesRegex(lockstep.InputError, "no-such-model"):
            lockstep.Model("no-such-model", launch="mpirun")


class Inside(WithModel):
    LAUNCHERS = ["mpirun"]

    def run_script(self, script, ranks=2, launcher="mpirun", expected_code=0, leaks=False, options=()):
        """The lines that each rank has printed. `expected_code`: None for any; `leaks`: whether threads may be at work
        at the end; `options`: of the launcher."""
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        start = """
            import os, sys, lockstep
            rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0")))
            sys.stdout = open(f"{sys.argv[2]}/{rank}", "w")
            prompt = [1, 17, 23, 99]
            def long(model, **options):
                return model.generate([prompt], max_new_tokens=60, eos_token_id=[], **options)
        """
        words = [launcher, *(["--oversubscribe"] if launcher == "mpirun" else []), *options, "-n", str(ranks),
                 sys.executable, "-c", textwrap.dedent(start) + textwrap.dedent(script), str(self.directory), str(out)]
        done = subprocess.run(words, env={**os.environ, **launches.environment()}, capture_output=True, text=True, timeout=100,
                              check=False)
        if expected_code is not None:
            self.assertEqual(done.returncode != 0, expected_code != 0, done.stdout + done.stderr)
        self.said = done.stderr
        if not leaks:
            self.assertNotIn("nanobind: leaked", done.stderr)
        return [(out / str(rank)).read_text().splitlines() for rank in range(ranks)]

    def test_rank_0_runs_the_script(self):
        for launcher in self.LAUNCHERS:
            with self.subTest(launcher):
                first, second = self.run_script("""
                    print("before")
                    for _ in range(2):
                        with lockstep.Model(sys.argv[1], dtype="float32", launch="inside") as model:
                            print(long(model), model.facts["ranks"])
                            seen = []
                            def note(ids, scores):
                                seen.append(len(ids[0]))
                                return scores
                            assert long(model, logits_processor=[note]) == long(model) and len(seen) == 60
                    try:
                        lockstep.Model(sys.argv[1], dtype="float32", launch="inside", tp=3)
                    except lockstep.InputError as error:
                        print(error)
                    model = lockstep.Model(sys.argv[1], launch="inside")
                    try:
                        lockstep.Model(sys.argv[1], launch="inside")
                    except lockstep.Error as error:
                        print(error)
                """, launcher=launcher)
                self.assertEqual(first[:3], ["before", f"{self.expected} 2", f"{self.expected} 2"])
                self.assertRegex(first[3], "found tp=3 on 2 ranks")
                self.assertRegex(first[4], "another one that is open on the ranks of this launch")
                self.assertEqual(second, ["before"])

    def test_a_failed_start_fails_on_rank_0_and_leaves_the_others(self):
        first, second = self.run_script("""
            try:
                lockstep.Model(sys.argv[1], dtype="float32", launch="inside", max_seq_len=100000)
            except lockstep.Error as error:
                print(error.kind)
            print(long(lockstep.Model(sys.argv[1], dtype="float32", launch="inside")))
        """)
        self.assertEqual(first, ["invalid_argument", str(self.expected)])
        self.assertEqual(second, [])

    def test_the_end_of_the_script_ends_the_others(self):
        self.run_script("""
            model = lockstep.Model(sys.argv[1], dtype="float32", launch="inside")
            long(model)
            raise RuntimeError("of the script")
        """, expected_code=1)
        self.assertIn("RuntimeError: of the script", self.said)

    def test_all_ranks_run_the_script(self):
        for launcher in self.LAUNCHERS:
            with self.subTest(launcher):
                said = self.run_script("""
                    for _ in range(2):
                        with lockstep.Model(sys.argv[1], dtype="float32", launch="inside", script="all") as model:
                            print(long(model), model.facts["ranks"])
                            print([token.id for token in model.stream(prompt, max_new_tokens=9)])
                            print(model.score([prompt], top=2), model.counters)
                            print(model.complete([prompt, [4]], max_new_tokens=3)[1].outputs[0].token_ids)
                    print(model)
                """, ranks=3, launcher=launcher)
                self.assertEqual(said[0][0], f"{self.expected} 3")
                self.assertEqual(len(said[0]), 9)
                self.assertEqual(said[1], said[0])
                self.assertEqual(said[2], said[0])

    def test_says_when_ranks_make_other_calls(self):
        first, second = self.run_script("""
            model = lockstep.Model(sys.argv[1], dtype="float32", launch="inside", script="all")
            for tokens in (3 + rank, 4):
                try:
                    print(len(model.generate([prompt], max_new_tokens=tokens)[0]))
                except lockstep.InputError as error:
                    print(error)
        """)
        self.assertEqual(first, ["7", "8"])
        self.assertRegex(second[0], "cannot answer call 0: found other arguments than on rank 0")
        self.assertEqual(second[1:], ["8"])

    def test_a_killed_rank_ends_the_others(self):
        begun = time.monotonic()
        first, _ = self.run_script("""
            import signal
            model = lockstep.Model(sys.argv[1], dtype="float32", launch="inside", script="all")
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                while True:
                    long(model)
            except lockstep.Error as error:
                print(error, flush=True)
                raise
        """, expected_code=None, leaks=True, options=["--enable-recovery"])  # else mpirun kills rank 0
        self.assertRegex("".join(first), r"\brank 1\b.* was lost")
        self.assertLess(time.monotonic() - begun, 60)

    def test_ctrl_c_ends_a_rank_that_serves(self):
        begun = time.monotonic()
        self.run_script("""
            import signal, threading
            if rank == 1:
                threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
            model = lockstep.Model(sys.argv[1], dtype="float32", launch="inside")
            while True:
                long(model)
        """, expected_code=1, leaks=True)
        self.assertIn("KeyboardInterrupt", self.said)
        self.assertLess(time.monotonic() - begun, 60)

    def test_without_a_launcher_there_is_one_rank(self):
        done = subprocess.run([sys.executable, "-c", "import sys, lockstep; print(lockstep.Model(sys.argv[1], launch='inside'))",
                               self.directory], capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("tp=1", done.stdout, done.stderr)


if __name__ == "__main__":
    if sys.argv[1:] == ["mpich"]:
        Inside.LAUNCHERS = [shutil.which("mpiexec.mpich") or sys.exit(launches.SKIPPED)]
        unittest.main(argv=[sys.argv[0], "Inside.test_rank_0_runs_the_script", "Inside.test_all_ranks_run_the_script"],
                      verbosity=2)
    unittest.main(verbosity=2)
