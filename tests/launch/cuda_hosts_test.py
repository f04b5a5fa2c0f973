"""GPUs of several hosts (namespaces), over the stand-ins of the CUDA driver and NCCL: the CPU's tokens, and every failure
ends in time, with its reason.

    cuda_hosts_test.py PROGRAM CUDA_STAND_IN NCCL_STAND_IN
"""
import json
import subprocess
import sys

import hosts
import launches

CUDA = NCCL = None


class GpusOfSeveralHosts(launches.Launches):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.group = cls.enterClassContext(hosts.Hosts(2))

    def mpirun(self, name, ranks, *more, options=(), driver=None, library=None, nccl="", deadline=60):
        """Ranks on the hosts, two GPUs on each."""
        settings = ["-x", "LOCKSTEP_STAND_IN_CUDA=threaded,devices=2", "-x", f"LOCKSTEP_STAND_IN_NCCL={nccl}"]
        arguments = self.arguments(name, "--backend", "cuda", "--cuda-driver", driver or CUDA, "--nccl",
                                   library or NCCL, *more, deadline=deadline)
        return self.run_command([*self.group.mpirun(ranks, [*settings, *options]), launches.PROGRAM, *arguments])

    def failure(self, name, ranks, *more, **settings):
        """(the run, rank 0's record) of a run that fails."""
        (self.folder / name).mkdir()
        done = self.mpirun(name, ranks, "--exit-record", self.folder / name, *more, **settings)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done, json.loads((self.folder / name / "rank-0.json").read_text())

    def test_hosts_of_two_give_the_tokens_of_one_rank(self):
        self.expect_tokens(self.mpirun("even", [2, 2]), "even", 4)

    def test_uneven_hosts_and_ranks_that_alternate_give_the_same_tokens(self):
        self.expect_tokens(self.mpirun("uneven", [2, 1]), "uneven", 3)
        self.expect_tokens(self.mpirun("turns", [2, 2], options=["--map-by", "node"]), "turns", 4)

    def test_hosts_of_one_give_the_same_tokens(self):
        self.expect_tokens(self.mpirun("one_each", [1, 1]), "one_each", 2)

    def test_a_killed_rank_ends_those_of_the_other_host(self):
        _, record = self.failure("dead", [2, 2], "--fault", "rank=3,phase=decode,kind=kill,step=3")
        self.assertEqual((record["code"], record["lost_rank"]), (5, 3), record)

    def test_a_stuck_rank_of_the_other_host_is_found_by_its_silence(self):
        _, record = self.failure("stuck", [2, 2], "--fault", "rank=2,phase=decode,kind=stop,step=3", "--silence-s", "2")
        self.assertEqual((record["code"], record["lost_rank"]), (5, 2), record)

    def test_a_rank_that_dies_inside_an_exchange_is_named(self):
        _, record = self.failure("inside", [1, 1], nccl="Work@1:60=die")
        self.assertEqual((record["code"], record["lost_rank"]), (5, 1), record)

    def test_a_rank_that_dies_before_it_connects_is_named(self):
        _, record = self.failure("early", [1, 1], "--fault", "rank=1,phase=load,kind=kill")
        self.assertEqual((record["code"], record["lost_rank"]), (5, 1), record)

    def test_a_rank_that_never_arrives_is_found_by_its_silence(self):
        _, record = self.failure("late", [1, 1], "--fault", "rank=1,phase=load,kind=stop", "--silence-s", "2")
        self.assertEqual((record["code"], record["lost_rank"]), (5, 1), record)

    def test_a_host_without_a_driver_ends_the_start_everywhere(self):
        driver = "/dev/shm/libcuda.so"  # each host has its own
        subprocess.run(self.group.on(0, ["ln", "-s", CUDA, driver]), check=True)
        done, record = self.failure("driverless", [1, 1], driver=driver)
        self.assertEqual(record["code"], 4, record)
        self.expect_words(done, "cannot load the CUDA driver")
        self.assertIn("cannot load the CUDA driver", record["message"])

    def test_an_error_of_the_network_in_a_step_is_told(self):
        done, record = self.failure("network", [1, 1], nccl="Work@0:60=6")
        self.assertEqual(record["code"], 5, record)
        self.expect_words(done, "ncclRemoteError", "look at the other hosts' ranks")

    def test_a_network_that_never_connects_ends_at_the_deadline(self):
        done, record = self.failure("never", [1, 1], nccl="CommInitRankConfig:1+=hang", deadline=4)
        self.assertEqual(record["code"], 6, record)
        self.expect_words(done, "cannot connect the GPUs of several hosts", "NCCL_SOCKET_IFNAME")

    def test_a_missing_library_is_named_with_its_option(self):
        done = self.mpirun("none", [1, 1], library=self.folder / "nothing.so")
        self.expect_refusal(done, "cannot load NCCL, which GPUs of several hosts need", "nothing.so", "--nccl")


if __name__ == "__main__":
    NCCL = sys.argv.pop(3)
    CUDA = sys.argv.pop(2)
    launches.start_tests(hosts.why_not())
