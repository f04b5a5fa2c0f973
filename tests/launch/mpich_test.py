"""Open MPI's library under MPICH's mpirun: if selected, refused with a message that names both."""
import shutil

import launches

MPIRUN = "mpirun.mpich"


class Mpich(launches.Launches):
    def test_the_other_mpis_mpirun_is_named_with_what_fits(self):
        done = self.run_command([MPIRUN, "-n", 2, launches.PROGRAM, *self.arguments("wrong")],
                                {"LOCKSTEP_MPI_LIBRARY": "libmpi.so.40"})
        self.expect_refusal(done, "this program's MPI, Open MPI", "as MPICH's mpiexec (PMI) says", "mpirun.openmpi",
                            "the library was named, libmpi.so.40")


if __name__ == "__main__":
    launches.start_tests(None if shutil.which(MPIRUN) else f"{MPIRUN} is not there (Debian: mpich)")
