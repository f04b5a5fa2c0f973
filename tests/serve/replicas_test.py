"""`lockstep engine` with more ranks of mpirun than --tp: several groups of ranks, each an engine of its own.

    replicas_test.py PROGRAM        run by the Python of .venv, which has pycapnp
"""
import asyncio
import concurrent.futures
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import capnp

import engine_test
from engine_test import DEADLINE, PROMPTS, SCHEMA, ask

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import hosts  # noqa: E402
import launches  # noqa: E402

PROGRAM = None
# Each library's mpirun for four ranks, also on fewer cores.
MPIRUNS = {name: words for name, words in {"Open MPI": ("mpirun.openmpi", "-n", "4", "--oversubscribe"),
                                           "MPICH": ("mpirun.mpich", "-n", "4")}.items() if shutil.which(words[0])}


class Launched:
    """Engines of four ranks of mpirun, in groups of `degree`."""

    def __init__(self, mpirun, folder, *more, degree=2):
        self.output = tempfile.TemporaryFile("w+")
        self.records = pathlib.Path(tempfile.mkdtemp(dir=folder))
        self.socket = self.records / "engine.sock"
        words = [*mpirun, PROGRAM, "engine", "--model", folder / "model", "--threads", 1, "--max-seq-len", 128,
                 "--batch-size", 2, "--socket", self.socket, "--exit-record", self.records, "--tp", degree, *more]
        self.process = subprocess.Popen(list(map(str, words)), stdout=self.output, stderr=subprocess.STDOUT,
                                        stdin=subprocess.DEVNULL, env=launches.environment(), start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE)
        self.output.close()

    def said(self):
        self.output.seek(0)
        return " ".join(self.output.read().split())

    def record(self, rank):
        """The end of a rank of the launch; none while it lives."""
        path = self.records / f"rank-{rank}.json"
        return json.loads(path.read_text()) if path.exists() else None

    async def engine(self, socket=None, host=None, port=0, secret=b""):
        """A client and the engine at the address, once it serves."""
        end = asyncio.get_running_loop().time() + DEADLINE
        while True:
            try:
                stream = await (capnp.AsyncIoStream.create_unix_connection(str(socket)) if socket else
                                capnp.AsyncIoStream.create_connection(host, port))
                client = capnp.TwoPartyClient(stream)
                entry = await asyncio.wait_for(client.bootstrap().cast_as(SCHEMA.Entrance).enter(secret), DEADLINE)
                if entry.which() == "failure":
                    raise AssertionError(str(entry.failure.message))
                return client, entry.engine
            except (FileNotFoundError, ConnectionRefusedError):
                if self.process.poll() is not None or asyncio.get_running_loop().time() > end:
                    raise AssertionError(self.said()) from None
                await asyncio.sleep(0.02)


class Replicated(engine_test.WithAnswers):
    async def expect_answers(self, engine):
        sinks = [await ask(engine, ids) for ids in PROMPTS]
        answers = [await sink.answers() for sink in sinks]
        self.assertEqual([answer[0][0] for answer in answers], self.expected)


