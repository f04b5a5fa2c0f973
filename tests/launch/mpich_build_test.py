"""MPICH's library: the same tokens under MPICH's mpirun and srun; if selected, refused under Open MPI's launchers."""
import shutil

import hosts
import launches
import slurm

MPIRUN = "mpirun.mpich"


MPICH = {"LOCKSTEP_MPI_LIBRARY": "libmpich.so.12"}


class MpichBuild(launches.Launches):
    def test_one_and_two_ranks_give_the_same_tokens(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                done = self.run_command([MPIRUN, "-n", ranks, launches.PROGRAM, *self.arguments("mpich")])
                self.expect_tokens(done, "mpich", ranks)
        self.expect_words(done, "started by MPICH's mpiexec (PMI): mpi (MPICH ")

    def test_two_hosts_give_the_same_tokens(self):
        if reason := hosts.why_not():
            self.skipTest(reason)
        with hosts.Hosts(2) as group:
            done = self.run_command([*group.mpirun_mpich([1, 1]), launches.PROGRAM, *self.arguments("hosts")])
        # On a busy machine MPICH 4.0.2 over sockets sometimes never returns from MPI_Finalize, after all work is done:
        # the ranks then end at their deadline and name it, and the answer is complete.
        if done.returncode == 6 and "MPI_Finalize did not end within" in done.stdout:
            done.returncode = 0
        self.expect_tokens(done, "hosts", 2)
        self.expect_words(done, "control plane: node0 (net0 10.77.0.1/24), node1 (net0 10.77.0.2/24)")

    def test_open_mpis_mpirun_is_named_with_what_fits(self):
        if not shutil.which("mpirun.openmpi"):
            self.skipTest("Open MPI is not there")
        done = self.run_command(["mpirun.openmpi", "-n", 2, "--bind-to", "none", launches.PROGRAM,
                                 *self.arguments("wrong")], MPICH)
        self.expect_refusal(done, "this program's MPI, MPICH", "as Open MPI's mpirun says", "mpirun.mpich",
                            "the library was named, libmpich.so.12")

    def test_srun_gives_the_same_tokens_with_pmi2_and_is_refused_with_pmix(self):
        if reason := slurm.why_not():
            self.skipTest(reason)
        with slurm.Slurm() as cluster:
            done = cluster.run(["srun", "--mpi=pmi2", "-n", "2", launches.PROGRAM, *self.arguments("pmi2")])
            self.expect_tokens(done, "pmi2", 2)
            done = cluster.run(["srun", "--mpi=pmix", "-n", "2", launches.PROGRAM, *self.arguments("wrong")],
                               environment=MPICH)
            self.expect_refusal(done, "this program's MPI, MPICH", "srun --mpi=pmi2")


if __name__ == "__main__":
    launches.start_tests(None if shutil.which(MPIRUN) else f"{MPIRUN} is not there (Debian: mpich)")
