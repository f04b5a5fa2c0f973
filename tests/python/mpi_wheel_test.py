"""MPI from a wheel: a script under MPICH's mpiexec of PyPI, alone and beside mpi4py.

    mpi_wheel_test.py PYTHON        of an environment that has the wheels mpich, mpi4py and numpy
"""
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
import launches
import test_folder
import tiny_model

SCRIPT = """
import logging, os, sys
out = open(os.path.join(sys.argv[3], os.environ["PMI_RANK"]), "w")
logging.basicConfig(level=logging.INFO)
if sys.argv[2] == "mpi4py":
    from mpi4py import MPI
import lockstep
half = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank // 2) if sys.argv[2] == "mpi4py" else None
with lockstep.Model(sys.argv[1], launch="inside", script="all", communicator=half) as model:
    print("tokens", model.generate([[1, 17, 23, 99]], max_new_tokens=6)[0], model.facts["ranks"], file=out)
if half is not None:
    print("sum", MPI.COMM_WORLD.allreduce(1), file=out)
"""


class MpiOfAWheel(test_folder.FolderTests):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = tiny_model.write(cls.folder / "model")

    def run_ranks(self, ranks, kind):
        """What each rank has written, and the log."""
        out = self.folder / kind
        out.mkdir()
        path = f"{PYTHON.parent}:/usr/bin:/bin"
        done = subprocess.run([PYTHON.parent / "mpiexec", "-n", str(ranks), PYTHON, "-c", SCRIPT, self.model, kind, out],
                              env={**launches.environment(), "PYTHONPATH": os.environ["PYTHONPATH"], "PATH": path},
                              capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [(out / str(rank)).read_text().splitlines() for rank in range(ranks)], done.stderr

    def test_it_is_the_one_that_is_loaded(self):
        (first, second), said = self.run_ranks(2, "alone")
        self.assertRegex(said, r"2 ranks on 1 host, started by MPICH's mpiexec \(PMI\): mpi \(MPICH 5\.")
        self.assertEqual(second, first)
        self.assertRegex(first[0], r"^tokens \[1, 17, 23, 99(, \d+){6}\] 2$")

    def test_models_share_it_with_mpi4py(self):
        written, _ = self.run_ranks(4, "mpi4py")  # two groups of two
        self.assertRegex(written[0][0], r"^tokens .* 2$")
        for rank in written:
            self.assertEqual(rank, [written[0][0], "sum 4"])


if __name__ == "__main__":
    PYTHON = pathlib.Path(sys.argv[1])
    unittest.main("__main__", argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
