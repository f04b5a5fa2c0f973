"""Ranks that this process starts with mpirun, and starts again when one is lost.

    JobModel ─ mpirun -n P python -m lockstep.job ─► rank 0 connects to this process's socket; the others serve
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

from .errors import Error, bad_input, closed_meanwhile
from .log import log_line
from .remote import Call, CallRunner, Event, RemoteModel

_ADDRESS = "LOCKSTEP_PYTHON_JOB"  # the socket of the process that has started the ranks
_MOST_STARTS = 6  # in a row without an event of a call
_END_SECONDS = 60.0
_LOST = ("peer_lost", "deadline_exceeded")  # the ranks have to be started again


class JobModel(RemoteModel):
    """A model on ranks of `launcher`. Open calls go on after a loss: their answers do not depend on it."""

    launch = "launch='mpirun'"

    def __init__(self, files: Any, arguments: dict[str, Any], tp: int, launcher: str,
                 start_deadline: float) -> None:
        super().__init__(files)
        self._arguments = arguments
        self._words = _words(launcher, tp)
        self._start_deadline = start_deadline
        self._sending = threading.Lock()
        self._ended = threading.Event()
        self._folder = tempfile.mkdtemp(prefix="lockstep-")  # of this user alone
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        try:
            self._start()
        except BaseException:
            self._remove()
            raise
        threading.Thread(target=self._read, name="lockstep job", daemon=True).start()

    def _start(self) -> None:
        """Starts the ranks and waits until they serve."""
        path = os.path.join(self._folder, "rank0")
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(paths), **{_ADDRESS: path})
        said = open(os.path.join(self._folder, "stderr"), "w+b")  # noqa: SIM115: kept by the process
        if os.path.exists(path):
            os.unlink(path)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(1)
            listener.settimeout(0.1)
            with said:
                self._process = subprocess.Popen(  # in a session of its own: Ctrl-C is for this process
                    [*self._words, sys.executable, "-m", "lockstep.job"], env=environment, stdin=subprocess.DEVNULL,
                    stdout=said, stderr=said, start_new_session=True)
            end = time.monotonic() + self._start_deadline
            self._connection = self._accepted(listener, end)
        self._connection.send(self._arguments)
        while not self._connection.poll(0.1):
            self._check_start(end)
        try:
            state, value = self._connection.recv()
        except (EOFError, OSError):
            self._process.wait(_END_SECONDS)
            self._check_start(end)
            raise
        if state == "failed":
            raise value
        self._last_facts = value

    def _accepted(self, listener: socket.socket, end: float) -> Connection:
        while True:
            try:
                accepted, _ = listener.accept()
            except TimeoutError:
                pass
            else:
                accepted.setblocking(True)
                return Connection(accepted.detach())
            self._check_start(end)

    def _check_start(self, end: float) -> None:
        assert self._process is not None
        if (code := self._process.poll()) is not None:
            raise Error(f"[python] cannot start {shlex.join(self._words)}: found exit code {code}, expected ranks that "
                        f"serve; its last words: {self._last_words()}", "unavailable")
        if time.monotonic() > end:
            raise Error(f"[python] cannot start {shlex.join(self._words)}: found no rank 0 on this host after "
                        f"{self._start_deadline:.0f} s, expected its connection; raise start_deadline, or name a launcher "
                        f"whose first rank is here; its last words: {self._last_words()}", "deadline_exceeded")

    def _last_words(self) -> str:
        with open(os.path.join(self._folder, "stderr"), encoding="utf-8", errors="replace") as said:
            lines = [line.strip() for line in said if line.strip()]
        return " | ".join(lines[-4:]) or "none"

    def _read(self) -> None:
        """Passes events on, and starts the ranks again after a loss."""
        try:
            self._pass_events()
        except Exception as failure:  # noqa: BLE001: whatever it is, no call may wait for ever
            self._give_up(failure)
        finally:
            self._ended.set()

    def _pass_events(self) -> None:
        """Returns when the model is being closed; fails when the ranks cannot be started again."""
        starts = 1
        while True:
            assert self._connection is not None
            try:
                number, event = self._connection.recv()
            except (EOFError, OSError):
                if not self._is_open:  # it is being closed
                    return
                if starts == _MOST_STARTS:
                    raise Error(f"[python] lost the ranks: found {starts} starts without an answer, expected ranks that "
                                "serve; see their log", "peer_lost") from None
                self._start_again()
                starts += 1
                continue
            starts = 1
            self._receive(number, event)

    def _give_up(self, failure: Exception) -> None:
        """The ranks are lost for good: fails the open calls and leaves nothing behind."""
        log_line(0, "error", str(failure))
        if getattr(failure, "kind", "") != "peer_lost":
            failure = Error(f"[python] lost the ranks: found that they do not start again ({failure}), expected ranks that "
                            "serve; make another lockstep.Model", "peer_lost")
        self._is_open = False
        self._fail_calls(failure)
        self._remove()

    def _start_again(self) -> None:
        log_line(0, "warning", f"[python] the ranks are lost ({self._last_words()}); they start again, and "
                               f"{len(self._calls)} open calls go on")
        with self._sending:  # calls that begin meanwhile are sent after those that are open
            self._end_processes()
            self._start()
            with self._mutex:
                calls = dict(self._calls)
            for number, pending in calls.items():
                pending.expect_again()
                self._pass_on((number, pending.call))

    def _pass_on(self, message: Any) -> None:
        """Call with `_sending`."""
        if self._connection is None:
            return  # lost for good: the reader fails all calls
        try:
            self._connection.send(message)
        except OSError:
            pass  # lost: the reader starts the ranks again and sends it

    def _send(self, number: int, call: Call) -> None:
        with self._sending:
            self._pass_on((number, call))

    def _send_cancel(self, number: int) -> None:
        with self._sending:
            self._pass_on((number, None))

    def _end_processes(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is None:
            return
        for end_signal, seconds in ((signal.SIGTERM, 5.0), (signal.SIGKILL, _END_SECONDS)):
            try:
                os.killpg(self._process.pid, end_signal)
            except ProcessLookupError:
                pass
            try:
                self._process.wait(seconds)
                break
            except subprocess.TimeoutExpired:
                continue
        self._process = None

    def _remove(self) -> None:
        """Ends the processes and removes their folder."""
        with self._sending:
            self._end_processes()
        shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        if not self._is_open:
            self._ended.wait(2 * _END_SECONDS)  # the reader may be ending lost ranks
            return
        self._note_last()
        self._is_open = False
        with self._sending:
            self._pass_on(("close", None))
        self._fail_calls(closed_meanwhile("cannot end the call"))
        self._ended.wait(_END_SECONDS)
        if (process := self._process) is not None:
            try:
                process.wait(_END_SECONDS / 4)  # mpirun sees its ranks end
            except subprocess.TimeoutExpired:
                pass
        self._remove()

    def disown(self) -> None:
        self._is_open = False
        self._process = None


def _words(launcher: str, ranks: int) -> list[str]:
    try:
        words = [word.replace("{ranks}", str(ranks)) for word in shlex.split(launcher)]
    except ValueError as error:
        raise bad_input("cannot read launcher", f"{launcher!r} ({error})", "words as in a shell",
                        "close its quotes") from None
    if not words or "{ranks}" not in launcher:
        raise bad_input("cannot read launcher", repr(launcher), "a command with {ranks} in it",
                        "write launcher='mpirun -n {ranks}'")
    if shutil.which(words[0]) is None:
        raise Error(f"[python] cannot start ranks: found no program {words[0]!r}, expected a launcher; install Open MPI or "
                    "MPICH, or name one with launcher=, or use launch='threads'", "unavailable")
    return words


def main() -> None:
    """A rank of the job."""
    from .inside import own_ranks

    path = os.environ[_ADDRESS]
    inside = own_ranks(None)
    if inside.rank != 0:
        inside.serve_to_the_end()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        connection = Connection(client.detach())
    sending = threading.Lock()

    def send(number: int, event: Event) -> None:
        with sending:
            try:
                connection.send((number, event))
            except OSError:
                pass  # nobody is there any more; the loop below ends

    def emit(number: int, event: Event) -> None:
        if event[0] == "failed" and getattr(event[1], "kind", "") in _LOST:
            os._exit(1)  # the others start all ranks again
        try:
            send(number, event)
        except Exception as error:  # noqa: BLE001: an exception that cannot be sent
            send(number, ("failed", Error(f"[python] cannot send a result: {error!r}")))

    arguments = connection.recv()
    try:
        opened = inside.open(**arguments)
    except Error as error:
        connection.send(("failed", error))
        return
    connection.send(("ready", opened.facts()))
    runner = CallRunner(opened, emit)
    try:
        while (message := connection.recv())[0] != "close":
            number, call = message
            if call is None:
                runner.cancel(number)
            else:
                runner.start(number, call)
    except (EOFError, OSError):
        pass  # the process that has started the ranks is gone
    opened.close()


if __name__ == "__main__":
    # Not this copy of the module, whose classes other processes would not know.
    from lockstep.job import main as run

    run()
