"""From a clone to a job: `pip wheel .`, then a new environment with that wheel, numpy and the MPI of PyPI alone.

    source_wheel_test.py [WHEEL]        WHEEL: instead of building one, which takes as long as a whole build
"""
import pathlib
import re
import subprocess
import sys
import unittest
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "launch"))
import launches
import test_folder
import tiny_model

MOST_MIB = 25
JOB = """
import sys
import lockstep
with lockstep.Model(sys.argv[1], launch="inside") as model:
    print(model.generate([[1, 17, 23, 99]], max_new_tokens=6)[0], model.facts["ranks"])
"""


def run(*words, **options):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{words}: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


class SourceWheel(test_folder.FolderTests):
    def build(self):
        clone = self.folder / "clone"
        run("git", "-c", "safe.directory=*", "clone", "--quiet", ROOT, clone)
        run(sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--wheel-dir", self.folder / "wheels", cwd=clone)
        found, = (self.folder / "wheels").iterdir()
        return found

    def test_it_serves_a_job_of_mpiexec(self):
        wheel = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else self.build()
        print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB", file=sys.stderr)
        self.assertLess(wheel.stat().st_size, MOST_MIB << 20)
        shown = run(sys.executable, "-m", "auditwheel", "show", wheel)
        self.assertRegex(shown.replace("\n", " "), r'platform tag: "manylinux_2_\d+_')
        environment = self.folder / "environment"
        venv.create(environment, with_pip=True)
        run(environment / "bin" / "pip", "install", "--quiet", wheel, "mpich")
        listed = run(environment / "bin" / "pip", "list", "--format=freeze")
        self.assertEqual({line.partition("==")[0].lower() for line in listed.split()} - {"pip", "setuptools"},
                         {"lockstep-engine", "mpich", "numpy"})
        job = self.folder / "job.py"
        job.write_text(JOB)
        model = tiny_model.write(self.folder / "model")
        path = f"{environment / 'bin'}:/usr/bin:/bin"
        words = [environment / "bin" / "python", job, model]
        variables = {**launches.environment(), "PATH": path}
        variables.pop("PYTHONPATH", None)
        said = run(environment / "bin" / "mpiexec", "-n", "4", *words, cwd=self.folder, env=variables, timeout=200)
        self.assertTrue(re.fullmatch(r"\[1, 17, 23, 99(, \d+){6}\] 4\s*", said), said)


if __name__ == "__main__":
    unittest.main("__main__", argv=sys.argv[:1], verbosity=2)
