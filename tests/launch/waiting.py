"""Waiting for what other processes do."""
import os
import time

SLOWDOWN = 10 if {"ASAN_OPTIONS", "TSAN_OPTIONS"} & os.environ.keys() else 1  # of a program with a sanitizer
DEADLINE = 120 * SLOWDOWN  # seconds of any wait; only a hang gets there


def until(condition):
    """The first true value of `condition` before the deadline, or False."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    return False
