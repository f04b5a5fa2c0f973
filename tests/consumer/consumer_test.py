"""A project that enables only CXX, finds an installed Lockstep and runs the program of the README.

    consumer_test.py BUILD MODEL        BUILD is installed below a temporary folder
"""
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "launch"))
import test_folder  # noqa: E402

HIDDEN = ("caf/", "mpi.h", "nlohmann/", "CLI/", "capnp/", "spdlog/", "ATen/", "torch/")  # private to the library


def run(*words):
    """The output of a command; fails with its error."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=240, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class Consumer(test_folder.FolderTests):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prefix = cls.folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.expected = run(cls.prefix / "bin" / "lockstep", "generate", "--launch", "threads", "--tp", 1, "--model", MODEL,
                           "--prompt", "Once upon a time", "--max-new-tokens", 24)

    def build(self, name, *options):
        build = self.folder / name
        run("cmake", "-S", HERE, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
            *options)
        run("cmake", "--build", build)
        return build / "consumer"

    def test_shared(self):
        program = self.build("shared")
        self.assertIn("liblockstep.so", run("ldd", program))
        self.assertEqual(run(program, MODEL).strip(), self.expected.strip())

    def test_static(self):
        program = self.build("static", "-DBUILD_SHARED_LIBS=OFF")
        self.assertNotIn("liblockstep.so", run("ldd", program))
        self.assertEqual(run(program, MODEL).strip(), self.expected.strip())

    def test_completion_files_and_the_manual_page_are_where_they_are_looked_for(self):
        share = self.prefix / "share"
        for path, words in (("bash-completion/completions/lockstep", "_lockstep()"),
                            ("zsh/site-functions/_lockstep", "#compdef lockstep"),
                            ("fish/vendor_completions.d/lockstep.fish", "complete -c lockstep"),
                            ("man/man1/lockstep.1", ".TH LOCKSTEP 1")):
            self.assertIn(words, (share / path).read_text(), path)

    def test_no_header_of_another_library_leaks(self):
        headers = run("g++", "-std=c++20", "-M", "-I", self.prefix / "include" / "lockstep-0.1", HERE / "consumer.cpp")
        self.assertIn("lockstep/engine.h", headers)
        for name in HIDDEN:
            self.assertNotIn(f"/{name}", headers)

    def test_the_version_is_known(self):
        version = self.folder / "version"
        version.mkdir()
        (version / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(version LANGUAGES CXX)\nfind_package(lockstep 0.1 REQUIRED)\n"
            "file(WRITE ${CMAKE_BINARY_DIR}/main.cpp \"#include <cstdio>\\nint main() { std::puts(LOCKSTEP_VERSION); }\")\n"
            "add_executable(version ${CMAKE_BINARY_DIR}/main.cpp)\ntarget_link_libraries(version lockstep::engine)\n")
        run("cmake", "-S", version, "-B", version / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", version / "build")
        self.assertRegex(run(version / "build" / "version"), r"^0\.1\.\d+$")


if __name__ == "__main__":
    BUILD, MODEL = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    unittest.main("__main__", argv=sys.argv[:1], verbosity=2)
