"""Runs a child program with a deadline, handles interruption, and leaves no process behind.

    start ──► running ──────────────────► ends by itself ─────────────┐
                 │ deadline, or a signal to us                        ├─► its session is emptied ─► Outcome
                 └─► SIGTERM to its group ─► grace ─► SIGKILL ────────┘

A child leads a session: Ctrl-C on the terminal reaches only this process, and the session identifies all processes of
the child, including ranks, which mpirun puts into separate process groups. When this process dies, the kernel sends the
child SIGTERM.
"""
from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from types import FrameType

KEPT_BYTES = 16384  # of a child's stderr: its end
GRACE_S = 10.0      # from SIGTERM to SIGKILL
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)  # loaded before any fork


class CannotStart(Exception):
    """The program cannot be started; `code` is the corresponding exit code."""

    def __init__(self, program: str, error: OSError) -> None:
        is_absent = isinstance(error, (FileNotFoundError, PermissionError, NotADirectoryError))
        advice = "name a program that exists, or put it into PATH" if is_absent else "free processes or memory"
        super().__init__(f"cannot start {program}: {error.strerror}; {advice}")
        self.code = 2 if is_absent else 4


class Interrupted(Exception):
    """A signal requested the end; the awaited child has ended."""


class Interruption:
    """SIGINT, SIGTERM and SIGUSR1 as one event that stays raised."""
    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def watch(self) -> None:
        """Makes the signals raise the event instead of ending this process."""
        def raise_event(number: int, frame: FrameType | None) -> None:
            self.set()

        for number in self.SIGNALS:
            signal.signal(number, raise_event)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)  # wakes a wait at any time

    def set(self) -> None:
        try:
            os.write(self._write, b"!")
        except BlockingIOError:
            pass  # raised many times already

    def fileno(self) -> int:
        return self._read


@dataclass(frozen=True)
class Outcome:
    returncode: int  # negative: the signal that ended it
    passed_deadline: bool
    seconds: float
    errors: str  # the end of its stderr

    @property
    def succeeded(self) -> bool:
        return self.returncode == 0 and not self.passed_deadline

    @property
    def shell_code(self) -> int:
        return self.returncode if self.returncode >= 0 else 128 - self.returncode

    def __str__(self) -> str:
        how = f"exit code {self.returncode}"
        if self.returncode < 0:
            how = f"signal {-self.returncode} ({signal.strsignal(-self.returncode)})"
        return f"ended at its deadline: {how}" if self.passed_deadline else how


def processes_of_session(session: int) -> list[int]:
    """The processes that have not ended."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except OSError:
            continue  # the process has just ended
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(entry))
    return found


def _empty_session(session: int) -> None:
    """Kills the remaining processes of a child. Called before the child is reaped, because until then its id is not
    reused."""
    give_up = time.monotonic() + 5.0
    while (left := processes_of_session(session)) and time.monotonic() < give_up:
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.002)


def _ends(handle: int, seconds: float) -> bool:
    return bool(select.select([handle], [], [], seconds)[0])


def _become_child(parent: int) -> None:
    """Runs in the new process, so that it ends with its parent."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(127)


def run_child(words: list[str], deadline_s: float, interruption: Interruption) -> Outcome:
    """Starts a program and waits for its end. Raises CannotStart and Interrupted. Blocks."""
    if select.select([interruption], [], [], 0)[0]:
        raise Interrupted
    parent = os.getpid()
    with tempfile.TemporaryFile() as errors:
        begin = time.monotonic()
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                                       start_new_session=True, preexec_fn=lambda: _become_child(parent))
        except OSError as error:
            raise CannotStart(words[0], error) from error
        handle = os.pidfd_open(process.pid)
        ready = select.select([handle, interruption], [], [], deadline_s)[0]
        if handle not in ready:
            os.killpg(process.pid, signal.SIGTERM)
            _ends(handle, GRACE_S)
        seconds = time.monotonic() - begin
        os.close(handle)
        _empty_session(process.pid)
        process.wait()
        if interruption in ready:
            raise Interrupted
        size = errors.seek(0, os.SEEK_END)
        errors.seek(max(0, size - KEPT_BYTES))
        return Outcome(process.returncode, not ready, seconds, errors.read().decode(errors="replace"))
