#!/usr/bin/env python3
"""Usage: tools/gpu_kernels.py [--check]

Writes the tables of docs/gpu.md between its marks: every kernel's registers, spills and occupancy, from ptxas' own
output, and how a decode step of examples/shapes/llama-3.2-1b.json uses them, from `lockstep explain`. Needs the wheels
of tools/requirements-cuda.txt in .venv-cuda and build/release. --check: exit code 1 if the page differs, or a kernel
spills.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
KERNELS = ROOT / "runtime/backends/cuda/kernels"
PAGE = ROOT / "docs/gpu.md"
SHAPE = ROOT / "examples/shapes/llama-3.2-1b.json"
BEGIN, END = "<!-- tools/gpu_kernels.py: begin -->", "<!-- end -->"

# A multiprocessor of compute capability 9.0 (CUDA C++ Programming Guide, Compute Capabilities).
REGISTERS, THREADS, BLOCKS, SHARED = 65536, 2048, 32, 228 * 1024
REGISTER_UNIT, SHARED_OF_BLOCK = 256, 1024  # a warp's registers come in units; each block takes 1 KiB of shared memory
MULTIPROCESSORS = 132  # of H100 SXM and H200
# Published bandwidths in TB/s (NVIDIA's data sheets of A100 80 GB, H100 SXM, H200).
BANDWIDTHS = {"A100": 2.04, "H100": 3.35, "H200": 4.8}


def compiler():
    return next(ROOT.glob(".venv-cuda/lib/python3*/site-packages/nvidia/cu13/bin/nvcc"))


def threads_of_kernels():
    """Threads of a block by kernel, from the sources."""
    constants = {name: int(value) for name, value in re.findall(
        r"constexpr int (k\w+Threads) = (\d+);", (KERNELS / "parameters.h").read_text())}
    found = {}
    for source in sorted(KERNELS.glob("*.cu")):
        for kernel, threads in re.findall(r"LOCKSTEP_KERNEL\((\w+), \w+, (\w+)\)", source.read_text()):
            found[kernel] = constants[threads]
    return found


def compiled():
    """Registers and bytes of spills by kernel."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted(KERNELS.glob("*.cu")):
            done = subprocess.run(
                [compiler(), "-std=c++20", "-gencode", "arch=compute_90a,code=sm_90a", "-fmad=false", "-cubin", "-ccbin",
                 "g++", "-I", ROOT, "-Xptxas", "-v", "-o", f"{folder}/x.cubin", source],
                check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for kernel, stack, stores, loads, registers in re.findall(
                    r"entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
                    r".*?Used (\d+) registers", done.stdout, re.DOTALL):
                found[kernel] = (int(registers), int(stack) + int(stores) + int(loads))
    return found


def explained():
    """Launches by (kernel, blocks, threads of a block, bytes of shared memory) of a decode step."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "config.json").write_text(SHAPE.read_text())
        text = subprocess.run(
            [ROOT / "build/release/bin/lockstep", "explain", "--model", folder, "--backend", "cuda", "--amp", "bf16",
             "--batch-size", "1", "--max-seq-len", "1024", "--phase", "decode"],
            check=True, stdout=subprocess.PIPE, text=True).stdout
    found = {}
    for kernel, blocks, of_block, shared in re.findall(
            r"^ *(\w+) +(\d+) blocks of +(\d+) threads(?:, (\d+) B shared)?", text, re.MULTILINE):
        key = (kernel, int(blocks), int(of_block), int(shared or 0))
        found[key] = found.get(key, 0) + 1
    return found


def resident(registers, threads, shared):
    """Blocks of a kernel that a multiprocessor holds."""
    of_warp = -(-registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
    return min(THREADS // threads, REGISTERS // (of_warp * (threads // 32)), SHARED // (shared + SHARED_OF_BLOCK), BLOCKS)


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join("---" for _ in header) + " |"]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def tables():
    threads, facts = threads_of_kernels(), compiled()
    spills = [kernel for kernel, (_, spilled) in facts.items() if spilled > 0]
    kernels = table(
        ["kernel", "threads", "registers", "spilled bytes", "blocks a multiprocessor, by registers", "warps of 64"],
        [(f"`{kernel}`", threads[kernel], registers, spilled, held := resident(registers, threads[kernel], 0),
          held * threads[kernel] // 32) for kernel, (registers, spilled) in sorted(facts.items())])
    steps = table(
        ["kernel", "launches", "blocks", "threads", "shared bytes", "blocks a multiprocessor", "waves on 132"],
        [(f"`{kernel}`", launches, blocks, of_block, shared, held := resident(facts[kernel][0], of_block, shared),
          f"{blocks / (held * MULTIPROCESSORS):.2f}")
         for (kernel, blocks, of_block, shared), launches in explained().items()])
    weights = 2.47  # GB of bf16 that a decode step of the shape reads
    floors = ", ".join(f"{name} {weights / speed * 1000:.0f} µs" for name, speed in BANDWIDTHS.items())
    text = ["### Kernels, as compiled for sm_90a", "", *kernels, "",
            "### A decode step of Llama-3.2-1B, bf16, one slot of 1024 positions", "", *steps, "",
            f"It reads {weights} GB of weights: at the published bandwidth at least {floors}."]
    return "\n".join(text), spills


def main():
    text, spills = tables()
    page = PAGE.read_text()
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    written = f"{head}{BEGIN}\n{text}\n{END}{tail}"
    if spills:
        print("spills:", ", ".join(spills), file=sys.stderr)
    if sys.argv[1:] == ["--check"]:
        sys.exit(1 if spills or written != page else 0)
    PAGE.write_text(written)
    sys.exit(1 if spills else 0)


if __name__ == "__main__":
    main()
