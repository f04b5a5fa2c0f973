"""The control plane between hosts and on one host: strangers at its ports are refused and logged, and runs go on."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

import hosts
import launches
import waiting

STRANGER = pathlib.Path(__file__).with_name("stranger.py")
ATTACKS = ["garbage", "http", "caf", "replayed", "oversize", "early end", "other run", "half open"]
REFUSALS = ["bytes of another protocol", "no proof of the run's secret", "more bytes than a hello",
            "its end before a hello", "the hello of another run", "too many connections without a hello"]
PAUSED = ["--fault", "rank=1,phase=decode,kind=stop,step=3", "--silence-s", "100"]


def processes_of(folder):
    """{number: status} of the processes of a run in `folder`."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(folder).encode() in (entry / "cmdline").read_bytes():
                found[int(entry.name)] = (entry / "status").read_text()
        except OSError:
            continue
    return found


def stopped_process(folder):
    """The process of a run in `folder` that the fault has stopped."""
    return next((number for number, status in processes_of(folder).items() if "\nState:\tT" in status), None)


class Paused:
    """A run whose rank 1 stands still in the middle of an answer until `go_on`."""

    def __init__(self, command, folder):
        self.folder, self.log = folder, folder / "paused.log"
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, env=launches.environment())
        waiting.until(lambda: stopped_process(folder) or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()

    def end(self):
        """Leaves nothing, also when a test has failed."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if stopped := stopped_process(self.folder):
            os.kill(stopped, signal.SIGKILL)

    def go_on(self):
        """The finished process."""
        os.kill(stopped_process(self.folder), signal.SIGCONT)
        code = self.process.wait(timeout=launches.DEADLINE)
        return subprocess.CompletedProcess([], code, self.log.read_text(errors="replace"))


class ControlPlane(launches.Launches):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.group = cls.enterClassContext(hosts.Hosts(2))

    def listening(self, enter, folder):
        """(address, port) of the sockets on which a run in `folder` listens on a host."""
        own = {f"pid={number}," for number in processes_of(folder)}
        found = subprocess.run([*enter, "ss", "-ltnpH"], capture_output=True, text=True, check=True, timeout=30).stdout
        return [(address.strip("[]"), int(port)) for line in found.splitlines() if any(number in line for number in own)
                for address, port in [line.split()[3].rsplit(":", 1)]]

    def control_ports(self, enter, address, stranger, folder, expected):
        """Those on `address` that greet a process on the host `stranger` with a challenge, as MPI's own do not. Waits for
        `expected` of them, and a second for more."""
        script = ("import select, socket, sys, time\n"
                  "left = {socket.create_connection((sys.argv[1], port), timeout=20): port for port in map(int, sys.argv[3:])}\n"
                  "greeted, end = [], time.monotonic() + 20\n"
                  "while left and time.monotonic() < end:\n"
                  "    if len(greeted) >= int(sys.argv[2]):\n"
                  "        end = min(end, time.monotonic() + 1)\n"
                  "    for one in select.select(list(left), [], [], 0.1)[0]:\n"
                  "        port = left.pop(one)\n"
                  "        greeted += [port] if one.recv(8) == b'LSTEPch1' else []\n"
                  "print(*greeted)\n")
        ports = [str(port) for bound, port in self.listening(enter, folder) if bound == address]
        words = [*stranger, sys.executable, "-c", script, address, str(expected), *ports]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
        return list(map(int, done.stdout.split()))

    def attack(self, enter, address, ports, recorded, meanwhile=lambda: None):
        """Every attack at every port; `meanwhile` runs while the half-open connections stand."""
        running = []
        for port in ports:
            one = subprocess.Popen([*enter, sys.executable, str(STRANGER), "attack", address, str(port), str(recorded)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.addCleanup(one.stdout.close)
            self.addCleanup(one.kill)
            running.append(one)
            self.assertEqual([one.stdout.readline().strip() for _ in ATTACKS], [f"{name} True" for name in ATTACKS])
        meanwhile()
        for one in running:
            one.stdin.close()
            self.assertEqual(one.wait(timeout=30), 0)

    def expect_refusals(self, log, ports, address):
        """Each kind was logged, once a port and power of ten, with its origin; nothing else was."""
        lines = [line for line in log.splitlines() if "[control]" in line]
        for words in REFUSALS:
            of_kind = [line for line in lines if f"found {words}" in line]
            self.assertGreaterEqual(len(of_kind), ports, log)
            for line in of_kind:
                self.assertRegex(line, rf"\[control\] rank 0: refused a connection from {re.escape(address)}:\d+: ")
        self.assertLessEqual(len(lines), ports * (len(REFUSALS) + 4), log)

    def test_strangers_between_hosts_are_refused_and_the_answers_are_the_same(self):
        folder, recorded = self.folder / "between", self.folder / "between" / "hello"
        folder.mkdir()
        recorder = subprocess.Popen(self.group.on(1, [sys.executable, STRANGER, "record", recorded]),
                                    stdout=subprocess.PIPE, text=True)
        self.addCleanup(recorder.stdout.close)
        self.addCleanup(recorder.kill)
        self.assertEqual(recorder.stdout.readline(), "recording\n")
        records = ["--exit-record", folder]
        paused = Paused([*self.group.mpirun([1, 1]), launches.PROGRAM, *self.arguments("between", *PAUSED, *records)],
                        folder)
        self.addCleanup(paused.end)
        self.assertEqual(recorder.wait(timeout=30), 0)
        first, other = self.group[0], self.group[1]
        ports = self.control_ports(first.enter(), first.address, other.enter(), folder, 2)
        self.assertEqual(len(ports), 2)  # the watch and the actors
        self.assertEqual(self.control_ports(other.enter(), other.address, first.enter(), folder, 0), [])

        def second_run():
            done = self.run_command([*self.group.mpirun([1, 1]), launches.PROGRAM, *self.arguments("second")])
            self.expect_tokens(done, "second", 2)

        self.attack(other.enter(), first.address, ports, recorded, second_run)
        done = paused.go_on()
        self.expect_tokens(done, "between", 2)
        self.expect_refusals(done.stdout, len(ports), other.address)

    def test_strangers_on_one_host_are_refused_and_the_answer_is_the_same(self):
        folder = self.folder / "here"
        folder.mkdir()
        paused = Paused([launches.PROGRAM, *self.arguments("here", "--launch", "processes", "--tp", "2", *PAUSED,
                                                           "--exit-record", folder)], folder)
        self.addCleanup(paused.end)
        listening = self.listening([], folder)
        ports = self.control_ports([], "127.0.0.1", [], folder, 1)
        self.assertTrue(all(address == "127.0.0.1" for address, _ in listening), listening)
        self.assertEqual(len(ports), 1)  # the watch meets at a Unix socket
        with socket.create_connection(("127.0.0.1", ports[0]), timeout=20) as one:
            one.sendall(b"LSTEPhi1" + bytes(77))
            while one.recv(100):  # the challenge, then the end
                pass
        done = paused.go_on()
        self.expect_tokens(done, "here", 2)
        self.expect_words(done, "found the hello of another run", "refused a connection from 127.0.0.1:")


if __name__ == "__main__":
    launches.start_tests(hosts.why_not())
