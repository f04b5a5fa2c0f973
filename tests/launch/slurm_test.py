"""Ranks by srun and sbatch on a private Slurm: the same tokens, and the messages of wrong launches."""
import json
import socket
import subprocess
import urllib.parse
import urllib.request

import hosts
import launches
import slurm
import tiny_model
import waiting


class Slurm(launches.Launches):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = cls.enterClassContext(slurm.Slurm())

    def test_srun_with_pmix_gives_the_same_tokens(self):
        done = self.cluster.run(["srun", "--mpi=pmix", "-n", "2", launches.PROGRAM, *self.arguments("srun")])
        self.expect_tokens(done, "srun", 2)
        self.expect_words(done, "2 ranks on 1 host, started by srun: mpi (Open MPI")

    def test_more_tasks_than_cores_do_not_starve_each_other(self):
        done = self.cluster.run(["srun", "--mpi=pmix", "-n", "4", launches.PROGRAM, *self.arguments("four")],
                                environment={"OMPI_MCA_mpi_yield_when_idle": ""})
        self.expect_tokens(done, "four", 4)

    def test_sbatch_runs_srun_and_mpirun_steps(self):
        for step in ("srun --mpi=pmix -n 2", "mpirun --allow-run-as-root --oversubscribe -n 2"):
            with self.subTest(step=step):
                script = self.folder / "job.sh"
                script.write_text(f"#!/bin/sh\n#SBATCH --ntasks=2\n#SBATCH --output={self.folder}/job.out\n"
                                  f"{step} {launches.PROGRAM} {' '.join(self.arguments('sbatch'))}\n")
                done = self.cluster.batch(script)
                done.stdout += (self.folder / "job.out").read_text()
                self.expect_tokens(done, "sbatch", 2)

    def test_a_server_ends_in_order_after_a_signal_to_all_of_its_ranks(self):
        tiny_model.write_tokenizer(self.model)
        endpoint, log = self.folder / "endpoint.json", self.folder / "server.log"
        words = ["srun", "--mpi=pmix", "-n", "2", launches.PROGRAM, "serve", "--model", self.model, "--port", 0, "--threads",
                 1, "--endpoint-file", endpoint]
        with open(log, "w") as output, subprocess.Popen(
                list(map(str, words)), env=self.cluster.environment(), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT) as step:
            waiting.until(lambda: endpoint.exists() or step.poll() is not None)
            self.assertTrue(endpoint.exists(), log.read_text())
            found = json.loads(endpoint.read_text())
            address = urllib.parse.urlsplit(found["url"])
            # A request whose body is missing is open until every rank has taken the signal.
            with socket.create_connection((address.hostname, address.port), timeout=launches.DEADLINE) as open_request:
                open_request.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
                urllib.request.urlopen(found["url"] + "/health", timeout=launches.DEADLINE).close()
                self.cluster.run(["scancel", "--signal=TERM", found["job"]])
                words = [f"[r{rank}] leaves the end to the server" for rank in range(2)]
                self.assertTrue(waiting.until(lambda: all(word in log.read_text() for word in words)), log.read_text())
            self.assertEqual(step.wait(launches.DEADLINE), 0, log.read_text())

    def test_a_step_without_pmix_is_refused_before_mpi_ends_the_process(self):
        for kind, chosen in (("none", {}), ("pmi2", {"LOCKSTEP_MPI_LIBRARY": "libmpi.so.40"})):
            with self.subTest(mpi=kind):
                done = self.cluster.run(["srun", f"--mpi={kind}", "-n", "2", launches.PROGRAM, *self.arguments("none")],
                                        environment=chosen)
                self.expect_refusal(done, "the launcher does not fit this program's MPI, Open MPI", "srun --mpi=pmix")


class SlurmOnTwoHosts(launches.Launches):
    def test_a_step_over_two_nodes_gives_the_same_tokens(self):
        if reason := hosts.why_not():
            self.skipTest(reason)
        with hosts.Hosts(2) as group, slurm.Slurm(group) as cluster:
            done = cluster.run(["srun", "--mpi=pmix", "-N", "2", "--ntasks-per-node=1", launches.PROGRAM,
                                *self.arguments("nodes")])
            self.expect_tokens(done, "nodes", 2)
            self.expect_words(done, "2 ranks on 2 hosts, started by srun", "control plane: node0 (net0 10.77.0.1/24)")


if __name__ == "__main__":
    launches.start_tests(slurm.why_not())
