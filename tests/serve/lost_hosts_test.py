"""A server whose ranks are on several hosts: one is lost, one is taken away with notice, and one comes back. Every answer
is that of a server whose hosts stayed. The commands are those of examples/cluster.

    lost_hosts_test.py PROGRAM MODEL [UNITTEST ARGUMENT…]
"""
import os
import pathlib
import subprocess
import sys
import unittest

import recovery_test
import served

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import hosts  # noqa: E402
import launches  # noqa: E402
import test_folder  # noqa: E402

PROGRAM = MODEL = None
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "cluster"
SILENCE = 2  # seconds
CLIENTS = ("greedy", "sampled", "schema")


def name_of(pid):
    """Of a process; empty once it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


class LostHosts(test_folder.FolderTests):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.group = cls.enterClassContext(hosts.Hosts(2))
        cls.hostfile = cls.folder / "hosts.txt"
        cls.hostfile.write_text("# of the test\nnode0 slots=1\nnode1 slots=2\n")
        # As mpirun's options of hosts.py.
        mpi = {"plm_rsh_agent": cls.group.remote_shell, "pml": "ob1", "btl": "self,vader,tcp", "mpi_yield_when_idle": "1"}
        cls.environment = {**launches.environment(), "LOCKSTEP": PROGRAM, "NETWORK": hosts.SUBNET,
                           **{f"OMPI_MCA_{name}": value for name, value in mpi.items()}}

    def serve(self, *words):
        address = ("--unix-socket", self.folder / "serve.sock")  # the test is on none of the hosts
        command = self.group.on(0, [EXAMPLES / "serve-hosts.sh", self.hostfile])
        return served.Served(None, MODEL, "--silence-s", SILENCE, *recovery_test.SIZES, *words, address=address,
                             command=command, environment=self.environment)

    def where(self, server):
        """The hosts of the ranks."""
        return [rank["host"] for rank in server.get("/admin/status")[1]["ranks"]]

    def begin(self, server):
        streams = recovery_test.begin_all(server, CLIENTS)
        self.assertTrue(served.until(lambda: streams["greedy"].tokens() >= 12))
        return streams

    def expect_same(self, server, streams, expected):
        self.assertEqual(recovery_test.transcripts(streams), expected, server.said()[-3000:])
        return max(stream.longest for stream in streams.values())

    def expect_ranks(self, server, *places):
        self.assertTrue(served.until(lambda: server.get("/health")[0] == 200 and self.where(server) == list(places)),
                        server.said()[-3000:])

    def test_the_server_goes_on_without_a_host(self):
        with self.serve() as server:
            self.assertEqual(self.where(server), ["node0", "node1", "node1"])
            expected = recovery_test.answers(recovery_test.begin_all(server, CLIENTS))
            with self.subTest("it is lost"):
                streams = self.begin(server)
                self.group[1].ip("link set net0 down")
                longest = self.expect_same(server, streams, expected)
                print(f"a host was lost: longest pause of a client {longest:.2f} s with --silence-s {SILENCE}")
                self.expect_ranks(server, "node0")
                self.assertIn("all ranks on node1 are lost", server.said())
                # Its ranks, which cannot reach the others, end by themselves.
                self.assertTrue(served.until(lambda: not self.ranks_on(1)), self.group[1].processes())
            self.group[1].ip("link set net0 up")
            self.group[1].ip("route replace default dev net0")
            with self.subTest("it is back, and asked for"):
                streams = self.begin(server)
                code, answer = server.post("/admin/degree", {"tp": 3, "wait": True})
                if code != 200:  # a slow machine: the server has begun by itself
                    self.assertIn("another change under way", answer["error"]["message"], server.said()[-3000:])
                self.expect_same(server, streams, expected)
                self.expect_ranks(server, "node0", "node1", "node1")
            with self.subTest("its ranks are told to leave"):
                streams = self.begin(server)
                # On real hosts leave-host.sh sees its own host's processes alone; here it would see all.
                for pid in self.ranks_on(1):
                    os.kill(pid, 15)
                # Before the host, which is there, is used again: on a slow machine while the streams go on.
                self.expect_ranks(server, "node0")
                self.assertTrue(served.until(lambda: not self.ranks_on(1)), self.group[1].processes())
                longest = self.expect_same(server, streams, expected)
                print(f"a host was taken away: longest pause of a client {longest:.2f} s")
                self.assertIn("2 of 3 ranks are to leave on node1", server.said())
                self.assertEqual(server.get("/admin/status")[1]["restarts"], 1)  # of the lost host
        self.assertEqual(server.process.returncode, 0)

    def test_a_host_that_is_back_is_used_again(self):
        with self.serve() as server:
            self.group[1].ip("link set net0 down")
            self.expect_ranks(server, "node0")
            self.group[1].ip("link set net0 up")
            self.group[1].ip("route replace default dev net0")
            expected = recovery_test.answers(recovery_test.begin_all(server, CLIENTS))
            self.expect_ranks(server, "node0", "node1", "node1")  # within two minutes, though nobody has asked
            self.assertEqual(recovery_test.transcripts(recovery_test.begin_all(server, CLIENTS)), expected)

    def ranks_on(self, host):
        return [pid for pid in self.group[host].processes() if name_of(pid) == "lockstep"]


if __name__ == "__main__":
    PROGRAM, MODEL = sys.argv[1:3]
    recovery_test.PROGRAM, recovery_test.MODEL = PROGRAM, MODEL
    if reason := hosts.why_not():
        print(f"skipped: {reason}")
        sys.exit(launches.SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
