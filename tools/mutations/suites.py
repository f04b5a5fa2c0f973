"""Which tests can detect a fault of a source, the likeliest first."""
import dataclasses
import json
import pathlib
import re
import subprocess

UNKNOWN_SECONDS = 10.0
_OTHER_BACKENDS = ("cuda", "neuron", "nccl")  # their tests are long, and use other code little
_LEFT_OUT = {"slow", "python"}  # too long; the package is not a program that ninja links


@dataclasses.dataclass(frozen=True)
class Test:
    name: str
    labels: tuple
    programs: tuple   # of the build folder that it runs: bin/…
    inputs: frozenset  # objects and test sources of these programs
    seconds: float = UNKNOWN_SECONDS  # of its last run


def read_tests(tree):
    """The tests of a configured build folder."""
    listed = subprocess.run(["ctest", "--test-dir", str(tree.build), "--show-only=json-v1"], capture_output=True, text=True,
                            check=True).stdout
    seconds = _seconds(tree)
    inputs = {}
    tests = []
    for entry in json.loads(listed)["tests"]:
        labels = next((tuple(item["value"]) for item in entry["properties"] if item["name"] == "LABELS"), ())
        programs = tuple(sorted({_program(word, tree.build) for word in entry.get("command", ())} - {None}))
        if not programs or _LEFT_OUT & set(labels):
            continue
        for program in programs:
            if program not in inputs:
                inputs[program] = _inputs(tree, program)
        tests.append(Test(entry["name"], labels, programs, frozenset().union(*(inputs[name] for name in programs)),
                          seconds.get(entry["name"], UNKNOWN_SECONDS)))
    return tests


def _program(word, build):
    path = pathlib.Path(word)
    return path.relative_to(build).as_posix() if path.is_relative_to(build / "bin") else None


def _inputs(tree, program):
    listed = subprocess.run(["ninja", "-C", str(tree.build), "-t", "inputs", program], capture_output=True, text=True,
                            check=False).stdout.splitlines()
    tests = f"{tree.folder}/tests/"
    return frozenset(line.removeprefix(f"{tree.folder}/") for line in listed
                     if line.endswith(".o") or line.startswith(tests))


def _seconds(tree):
    """ctest's own record: lines of a test's name, runs and mean seconds, up to a line of dashes."""
    path = tree.build / "Testing" / "Temporary" / "CTestCostData.txt"
    text = path.read_text() if path.exists() else ""
    return {name: float(mean) for name, runs, mean in re.findall(r"^(\S+) (\d+) (\S+)$", text.split("---")[0], re.M)
            if int(runs) > 0}


def in_order(tests, file, objects):
    """The tests whose programs contain one of the objects: those of the file's folder, then of its interfaces, then whole
    models, several processes, the others; those of other backends last; of one kind the short ones first."""
    def key(test):
        near = nearness(test, file)
        folder = file.count("/")
        kinds = (near >= folder, bool({"conformance"} & set(test.labels)) or near >= 1, "model" in test.labels,
                 bool({"multiprocess"} & set(test.labels)))
        tier = kinds.index(True) if True in kinds else len(kinds)
        if any(backend in test.name and backend not in file for backend in _OTHER_BACKENDS):
            tier = len(kinds) + 1
        return (tier, -near if tier == 0 else 0, test.seconds, test.name)

    return sorted((test for test in tests if test.inputs & objects), key=key)


def nearness(test, file):
    """How many folders a test's sources share with a file, and one more for a test of the same name."""
    folder, name = file.rpartition("/")[0].split("/"), pathlib.PurePosixPath(file).stem
    best = 0
    for source in test.inputs:
        if not source.startswith("tests/"):
            continue
        own = source.split("/")[1:]
        shared = 0
        while shared < min(len(folder), len(own) - 1) and folder[shared] == own[shared]:
            shared += 1
        best = max(best, shared + (shared == len(folder) and own[-1].startswith(name)))
    return best
