"""Starts `lockstep generate`, or another command, as ranks under mpirun and watches how each of them ends. Used by the tests beside it."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref

import mpirun
import run_ranks

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
from waiting import DEADLINE, HAS_SANITIZER, signal_if_there  # noqa: E402, F401


def wait_until(condition, seconds=DEADLINE, what="a condition"):
    """Polls until `condition()` is true and returns its value. Fails the test after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds:g} s for {what}")
        time.sleep(0.01)


def cpu_seconds(pid):
    """Processor time that a process has used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Job:
    """A running mpirun. A context manager that kills all remaining processes at its end."""

    def __init__(self, program, ranks, arguments, environment=None, per_rank=None,
                 before=(), per_program=None, command="generate"):
        """`before`: words between the program and its command; `per_program`: such a word for each rank."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-job-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)  # tests read records of an ended job
        self.records = self.folder / "records"
        self.records.mkdir()
        self.ranks = ranks
        tail = [command, "--exit-record", str(self.records)]
        common = [str(program), *before, *tail]
        words = mpirun.words(survive=True, tag=True)
        if per_program is not None:
            for rank, word in enumerate(per_program):
                words += ([":"] if rank else []) + ["-n", "1", str(program), word, *tail, *arguments]
        elif per_rank is None:
            words += ["-n", str(ranks), *common, *arguments]
        else:  # ranks with different arguments
            for rank in range(ranks):
                words += ([":"] if rank else []) + ["-n", "1", *common, *arguments, *per_rank[rank]]
        self.output = open(self.folder / "output", "wb")
        self.shared_memory = run_ranks.shared_memory()
        self.mark = run_ranks.mark()
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=subprocess.STDOUT, start_new_session=True,
                                        env={**mpirun.environment(), **(environment or {}), **self.mark})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        run_ranks.end_job(self.mark)
        self.process.wait()
        self.output.close()

    def text(self):
        self.output.flush()
        return (self.folder / "output").read_text(errors="replace")

    def pids(self, program):
        """Process ids of the ranks, by rank, as their environment has them."""
        prefix = f"{mpirun.RANK_VARIABLE}=".encode()
        found = {}
        for pid in run_ranks.processes_of_job(self.mark):
            try:
                if os.readlink(f"/proc/{pid}/exe") != str(pathlib.Path(program).resolve()):
                    continue
                with open(f"/proc/{pid}/environ", "rb") as environ:
                    for entry in environ.read().split(b"\0"):
                        if entry.startswith(prefix):
                            found[int(entry.split(b"=")[1])] = pid
            except OSError:
                continue
        return found

    def record(self, rank):
        path = self.records / f"rank-{rank}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def wait_for_record(self, rank, seconds=DEADLINE):
        try:
            return wait_until(lambda: self.record(rank), seconds, f"the exit record of rank {rank}")
        except AssertionError as error:
            raise AssertionError(f"{error}; the job said:\n{self.text()}") from None

    def record_of_survivor(self, rank, seconds=DEADLINE):
        """The record of a rank whose peer was killed; None if mpirun killed the rank before it had written one."""
        if mpirun.ENDS_ALL:
            wait_until(lambda: self.record(rank) or "Killed (signal 9)" in self.text(), seconds, f"the end of rank {rank}")
            return self.record(rank)
        return self.wait_for_record(rank, seconds)

    def wait_for_text(self, text, seconds=DEADLINE):
        def said():
            if self.process.poll() is not None and text not in self.text():
                raise AssertionError(f"the job ended without saying {text!r}:\n{self.text()}")
            return text in self.text()
        wait_until(said, seconds, repr(text))

    def wait_for_steps(self, program):
        """Waits until the job is ready and rank 0 has then computed for a time, in the middle of its steps."""
        seconds = 5.0 if HAS_SANITIZER else 0.3  # after the prompt
        self.wait_for_text("ready:")
        pid = self.pids(program)[0]
        begin = cpu_seconds(pid)
        wait_until(lambda: cpu_seconds(pid) - begin > seconds, what="rank 0 to compute")

    def kill(self, program, rank):
        """Sends kill -9; returns the time, in unix time."""
        pid = self.pids(program)[rank]
        os.kill(pid, signal.SIGKILL)
        return time.time()

    def wait(self):
        """mpirun's exit code (a race when ranks died: judge the records)."""
        return self.process.wait(timeout=DEADLINE)

    def left_behind(self):
        """Processes and shared memory that remain after the job."""
        run_ranks.settle(lambda: not run_ranks.processes_of_job(self.mark), 5.0)
        processes = run_ranks.processes_of_job(self.mark)
        memory = run_ranks.orphaned(run_ranks.shared_memory() - self.shared_memory)
        return processes, memory
