"""A wheel that is packed from the build: its size, its contents, and its work where the build's libraries are missing.

    wheel_test.py BUILD
"""
import os
import pathlib
import re
import subprocess
import sys
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "launch"))
import empty_root
import test_folder
import tiny_model

MOST_MIB = 25
HIDE = """
import ctypes, os, sys
import numpy
libc = ctypes.CDLL(None, use_errno=True)
def mount(source, target, kind, flags):
    if libc.mount(source, os.fsencode(target), kind, flags, None) != 0:
        raise OSError(ctypes.get_errno(), target)
MS_BIND = 4096
for library in sys.argv[3:]:
    mount(b"/dev/null", library, None, MS_BIND)
mount(b"none", sys.argv[2], b"tmpfs", 0)
"""
PROGRAM = """
import lockstep, sys
with lockstep.Model(sys.argv[1], tp=2) as model:
    print(model.generate([[1, 17, 23, 99]], max_new_tokens=6), model.complete("one", max_new_tokens=3)[0].text)
"""


class Wheel(test_folder.FolderTests):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        packed = subprocess.run([sys.executable, ROOT / "tools" / "pack_wheel.py", BUILD, cls.folder], capture_output=True,
                                text=True, timeout=60, check=False)
        if packed.returncode != 0:
            raise AssertionError(packed.stderr)
        cls.wheel = pathlib.Path(packed.stdout.splitlines()[-1])

    def test_it_is_small_and_complete(self):
        self.assertLess(self.wheel.stat().st_size, MOST_MIB << 20)
        self.assertRegex(self.wheel.name, r"^lockstep_engine-\d+\.\d+\.\d+-cp3\d+-(cp3\d+|abi3)-linux_\w+\.whl$")
        names = zipfile.ZipFile(self.wheel).namelist()
        for name in ("lockstep/__init__.py", "lockstep/py.typed", "lockstep/_lockstep.pyi"):
            self.assertIn(name, names)
        for name in names:
            self.assertNotRegex(name, r"mpi|torch|reference|\.so\.\d+\.\d+\.\d+$" if "caf" not in name else "mpi")

    def test_auditwheel_finds_no_library_outside(self):
        shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", self.wheel], capture_output=True, text=True,
                               timeout=60, check=False)
        self.assertRegex(shown.stdout.replace("\n", " "), r'platform tag: "manylinux_2_\d+_', shown.stderr)

    def test_it_works_where_none_of_the_builds_libraries_are(self):
        if reason := empty_root.why_not():
            self.skipTest(reason)
        site = self.folder / "site"
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, self.wheel],
                       check=True, timeout=60)
        bundled = {path.name for path in (site / "lockstep" / "lib").iterdir()}
        self.assertGreater(len(bundled), 5)
        # In its own namespace the system's libraries of these names are empty files, and the build is an empty folder.
        hidden = [path for path in libraries_of(pathlib.Path(BUILD) / "lib" / "liblockstep.so") if path.name in bundled]
        self.assertGreaterEqual(len(hidden), len(bundled) - 1)
        tiny_model.write_tokenizer(tiny_model.write(self.folder / "model"))
        done = subprocess.run([*empty_root.IN_NAMESPACES, sys.executable, "-c", HIDE + PROGRAM, self.folder / "model", BUILD,
                               *map(os.path.realpath, hidden)], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "PYTHONPATH": str(site)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^\[\[1, 17, 23, 99, \d")


def libraries_of(library):
    listed = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
    return [pathlib.Path(path) for path in re.findall(r"=> (/\S+)", listed)]


if __name__ == "__main__":
    BUILD = os.path.realpath(sys.argv[1])
    unittest.main("__main__", argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
