"""The ranks of mpirun or srun, of which this process is one.

    script="first"   rank 0 runs the script; on the others the first `Model` serves rank 0 to its end, then the process ends
    script="all"     every rank runs the script; rank 0 sends the events of each call to the others

One thread of the process has MPI: it joins the group, opens models, serves and closes.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Client, Listener
from typing import Any

from . import _lockstep
from .errors import Error, bad_input
from .log import log_line
from .remote import Call, CallRunner, Event, RemoteModel

_END_SECONDS = 30.0
_MEETING_SECONDS = 60.0
_ALL = "launch='inside' with script='all'"


class OwnRanks:
    """The group of the launch, one for the process."""

    def __init__(self, communicator: Any) -> None:
        self._tasks: queue.Queue[tuple[Callable[[], Any], list[Any], threading.Event]] = queue.Queue()
        threading.Thread(target=self._work, name="lockstep MPI", daemon=True).start()
        self.handle = _handle_of(communicator)
        self.group = self.run(lambda: _lockstep.Ranks(self.handle, log_line, os.environ.__setitem__, _end_process))
        self.rank, self.size = self.group.rank, self.group.size
        self._opened: Any = None  # the last model of this rank
        self._serves = False  # now, for rank 0's script

    def _work(self) -> None:
        while True:
            task, result, done = self._tasks.get()
            try:
                result.append((task(), None))
            except BaseException as error:  # noqa: BLE001: the caller gets it
                result.append((None, error))
            del task, result  # what they refer to may have to go before the next one comes
            done.set()

    def begin(self, task: Callable[[], Any]) -> tuple[list[Any], threading.Event]:
        result: list[Any] = []
        done = threading.Event()
        self._tasks.put((task, result, done))
        return result, done

    def run(self, task: Callable[[], Any]) -> Any:
        """Runs `task` on the thread that has MPI."""
        result, done = self.begin(task)
        while not done.wait(1.0):  # Ctrl-C interrupts it
            pass
        value, error = result[0]
        if error is not None:
            raise error
        return value

    def _check_free(self) -> None:
        if self._opened is not None and self._opened.is_open():
            raise Error("[python] cannot open a model: found another one that is open on the ranks of this launch, expected "
                        "one at a time; close it first", "failed_precondition")

    def tell(self, command: dict[str, Any]) -> None:
        self.run(lambda: self.group.broadcast(json.dumps(command)))

    def open(self, directory: str, options: dict[str, Any]) -> Any:
        """Opens a model on all ranks. On rank 0."""
        self._check_free()
        read = _lockstep.open_options(**options)  # before the others hear of it: it may raise
        self.tell({"do": "open", "directory": directory, "options": options})
        self._opened = InsideModel(self, self.run(lambda: _lockstep.open_on_ranks(directory, read, self.group)))
        return self._opened

    def serve_to_the_end(self) -> None:
        """Serves rank 0's models until rank 0 ends, then ends this process. On the other ranks."""
        while (command := self.next_command())["do"] == "open":
            if "address" in command:
                raise Error("[python] cannot serve: found script='all' on rank 0, expected script='first' as here; open "
                            "the model in the same way on every rank", "failed_precondition")
            try:
                self._serve(command)
            except Error as error:
                if error.kind in ("peer_lost", "deadline_exceeded", "internal"):
                    raise
                # Rank 0 raises the same error; its script decides what follows.
        self._leave()
        sys.exit(0)

    def next_command(self) -> dict[str, Any]:
        command: dict[str, Any] = json.loads(self.run(lambda: self.group.broadcast("")))
        return command

    def _serve(self, command: dict[str, Any]) -> None:
        options = _lockstep.open_options(**command["options"])
        self._serves = True
        try:
            self.run(lambda: self.group.serve(command["directory"], options))
        except Error:
            self._serves = False
            raise
        self._serves = False  # not after Ctrl-C, which leaves it at work

    def open_for_all(self, directory: str, options: dict[str, Any]) -> Any:
        """Opens a model on all ranks, each of which runs the script."""
        self._check_free()
        if self.rank == 0:
            read = _lockstep.open_options(**options)
            self._opened = LeadingModel(self, directory, options, read)
        else:
            self._opened = FollowingModel(self, directory, options)
        return self._opened

    def _leave(self) -> None:
        group, self.group, self._opened = self.group, None, None
        self.run(group.leave)

    def end(self) -> None:
        """Closes the model; the other ranks end too, and MPI."""
        if self.group is None or self._serves:
            return
        try:
            if self._opened is not None and self._opened.is_open():
                self._opened.close()
            if self.rank == 0:
                self.tell({"do": "end"})
            elif self.next_command()["do"] != "end":
                return  # this rank's script has ended early: rank 0 will miss it
            self._leave()
        except Error as error:
            print(error, file=sys.stderr)
        self.group = self._opened = None


