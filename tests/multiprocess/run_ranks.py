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
    if "mpich" in os.path.basename(options.mpirun) or "hydra" in os.path.basename(options.mpirun):
        return [options.mpirun, "-n", str(options.ranks), "-prepend-rank", "-bind-to", "none", *options.mpirun_option,
                *options.command]
    crowded = options.ranks > len(os.sched_getaffinity(0))
    command = [options.mpirun, "-n", str(options.ranks), "--tag-output", "--bind-to", "none"]
    if crowded:
        command += ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    return command + options.mpirun_option + options.command


def launch_environment():
    environment = dict(os.environ)
    if os.geteuid() == 0:
        environment["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
        environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return environment


def processes_of_session(session):
    """mpirun puts ranks into separate process groups; they all share the session."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except OSError:
            continue  # the process has just ended
        state, its_session = fields[0], int(fields[3])
        if its_session == session and state != "Z":
            found.append(int(entry))
    return found


def end_session(session):
    """Kills the remaining processes of the job and waits for their end; returns which there were."""
    found = set()

    def is_over():
        left = processes_of_session(session)
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
        job = subprocess.Popen(launch_command(options), stdin=subprocess.DEVNULL, stdout=output,
                               stderr=subprocess.STDOUT, env=launch_environment(), start_new_session=True)
        complaints = []
        try:
            code = job.wait(timeout=options.deadline)
        except subprocess.TimeoutExpired:
            code = DEADLINE_PASSED
            complaints.append(f"the deadline of {options.deadline:g} s passed")
        finally:
            if code_is_good := job.poll() is not None:
                settle(lambda: not processes_of_session(job.pid))
            left = end_session(job.pid)
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
