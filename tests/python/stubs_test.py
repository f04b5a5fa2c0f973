"""The types of the extension module, in the package's _lockstep.pyi, are those that the module has.

    python -m nanobind.stubgen -q -m lockstep._lockstep -o engine/python/lockstep/_lockstep.pyi      writes them again
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

STUBS = pathlib.Path(__file__).resolve().parents[2] / "engine" / "python" / "lockstep" / "_lockstep.pyi"


class Stubs(unittest.TestCase):
    def test_they_are_those_of_the_module(self):
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder) / "made.pyi"
            subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "lockstep._lockstep", "-o", made],
                           check=True, timeout=60)
            self.assertEqual(made.read_text(), STUBS.read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
