"""The copy of the project that gets the faults, and its build folder."""
import contextlib
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

LINKED = (".venv", ".venv-clients", ".venv-cuda", ".venv-harness", "models")  # ignored, and needed by tests
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


class Expired(Exception):
    """A process was ended at its deadline."""


def run(command, seconds, **options):
    """(status, output) of a command; it and all its descendants are ended at the deadline, which raises Expired."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True, **options)
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output
    except BaseException as error:
        _end_all(process)
        if isinstance(error, subprocess.TimeoutExpired):
            raise Expired(" ".join(map(str, command))) from None
        raise


def _end_all(process):
    """Ends a process with its descendants, which may have sessions of their own."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    doomed, found = [process.pid], 0
    while found < len(doomed):
        doomed += children.get(doomed[found], [])
        found += 1
    for pid in doomed:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()


class Tree:
    def __init__(self, root, folder):
        self.root, self.folder = root, folder
        self.build = folder / "build" / "release"
        self.texts = {}
        self.jobs = os.environ.get("LOCKSTEP_JOBS") or str(os.cpu_count())
        listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-z", "--cached", "--others",
                                 "--exclude-standard"], capture_output=True, text=True, check=True).stdout
        self.files = sorted(name for name in set(listed.split("\0")) if name and (root / name).is_file())

    def source(self, file):
        """A file's text when it was first asked for; it may be edited during a run."""
        if file not in self.texts:
            self.texts[file] = (self.root / file).read_text(encoding="utf-8")
        return self.texts[file]

    def state(self):
        """A hash of all sources and tests."""
        whole = hashlib.sha256()
        for file in self.files:
            if not file.startswith(("tools/", "docs/")):
                whole.update(file.encode() + b"\0" + (self.root / file).read_bytes())
        return whole.hexdigest()

    def copy(self):
        """Makes the copy equal to the project; equal files keep their times, so they are not compiled again."""
        for file in self.files:
            src, dst = self.root / file, self.folder / file
            content = src.read_bytes()
            if not dst.is_file() or dst.read_bytes() != content:
                dst.parent.mkdir(parents=True, exist_ok=True)
                dst.write_bytes(content)
                dst.chmod(src.stat().st_mode)
        kept = set(self.files)
        for folder, folders, names in os.walk(self.folder):
            where = pathlib.Path(folder).relative_to(self.folder)
            folders[:] = [name for name in folders if (where / name).as_posix() not in (*LINKED, "build")
                          and name != "__pycache__"]
            for name in names:
                if (where / name).as_posix() not in (*kept, *LINKED):
                    (self.folder / where / name).unlink()
        for name in LINKED:
            if (self.root / name).exists() and not (self.folder / name).exists():
                (self.folder / name).symlink_to(self.root / name)

    def configure(self):
        if (self.build / "build.ninja").exists():
            return
        ccache = f"env;CCACHE_SLOPPINESS=pch_defines,time_macros;CCACHE_BASEDIR={self.folder};CCACHE_NOHASHDIR=1;ccache"
        environment = dict(os.environ)
        if subprocess.run(["sh", "-c", "command -v ccache"], capture_output=True, check=False).returncode == 0:
            environment["CMAKE_CXX_COMPILER_LAUNCHER"] = ccache
        # Portable kernels and the best of this machine: each fault of a kernel compiles all.
        status, output = run(["cmake", "--preset", "release", "-DLOCKSTEP_CPU_ISAS=native"], 600, cwd=self.folder,
                             env=environment)
        if status != 0:
            raise RuntimeError(f"[mutations] cannot configure {self.folder}; run scripts/setup\n{output}")

    def make(self, targets, seconds):
        """(whether it worked, output) of ninja."""
        status, output = run(["ninja", "-C", str(self.build), "-j", self.jobs, *targets], seconds)
        return status == 0, output

    def write(self, file, text):
        """Replaces a file of the copy; its time is later than that of every object made from the last version."""
        path = self.folder / file
        path.write_text(text, encoding="utf-8")
        now = time.time()
        os.utime(path, (now, now))

    def objects_of(self, file):
        """The objects that a source is part of, by the includes of the project's files."""
        includers = {}
        for name in self.files:
            if name.endswith((".h", ".cpp", ".cu")):
                for included in _INCLUDE.findall(self.source(name)):
                    includers.setdefault(included, set()).add(name)
        reached, open_files = {file}, [file]
        while open_files:
            for name in includers.get(open_files.pop(), ()):
                if name not in reached:
                    reached.add(name)
                    open_files.append(name)
        objects = set()
        for unit in json.loads((self.build / "compile_commands.json").read_text()):
            path = pathlib.Path(unit["file"])
            sources = [path]
            if "Unity" in path.parts:
                sources = [pathlib.Path(name) for name in _INCLUDE.findall(path.read_text())]
            if any(source.is_relative_to(self.folder) and source.relative_to(self.folder).as_posix() in reached
                   for source in sources):
                objects.add(re.search(r" -o (\S+)", unit["command"])[1])
        return objects
