"""Ranks by Open MPI's mpirun and by threads, on one host: the same tokens, and the messages of wrong launches."""
import os
import pathlib
import shutil

import launches

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "examples" / "cluster" / "two-jobs.sh"


class Mpirun(launches.Launches):
    def mpirun(self, ranks, arguments, *options):
        crowded = ["--oversubscribe"] if ranks > len(os.sched_getaffinity(0)) else []
        return self.run_command(["mpirun", "-n", ranks, *crowded, *options, launches.PROGRAM, *arguments])

    def test_one_two_and_four_ranks_give_the_same_tokens(self):
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                self.expect_tokens(self.mpirun(ranks, self.arguments("mpirun")), "mpirun", ranks)

    def test_threads_of_one_process_give_the_same_tokens(self):
        done = self.run_command([launches.PROGRAM, *self.arguments("threads"), "--launch", "threads", "--tp", 2])
        self.expect_tokens(done, "threads", 2)

    def test_a_table_says_once_where_every_rank_is(self):
        done = self.mpirun(2, self.arguments("table"), "--bind-to", "none")
        self.expect_words(done, "2 ranks on 1 host, started by Open MPI's mpirun: mpi (Open MPI",
                          "rank host local device threads cores", "0/2 cpu 1", "1/2 cpu 1")
        self.assertEqual(" ".join(done.stdout.split()).count("rank host local"), 1)

    def test_two_ranks_on_one_core_while_another_idles_are_told_how_to_bind(self):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            self.skipTest("this machine has one core")
        done = self.run_command(["mpirun", "-n", 2, "--bind-to", "none", "taskset", "-c", cores[0], launches.PROGRAM,
                                 *self.arguments("bound")])
        self.expect_tokens(done, "bound", 2)
        self.expect_words(done, f"share 1 core ({cores[0]}) while", "mpirun --bind-to none, or mpirun --map-by slot:PE=")

    def test_two_jobs_on_cores_of_their_own_run_side_by_side(self):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            self.skipTest("this machine has one core")
        jobs = [[word for word in self.arguments(name)[1:] if word not in ("--threads", "1")] for name in ("j1", "j2")]
        done = self.run_command([SCRIPT, cores[0], cores[1], *jobs[0], "--", *jobs[1]],
                                {"LOCKSTEP": launches.PROGRAM})
        self.assertEqual(done.returncode, 0, done.stdout)
        for name in ("j1", "j2"):
            answer = self.answer(name)
            self.assertEqual(answer["sequences"], self.expected)
            self.assertEqual(answer["threads"], 1)  # as many as the job has cores, not as the machine has

    def test_a_job_that_fails_beside_another_is_told_by_its_code(self):
        words = self.arguments("good")[1:]
        done = self.run_command([SCRIPT, 0, 0, "--model", self.folder / "nowhere", "--prompt", "a", "--", *words],
                                {"LOCKSTEP": launches.PROGRAM})
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.answer("good")["sequences"], self.expected)

    def test_more_threads_than_cores_are_told(self):
        done = self.mpirun(2, self.arguments("many", threads=4), "--bind-to", "core")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.expect_words(done, "computes with 4 threads on 1 core")

    def test_singletons_are_refused_although_each_of_them_could_run(self):
        # The environment of a process with an incompatible launcher: variables of a job of two, and no job.
        done = self.run_command([launches.PROGRAM, *self.arguments("single")],
                                {"PMI_SIZE": "2", "PMI_RANK": "1", "MPI_LOCALRANKID": "1",
                                 "LOCKSTEP_MPI_LIBRARY": "libmpi.so.40"})
        self.expect_refusal(done, "rank 1: the launcher does not fit this program's MPI, Open MPI",
                            "found MPI rank 0 of 1, expected rank 1 of 2 as MPICH's mpiexec (PMI) says",
                            "Open MPI's mpirun")

    def test_an_interface_that_is_not_there_is_refused_with_those_that_are(self):
        done = self.mpirun(2, self.arguments("nowhere", "--interface", "nosuch0"))
        self.expect_refusal(done, "found lo 127.0.0.1/8", "expected 'nosuch0'", "--interface NAME")
        done = self.mpirun(2, self.arguments("named", "--interface", "lo"))
        self.expect_tokens(done, "named", 2)


if __name__ == "__main__":
    launches.start_tests(None if shutil.which("mpirun") else "mpirun is not there (Debian: openmpi-bin)")