class Replicas(Replicated):
    def expect_refusal(self, mpirun, code, said):
        """MPICH's code also has the signals with which it ends the ranks that are behind the first one."""
        self.assertEqual(code & 4 if "mpich" in mpirun else code, 4, said)

    def test_each_replica_serves_the_answers_of_one_group_and_all_end_well_together(self):
        async def body(launched, degree):
            async with capnp.kj_loop():
                clients, engines = [], []
                client, first = await launched.engine(launched.socket)
                facts = (await first.facts()).facts
                self.assertEqual((facts.version, facts.ranks), (5, degree))
                self.assertEqual([(one.socket, one.port) for one in facts.replicas],
                                 [(f"{launched.socket}-{number}", 0) for number in range(1, 4 // degree)])
                for one in facts.replicas:
                    beside, engine = await launched.engine(one.socket)
                    self.assertEqual(len((await engine.facts()).facts.replicas), 0)
                    clients.append(beside)
                    engines.append(engine)
                for engine in [*engines, first]:
                    await self.expect_answers(engine)
                for engine in [*engines, first]:
                    await engine.finish()
                del client, clients

        for name, degree in [*((name, 2) for name in MPIRUNS), (next(iter(MPIRUNS)), 1)]:
            with self.subTest(mpi=name, degree=degree), Launched(MPIRUNS[name], self.folder, degree=degree) as launched:
                asyncio.run(body(launched, degree))
                self.assertEqual(launched.process.wait(DEADLINE), 0, launched.said())
                records = [launched.record(rank) for rank in range(4)]
                self.assertEqual([(one["rank"], one["code"]) for one in records], [(0, 0), (1, 0), (2, 0), (3, 0)])
                self.assertNotIn("MPI_Finalize", launched.said())

    @unittest.skipIf("Open MPI" not in MPIRUNS, "another mpirun ends all ranks after the first")
    def test_a_lost_rank_ends_its_own_replica_alone_where_mpirun_lets_it(self):
        async def body(launched):
            async with capnp.kj_loop():
                client, engine = await launched.engine(launched.socket)
                other, beside = await launched.engine(f"{launched.socket}-1")
                lost = await ask(beside, PROMPTS[0], max_new_tokens=100)  # the fault is in its sixth step
                kind, message, _ = await lost.answers()
                self.assertEqual(kind, "peer_lost", message)
                await self.expect_answers(engine)
                await engine.finish()
                del client, other

        mpirun = (*MPIRUNS["Open MPI"], "--enable-recovery")
        with Launched(mpirun, self.folder, "--fault", "rank=3,phase=decode,kind=kill,step=5") as launched:
            asyncio.run(body(launched))
            launched.process.wait(DEADLINE)
            self.assertEqual([launched.record(rank)["code"] for rank in range(3)], [0, 0, 5], launched.said())
            self.assertIsNone(launched.record(3))
            self.assertEqual(launched.record(2)["lost_rank"], 3)
            self.assertIn("rank 1 of replica 1 is rank 3 of the launch", launched.record(2)["message"])
            self.assertIn("replica 0 ends without MPI_Finalize: ", launched.said())

    def test_replicas_with_different_options_do_not_start(self):
        (program, _, _, *crowded), *_ = MPIRUNS.values()
        engine = [PROGRAM, "engine", "--model", self.folder / "model", "--tp", 2, "--threads", 1, "--max-seq-len", 128,
                  "--socket", self.folder / "engine.sock"]
        words = [program, "-n", 2, *crowded, *engine, "--batch-size", 2, ":", "-n", 2, *engine, "--batch-size", 3]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=DEADLINE, check=False,
                              env=launches.environment())
        self.expect_refusal(program, done.returncode, done.stderr)
        self.assertIn("ranks disagree on options: ranks 2, 3 differ from rank 0", done.stderr)
        self.assertIn("(ranks of the launch)", done.stderr)

    def test_a_degree_that_does_not_divide_the_ranks_is_refused(self):
        for name, mpirun in MPIRUNS.items():
            with self.subTest(mpi=name), Launched(mpirun, self.folder, degree=3) as launched:
                self.expect_refusal(mpirun[0], launched.process.wait(DEADLINE), launched.said())
                self.assertIn("--tp: found 3, expected 4 (the ranks that were started) or a divisor", launched.said())

    def test_a_divisor_is_refused_where_a_command_uses_one_group(self):
        for name, mpirun in MPIRUNS.items():
            for command in (("generate", "--prompt", "x"), ("score", "--text", "x"), ("bench",)):
                with self.subTest(mpi=name, command=command[0]):
                    words = [*mpirun, PROGRAM, *command, "--model", self.folder / "model", "--tp", 2]
                    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=DEADLINE,
                                          check=False, env=launches.environment())
                    self.expect_refusal(mpirun[0], done.returncode, done.stderr)
                    self.assertIn("found 2 with 4 ranks that were started, expected --tp 4 or 2 ranks", done.stderr)


def run_on(host, work):
    """Runs `work` on a thread that has the host's network; the sockets that it opens belong there."""
    def enter():
        with open(f"/proc/{host.keeper.pid}/ns/net", encoding="ascii") as network:
            if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), 0) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        return work()

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(enter).result()


class ReplicasOnTwoHosts(Replicated):
    def test_another_hosts_replica_serves_over_tcp_with_the_secret_of_the_first_one(self):
        async def body(launched):
            async with capnp.kj_loop():
                client, engine = await launched.engine(launched.socket)
                (other,) = (await engine.facts()).facts.replicas
                self.assertEqual((other.socket, other.host), ("", "10.77.0.2"))
                self.assertGreaterEqual(len(other.secret), 32)
                with self.assertRaisesRegex(AssertionError, "found another secret than the engine's"):
                    await launched.engine(host=other.host, port=other.port, secret=b"guessed")
                neighbour, beside = await launched.engine(host=other.host, port=other.port, secret=other.secret)
                for one in (engine, beside):
                    await self.expect_answers(one)
                    await one.finish()
                del client, neighbour

        with hosts.Hosts(2) as group, Launched(group.mpirun([2, 2]), self.folder) as launched:
            run_on(group[0], lambda: asyncio.run(body(launched)))
            self.assertEqual(launched.process.wait(DEADLINE), 0, launched.said())


if __name__ == "__main__":
    engine_test.PROGRAM = PROGRAM = sys.argv[1]
    if not MPIRUNS:
        print("skipped: no mpirun is there (Debian: openmpi-bin, mpich)")
        sys.exit(launches.SKIPPED)
    if why_not := "Open MPI" not in MPIRUNS and "no mpirun of Open MPI" or hosts.why_not():
        ReplicasOnTwoHosts = unittest.skip(why_not)(ReplicasOnTwoHosts)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
