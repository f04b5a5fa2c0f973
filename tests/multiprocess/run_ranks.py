#!/usr/bin/env python3
"""Runs a program as ranks under mpirun: with a deadline, silent on success, without remaining processes.

    run_ranks.py --ranks 4 --deadline 60 -- build/release/bin/some_test --some-option

Prints the output of every rank (tagged) only after a failure. Exit code: the job's own; 77 when there is no such
mpirun; 124 when the deadline passed; 125 when a successful job left processes or shared memory behind.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

import mpirun

MARK = "LOCKSTEP_TEST_JOB"
SHARED_MEMORY = "/dev/shm"
PREFIX = "lockstep-"
LEFT_BEHIND = 125
DEADLINE_PASSED = 124
SKIPPED = 77


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--deadline", type=float, required=True, help="seconds for the whole job")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--mpirun-option", action="append", default=[], help="passed to mpirun as it is")
    parser.add_argument("--expect-code", type=int, default=0, help="the exit code that counts as success")
    parser.add_argument("--show", action="store_true", help="print the output when all is well, too")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.command[:1] == ["--"]:
        options.command = options.command[1:]
    if not options.command:
        parser.error("no program: give it after --")
    return options


def launch_command(options):
    """mpirun and the options that make it work on any machine, with any number of cores."""
    crowded = options.ranks > len(os.sched_getaffinity(0))
    return [*mpirun.words(options.mpirun, tag=True, crowded=crowded, idle_yields=crowded), "-n", str(options.ranks),
            *options.mpirun_option, *options.command]


def mark():
    """A new variable for the environment of a job's processes, by which they are found: some launchers put ranks into
    sessions apart."""
    return {MARK: uuid.uuid4().hex}


def processes_of_job(marked):
    """Those that began with the variable `marked`, except ended ones."""
    ((name, value),) = marked.items()
    wanted = f"{name}={value}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as environ:  # empty after the end
                if wanted in environ.read().split(b"\0"):
                    found.append(int(entry))
        except OSError:
            continue  # the process has just ended
    return found


def end_job(marked):
    """Kills the remaining processes of the job and waits for their end; returns which there were."""
    found = set()

    def is_over():
        left = processes_of_job(marked)
        found.update(left)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return not left

    settle(is_over, 10)
    return found


def shared_memory():
    try:
        return {name for name in os.listdir(SHARED_MEMORY) if name.startswith(PREFIX)}
    except OSError:
        return set()


def orphaned(names):
    """Those of the names whose maker (its pid is in the name) has ended."""
    return sorted(name for name in names if not os.path.exists(f"/proc/{name[len(PREFIX):].split('-')[0]}"))


def settle(condition, seconds=2.0):
    """Waits a moment for ending processes; returns whether `condition` became true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def run(options):
    before = shared_memory()
    with tempfile.TemporaryFile() as output:
        marked = mark()
        job = subprocess.Popen(launch_command(options), stdin=subprocess.DEVNULL, stdout=output, start_new_session=True,
                               stderr=subprocess.STDOUT, env={**mpirun.environment(), **marked})
        complaints = []
        try:
            code = job.wait(timeout=options.deadline)
        except subprocess.TimeoutExpired:
            code = DEADLINE_PASSED
            complaints.append(f"the deadline of {options.deadline:g} s passed")
        finally:
            if code_is_good := job.poll() is not None:
                settle(lambda: not processes_of_job(marked))
            left = end_job(marked)
            job.wait()
        if left and code_is_good:
            complaints.append(f"{len(left)} processes were left behind (killed now)")
        if not settle(lambda: not orphaned(shared_memory() - before)):
            names = orphaned(shared_memory() - before)
            complaints.append(f"shared memory was left behind (removed now): {', '.join(names)}")
            for name in names:
                os.unlink(os.path.join(SHARED_MEMORY, name))
        output.seek(0)
        return code, complaints, output.read().decode(errors="replace")


def main():
    options = arguments()
    if shutil.which(options.mpirun) is None:
        print(f"skipped: {options.mpirun} is not there; scripts/test --full installs what Debian has")
        return SKIPPED
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that the job is ended
    code, complaints, output = run(options)
    good = code == options.expect_code and not complaints
    if options.show or not good:
        print(output, end="")
    for complaint in complaints:
        print(f"[run_ranks] {complaint}")
    if good:
        return 0
    print(f"[run_ranks] {options.ranks} ranks of {options.command[0]}: found exit code {code}, "
          f"expected {options.expect_code}")
    return code if code not in (0, options.expect_code) else LEFT_BEHIND


if __name__ == "__main__":
    sys.exit(main())