class InsideModel:
    """A model of rank 0, closed by the thread that has MPI."""

    def __init__(self, ranks: OwnRanks, opened: _lockstep.OpenModel) -> None:
        self._ranks, self._open = ranks, opened

    def __getattr__(self, name: str) -> Any:
        return getattr(self._open, name)

    def call(self, function: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return getattr(_lockstep, function)(self._open, *arguments, **keywords)

    def close(self) -> None:
        self._ranks.run(self._open.close)

    def __del__(self) -> None:
        if self._open.is_open():
            self.close()


class LeadingModel(RemoteModel):
    """Rank 0's part of a model that all ranks call: it makes each call once, and sends its events to all."""

    launch = _ALL

    def __init__(self, ranks: OwnRanks, directory: str, options: dict[str, Any], read: Any) -> None:
        key = secrets.token_bytes(32)
        with Listener(("0.0.0.0", 0), backlog=ranks.size, authkey=key) as listener:
            ranks.tell({"do": "open", "directory": directory, "options": options, "key": key.hex(),
                        "address": [socket.gethostname(), listener.address[1]]})
            self._own = InsideModel(ranks, ranks.run(lambda: _lockstep.open_on_ranks(directory, read, ranks.group)))
            super().__init__(self._own)
            self._others = _accept_all(listener, ranks.size - 1)
        self._sending = threading.Lock()
        self._runner = CallRunner(self._own, self._emit)

    def _tell_others(self, number: int, event: Event) -> None:
        with self._sending:
            for other in self._others:
                try:
                    other.send((number, event))
                except OSError:
                    pass  # it is lost: the group says so

    def _emit(self, number: int, event: Event) -> None:
        self._tell_others(number, event)
        self._receive(number, event)

    def _send(self, number: int, call: Call) -> None:
        self._tell_others(number, ("call", _mark_of(call)))
        self._runner.start(number, call)

    def _send_cancel(self, number: int) -> None:
        self._runner.cancel(number)

    def close(self) -> None:
        if not self._is_open:
            return
        self._note_last()
        self._is_open = False
        self._own.close()
        for other in self._others:
            other.close()
        self._others = []


class FollowingModel(RemoteModel):
    """Another rank's part: it serves, and takes the results of rank 0's calls for its own."""

    launch = _ALL

    def __init__(self, ranks: OwnRanks, directory: str, options: dict[str, Any]) -> None:
        super().__init__(_lockstep.open_files(directory, _lockstep.open_options(**options)))
        command = ranks.next_command()
        if command["do"] != "open" or "address" not in command:
            raise Error("[python] cannot open a model: found script='first' on rank 0 or its end, expected script='all' as "
                        "here; open the model in the same way on every rank", "failed_precondition")
        self._order = threading.RLock()  # of the events of a call
        self._early: dict[int, list[Event]] = {}  # of calls that this rank has not made yet
        self._served, self._has_served = ranks.begin(
            lambda: ranks.group.serve(command["directory"], _lockstep.open_options(**command["options"])))
        host, port = command["address"]
        self._connection = None
        while self._connection is None:
            try:
                self._connection = Client((_own_name(host), port), authkey=bytes.fromhex(command["key"]))
            except ConnectionRefusedError:
                self._check_served()
        threading.Thread(target=self._read, name="lockstep events", daemon=True).start()

    def _check_served(self) -> None:
        if self._has_served.wait(0.05) and self._served[0][1] is not None:
            raise self._served[0][1]

    def _read(self) -> None:
        assert self._connection is not None
        while True:
            try:
                number, event = self._connection.recv()
            except (EOFError, OSError):
                break
            with self._order:
                if number in self._early or number >= self._next:
                    self._early.setdefault(number, []).append(event)
                else:
                    self._receive(number, event)
        self._has_served.wait(_END_SECONDS)
        error = self._served[0][1] if self._served else None
        self._fail_calls(error or Error("[python] cannot end the call: found a model that rank 0 has closed, expected the "
                                        "same calls on every rank", "cancelled"))

    def _receive(self, number: int, event: Event) -> None:
        if event[0] == "call":
            pending = self._calls.get(number)
            if pending is not None and _mark_of(pending.call) != event[1]:
                super()._receive(number, ("failed", bad_input(
                    f"cannot answer call {number}", "other arguments than on rank 0", "the same calls in the same order on "
                    "every rank", "seed what is drawn, and read the same files")))
            return
        super()._receive(number, event)

    def _send(self, number: int, call: Call) -> None:
        with self._order:
            for event in self._early.pop(number, []):
                self._receive(number, event)

    def _send_cancel(self, number: int) -> None:
        pass  # rank 0 ends it

    def close(self) -> None:
        if not self._is_open:
            return
        self._note_last()
        self._is_open = False
        self._has_served.wait()  # until rank 0 closes
        if self._served[0][1] is not None:
            raise self._served[0][1]

    def disown(self) -> None:
        self._is_open = False


def _mark_of(call: Call) -> str:
    """What must be the same on every rank."""
    rows = [[part.tolist() if hasattr(part, "tolist") else part for part in (row if isinstance(row, tuple) else (row,))]
            for row in call.rows]
    return json.dumps([call.kind, rows, call.changes, call.top, call.streams, call.special_text])


def _own_name(host: str) -> str:
    return "127.0.0.1" if host == socket.gethostname() else host


def _accept_all(listener: Listener, count: int) -> list[Any]:
    """The other ranks' connections; a rank that does not come fails the group, which ends the wait."""
    accepted: list[Any] = []
    failed: list[BaseException] = []

    def accept() -> None:
        try:
            while len(accepted) < count:
                accepted.append(listener.accept())
        except Exception as error:  # noqa: BLE001: the caller raises it
            failed.append(error)

    thread = threading.Thread(target=accept, name="lockstep ranks", daemon=True)
    thread.start()
    thread.join(_MEETING_SECONDS)
    if failed or thread.is_alive():
        raise Error(f"[python] cannot reach the other ranks: found {len(accepted)} of {count} connections after "
                    f"{_MEETING_SECONDS:.0f} s ({failed}), expected one of each; look at the network between the hosts",
                    "deadline_exceeded")
    return accepted


def _handle_of(communicator: Any) -> int | None:
    """The communicator of mpi4py that was given, or all ranks where mpi4py has started MPI."""
    if communicator is None:
        mpi = sys.modules.get("mpi4py.MPI")
        if mpi is None or not mpi.Is_initialized():
            return None
        communicator = mpi.COMM_WORLD
    return communicator.py2f() if hasattr(communicator, "py2f") else int(communicator)


def _end_process(message: str) -> None:
    """A call of MPI does not return, so nothing but the process can end."""
    print(message, file=sys.stderr, flush=True)
    os._exit(70)


_own_ranks: OwnRanks | None = None


def own_ranks(communicator: Any) -> OwnRanks:
    """The ranks of this process's launch; joins them once."""
    global _own_ranks
    if _own_ranks is None:
        _own_ranks = OwnRanks(communicator)
    elif communicator is not None and _handle_of(communicator) != _own_ranks.handle:
        raise bad_input("cannot open a model", "another communicator than of the first model inside this launch", "the same",
                        "pass the same communicator")
    return _own_ranks


def _end() -> None:
    if _own_ranks is not None:
        _own_ranks.end()


def _forget() -> None:
    """In a forked child, which has no ranks."""
    global _own_ranks
    if _own_ranks is not None and _own_ranks.group is not None:
        _own_ranks.group.disown()
    _own_ranks = None


atexit.register(_end)
os.register_at_fork(after_in_child=_forget)
