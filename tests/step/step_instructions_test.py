"""Checks a bound on the instructions of a decode step outside the arithmetic kernels, by valgrind's callgrind.

    step_instructions_test.py PROGRAM BOUND

PROGRAM decodes a given number of steps; the counts of two runs are subtracted and divided by the difference, so
start-up does not count. valgrind has no AVX-512, so the program uses the AVX2 kernels (or the plain ones), whose
functions are excluded by their namespace. What remains is the same in every run: dispatch of the step's phases, the
loops over panels and tiles, the executor, clocks, the draw. Exits with 77 (skipped) where valgrind is missing."""

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

FEW, MANY = 8, 40  # steps; all positions in one tile of attention
KERNELS = re.compile(r"lockstep::cpu::isa_\w+::|__memcpy|__memmove|__memset|__mem(cpy|move|set)_")
LINKER = re.compile(r"^(check_match|do_lookup_x|_dl_\w+)")  # binds symbols; its work differs from run to run
DEADLINE_S = 110


def self_costs(path):
    """Instructions by function, without its callees."""
    names, costs = {}, collections.Counter()
    function, skip = None, False
    define = re.compile(r"c?fn=\((\d+)\)(?: (.*))?$")
    for line in open(path, errors="replace"):
        line = line.rstrip("\n")
        if match := define.match(line):
            if match[2]:
                names[match[1]] = match[2]
            if not line.startswith("c"):
                function = match[1]
        elif line.startswith("calls="):
            skip = True  # the next line is the callee's
        elif line[:1] in "0123456789+-*" and line:
            if not skip and function is not None:
                costs[function] += int(line.split()[1])
            skip = False
    return collections.Counter({names[key]: cost for key, cost in costs.items()})


def counted(program, steps, folder):
    out = os.path.join(folder, f"callgrind.{steps}")
    run = subprocess.run(["valgrind", "--tool=callgrind", "--compress-pos=yes", f"--callgrind-out-file={out}",
                          program, str(steps)], capture_output=True, text=True, timeout=DEADLINE_S)
    if run.returncode != 0:
        sys.exit(f"{program} {steps} under valgrind: found exit code {run.returncode}, expected 0\n{run.stderr[-3000:]}")
    return self_costs(out)


def main():
    program, bound = sys.argv[1], int(sys.argv[2])
    if shutil.which("valgrind") is None:
        print("SKIPPED: valgrind is not installed (Debian package valgrind)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        few, many = counted(program, FEW, folder), counted(program, MANY, folder)
    by_function = {name: (many[name] - few[name]) / (MANY - FEW) for name in many}
    kernels = sum(cost for name, cost in by_function.items() if KERNELS.search(name))
    rest = {name: cost for name, cost in by_function.items() if not KERNELS.search(name) and not LINKER.match(name)}
    total = sum(rest.values())
    print(f"a decode step: {total:.0f} instructions outside the kernels (bound {bound}), {kernels:.0f} in them")
    for name, cost in sorted(rest.items(), key=lambda item: -item[1])[:25]:
        print(f"{cost:10.0f}  {name[:150]}")
    if kernels <= 0:
        sys.exit("found no instructions in the kernels, expected some: do their names still match?")
    if total > bound:
        sys.exit(f"found {total:.0f} instructions a step outside the kernels, expected at most {bound}; make the step "
                 "cheaper, or raise the bound in tests/step/CMakeLists.txt with a reason")
    return 0


if __name__ == "__main__":
    sys.exit(main())
