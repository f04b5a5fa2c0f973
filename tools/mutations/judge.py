"""Plants one fault in the copy and runs tests until one fails."""
import contextlib
import json
import os
import re
import time

import suites
import tree as trees

BUILD_SECONDS = 1800.0  # of sources without a fault, which are compiled once
LEAST_DEADLINE = 90.0   # of one test; a test with a fault that takes longer and four times its usual time hangs
_FAILED = re.compile(r"^\[  FAILED  \] ([\w./]+)|^(?:FAIL|ERROR): (\S+)", re.M)


class Judge:
    def __init__(self, tree, notes, limit):
        """`notes`: a file that keeps which tests pass without a fault; `limit`: seconds of a fault's builds and tests."""
        self.tree, self.limit, self.notes = tree, limit, notes
        self.tests = suites.read_tests(tree)
        known = json.loads(notes.read_text()) if notes.exists() else {}
        state = tree.state()
        self.usable = known["usable"] if known.get("state") == state else {}  # test → whether it passes without a fault
        self.state = state

    def judge(self, fault, first=()):
        """The result of a fault: a dict with its status and the reason. Tests named in `first` run before the others."""
        source = self.tree.source(fault.file)
        objects = self.tree.objects_of(fault.file)
        tests = suites.in_order(self.tests, fault.file, objects)
        tests.sort(key=lambda test: test.name not in first)
        result = {"file": fault.file, "line": fault.line, "text": fault.text, "kind": fault.kind, "change": fault.change}
        if not tests:
            return result | {"status": "no test", "passed": []}
        self._build(tests[:3])
        self.tree.write(fault.file, fault.apply(source))
        try:
            return result | self._run(fault, source, tests, objects)
        finally:
            self.tree.write(fault.file, source)

    def _run(self, fault, source, tests, objects):
        began = time.monotonic()
        left = self.limit
        try:
            compiles, output = self.tree.make(sorted(tests[0].inputs & objects), BUILD_SECONDS)
        except trees.Expired:
            compiles, output = False, "the compiler takes too long"
        if not compiles:
            return {"status": "does not compile", "output": output[-2000:]}
        left -= time.monotonic() - began
        passed = []
        for test in tests:
            if left <= 0:
                return {"status": "survived", "passed": passed, "left": len(tests) - len(passed)}
            if self.usable.get(test.name) is False:
                continue
            is_new = not all((self.tree.build / program).exists() for program in test.programs)
            began = time.monotonic()
            links, output = self.tree.make(test.programs, BUILD_SECONDS)
            if not links:
                return {"status": "does not compile", "output": output[-2000:]}
            if not is_new:
                left -= time.monotonic() - began
            began = time.monotonic()
            how = self._failure(test, left)
            left -= time.monotonic() - began
            if how == "expired" or how is None:
                passed += [test.name] if how is None else []
                continue
            if how != "hangs" and self._failure(test, BUILD_SECONDS) is None:
                continue  # by chance
            is_due = how == "hangs" or test.name not in self.usable
            if not is_due or self._passes_without(fault, source, test, how):
                return {"status": "caught", "test": test.name, "how": how, "seconds": round(self.limit - left, 1),
                        "passed": passed}
        return {"status": "survived", "passed": passed, "left": 0}

    @staticmethod
    def _deadline(test):
        return max(LEAST_DEADLINE, 4 * test.seconds)

    def _failure(self, test, left):
        """None if the test passes; how it fails; "expired" if there is no time left for it."""
        deadline = self._deadline(test)
        environment = {**os.environ, "GTEST_FAIL_FAST": "1", "GTEST_BRIEF": "1"}
        try:
            status, output = trees.run(["ctest", "--test-dir", str(self.tree.build), "-R", f"^{re.escape(test.name)}$",
                                        "--output-on-failure", "--no-tests=error"], min(deadline, left), env=environment)
        except trees.Expired:
            return "hangs" if deadline <= left else "expired"
        if status == 0:
            return None
        names = dict.fromkeys(name for match in _FAILED.findall(output) for name in match if name)
        ends = re.search(r"\*\*\*(Exception: \w+|Timeout)|SEGFAULT|Subprocess aborted", output)
        return ", ".join(list(names)[:3]) or (ends.group().strip("*") if ends else "fails")

    def _build(self, tests):
        """Links the programs of the first tests without a fault, unless they are there."""
        missing = [program for test in tests for program in test.programs if not (self.tree.build / program).exists()]
        if missing:
            works, output = self.tree.make(missing, BUILD_SECONDS)
            if not works:
                raise RuntimeError(f"[mutations] the project does not build without a fault\n{output[-4000:]}")

    def _passes_without(self, fault, source, test, how):
        """Whether a test passes without the fault, which is planted again if not. On a busy machine a test may take long
        without a fault, too: after a hang it must take less than half its deadline."""
        self.tree.write(fault.file, source)
        works, _ = self.tree.make(test.programs, BUILD_SECONDS)
        began = time.monotonic()
        found = self._failure(test, BUILD_SECONDS) if works else "does not link"
        is_fast = time.monotonic() - began < self._deadline(test) / 2
        if found != "hangs":
            self.usable[test.name] = found is None
            self.notes.write_text(json.dumps({"state": self.state, "usable": self.usable}, indent=1))
        if found is None and (is_fast or how != "hangs"):
            return True
        self.tree.write(fault.file, fault.apply(source))
        with contextlib.suppress(trees.Expired):
            self.tree.make(test.programs, BUILD_SECONDS)
        return False
