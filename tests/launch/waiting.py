"""Waiting for what other processes do, and signals to those that may have ended."""
import contextlib
import os
import signal
import time

HAS_SANITIZER = not {"ASAN_OPTIONS", "TSAN_OPTIONS"}.isdisjoint(os.environ)  # of the program under test
DEADLINE = 1200 if HAS_SANITIZER else 120  # seconds of any wait; only a hang gets there


def until(condition):
    """The first true value of `condition` before the deadline, or False."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    return False


def signal_if_there(pid, number=signal.SIGKILL):
    """The process may have ended by itself meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
