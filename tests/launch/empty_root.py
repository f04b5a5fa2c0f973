"""A root folder that holds a shell, a few tools and the C library, and nothing else: another machine, as far as files go.

Programs run in it by unshare and chroot, with /proc, /dev and /tmp.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

TOOLS = ("bash", "sh", "env", "ldd", "cat", "tar", "xz", "grep", "sed", "awk", "sort", "head", "tail", "tr", "tee",
         "date", "timeout", "mktemp", "mkdir", "rm", "cp", "mv", "ls", "dirname", "basename", "readlink", "stat", "wc",
         "uname", "nproc", "lscpu", "free", "sleep", "kill", "true")
C_LIBRARY = ("libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libresolv.so.2", "libutil.so.1",
             "libnss_files.so.2", "libnss_dns.so.2")
IN_NAMESPACES = ["unshare", *(["--map-root-user"] if os.geteuid() else []), "--mount", "--pid", "--fork", "--kill-child"]


def why_not():
    """Why this machine cannot run programs in another root; empty: it can."""
    try:
        done = subprocess.run([*IN_NAMESPACES, "mount", "--make-rprivate", "/"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, timeout=20)
    except FileNotFoundError:
        return "there is no unshare"
    return done.stdout.strip() if done.returncode else ""


def libraries_of(path):
    """The shared libraries that a program needs, the loader among them."""
    listed = subprocess.run(["ldd", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return re.findall(r"(/\S+) \(0x", listed.stdout)


class EmptyRoot:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        for name in ("usr/bin", "usr/lib", "usr/lib64", "proc", "dev", "tmp", "etc"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "tmp").chmod(0o1777)
        (self.folder / "etc/passwd").write_text("root:x:0:0:root:/tmp:/bin/sh\n")
        for name in ("bin", "lib", "lib64"):
            (self.folder / name).symlink_to(f"usr/{name}")
        for tool in TOOLS:
            found = shutil.which(tool)
            if found:  # a minimal system lacks some that only describe it
                self.add_program(tool, found)
        self._add_c_library()
        self._add_python()

    def add_program(self, name, path):
        shutil.copy(path, self.folder / "usr/bin" / name)
        self._add_libraries(path)

    def _add_libraries(self, path):
        for library in libraries_of(path):
            self._copy(library)

    def _copy(self, path):
        place = self.folder / str(path).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            shutil.copy(path, place)

    def _add_c_library(self):
        folder = pathlib.Path(next(path for path in libraries_of("/bin/sh") if "libc.so" in path)).parent
        for name in C_LIBRARY:
            if (folder / name).exists():
                self._copy(folder / name)

    def _add_python(self):
        self.add_program("python3", os.path.realpath(sys.executable))
        modules = pathlib.Path(os.__file__).parent
        shutil.copytree(modules, self.folder / str(modules).lstrip("/"),
                        ignore=shutil.ignore_patterns("__pycache__", "test", "idlelib", "dist-packages",
                                                      "site-packages", "config-*"))

    def run(self, command, environment, timeout):
        """The finished command, stderr in stdout."""
        mounts = (f"mount --make-rprivate / && mount -t proc proc {self.folder}/proc && "
                  f"mount --rbind /dev {self.folder}/dev")
        return subprocess.run([*IN_NAMESPACES, "bash", "-c", f'{mounts} && exec chroot {self.folder} "$@"', "bash",
                               *map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout, check=False,
                              env={"PATH": "/usr/bin:/usr/sbin:/bin:/sbin", "HOME": "/tmp", "PYTHONHOME": sys.base_prefix,
                                   **environment})
