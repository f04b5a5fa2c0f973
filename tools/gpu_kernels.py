#!/usr/bin/env python3
"""Usage: tools/gpu_kernels.py [--check]

Writes the tables of docs/gpu.md between its marks: what each kernel takes of a multiprocessor and how many bytes it has
under way, from the compiler's own output, and how steps of examples/shapes use them, from `lockstep explain`. Needs the
wheels of tools/requirements-cuda.txt in .venv-cuda and build/release. --check: exit code 1 if the page differs, or a
kernel spills.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BACKEND = ROOT / "runtime/backends/cuda"
KERNELS = BACKEND / "kernels"
PAGE = ROOT / "docs/gpu.md"
BEGIN, END = "<!-- tools/gpu_kernels.py: begin -->", "<!-- end -->"

# A multiprocessor of compute capability 9.0 (CUDA C++ Programming Guide, Compute Capabilities).
REGISTERS, THREADS, BLOCKS, SHARED = 65536, 2048, 32, 228 * 1024
REGISTER_UNIT, SHARED_OF_BLOCK = 256, 1024  # a warp's registers come in units; each block takes 1 KiB of shared memory
# NVIDIA's data sheets of A100 80 GB, H100 SXM and H200; bytes/s, dense bf16 FLOP/s.
Gpu = collections.namedtuple("Gpu", "name multiprocessors bandwidth flops")
GPUS = [Gpu("A100", 108, 2.039e12, 312e12), Gpu("H100", 132, 3.35e12, 989.5e12), Gpu("H200", 132, 4.8e12, 989.5e12)]
H100 = GPUS[1]
LATENCY = 0.8e-6  # of a load from memory under load, assumed
MUCH = 1 << 20  # bytes of a launch whose time is that of its reads
TYPES = ("bf16", "f16", "f32", "2", "4", "int8")

Step = collections.namedtuple("Step", "title shape phase capacity chunk")
STEPS = [
    Step("A decode step of Llama-3.2-1B, one slot of 1024 positions", "llama-3.2-1b", "decode", 1024, 256),
    Step("A decode step of Llama-3.1-8B, one slot of 1024 positions", "llama-3.1-8b", "decode", 1024, 256),
    Step("A decode step of Llama-3.1-8B, one slot of 32768 positions", "llama-3.1-8b", "decode", 32768, 256),
    Step("A prefill step of Llama-3.1-8B, the last 2048 rows of 8192 positions", "llama-3.1-8b", "prefill", 8192, 2048),
]

Kernel = collections.namedtuple("Kernel", "threads registers spilled shared under_way")
Launch = collections.namedtuple("Launch", "kernel blocks threads shared read weights cache")


def compiler():
    return next(ROOT.glob(".venv-cuda/lib/python3*/site-packages/nvidia/cu13/bin/nvcc"))


def run(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


# What the sources say

def launch_rows(folder):
    """(threads, dynamic shared bytes) by kernel, from kernel_set.cpp; a compiler evaluates the constants."""
    source = (BACKEND / "kernel_set.cpp").read_text()
    constants = re.findall(r"constexpr int64_t k\w+ = [^;]+;", source)
    suffixes = dict(re.findall(r"(\w+) = (\{\"[^}]*\})", source))
    lines = []
    for name, kinds, arguments in re.findall(
            r"rows\.add<\w+>\(\"\w+\",\s*\"(\w+)\",\s*(\w+|\{[^}]*\}),\s*([^;]+)\);", source):
        for suffix in re.findall(r"\"(\w*)\"", suffixes.get(kinds, kinds)):
            threads, *shared = re.split(r",\s*", arguments, maxsplit=1)
            lines.append(f'show("{name}{suffix}", {threads}, {shared[0] if shared else 0});')
    program = "\n".join(
        ["#include <cstdio>", *(f'#include "runtime/backends/cuda/kernels/{header}"' for header in
                                ("parameters.h", "probe_parameters.h") if (KERNELS / header).exists()),
         "using namespace lockstep::cuda;",
         'static void show(const char* name, long threads, long shared) { std::printf("%s %ld %ld\\n", name, threads, shared); }',
         "int main() {", *constants, *lines, "}"])
    pathlib.Path(folder, "rows.cpp").write_text(program)
    run(["g++", "-std=c++20", "-I", ROOT, "-o", f"{folder}/rows", f"{folder}/rows.cpp"])
    rows = (line.split() for line in run([f"{folder}/rows"]).splitlines())
    return {name: (int(threads), int(shared)) for name, threads, shared in rows}


# What the compiler says

LOAD = re.compile(r"(?:@!?%p\d+ )?ld\.global[\w.:]*?(?:\.v(\d))?\.[usbf](\d+)\s+(\{[^}]*\}|%\w+),")
COPY = re.compile(r"cp\.async\.\w+\.shared\.global[\w.:]* \[[^\]]*\], \[[^\]]*\], (\d+)")


def bytes_under_way(body):
    """Bytes that a thread of a kernel in PTX has loaded and not used yet, at most; of copies to shared memory, those of
    the groups that it lets wait. Follows the text, not the branches: loops are taken once."""
    loads, sizes, most = {}, {}, 0  # register: load
    group, groups, most_copies = 0, [], 0
    for line in map(str.strip, body.splitlines()):
        if found := LOAD.match(line):
            count, bits, registers = found.groups()
            number = len(sizes)
            sizes[number] = int(count or 1) * int(bits) // 8
            loads.update((register, number) for register in re.findall(r"%\w+", registers))
            most = max(most, sum(sizes[load] for load in set(loads.values())))
        elif found := COPY.search(line):
            group += int(found.group(1))
        elif "cp.async.commit_group" in line:
            groups.append(group)
            group = 0
        elif found := re.search(r"cp\.async\.wait_group\s+(\d+)", line):
            most_copies = max(most_copies, (int(found.group(1)) + 1) * max(groups, default=0))
        elif found := re.match(r"mov\.\w+\s+(%\w+), (%\w+);", line):
            if found.group(2) in loads:
                loads[found.group(1)] = loads[found.group(2)]
        elif found := re.match(r"(?:@!?%p\d+ )?[\w.]+\s+(.*);", line):
            used = {loads[register] for register in re.findall(r"%\w+", found.group(1)) if register in loads}
            loads = {register: load for register, load in loads.items() if load not in used}
    return max(most, most_copies)


def compiled():
    """`Kernel` by name."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        rows = launch_rows(folder)
        for source in sorted(KERNELS.glob("*.cu")):
            told = run([compiler(), "-std=c++20", "-gencode", "arch=compute_90a,code=sm_90a", "-fmad=false", "-cubin",
                        "-ccbin", "g++", "-I", ROOT, "-Xptxas", "-v", "--keep", "--keep-dir", folder, "-o",
                        f"{folder}/{source.stem}.cubin", source])
            ptx = pathlib.Path(folder, f"{source.stem}.ptx").read_text()
            bodies = dict(re.findall(r"\.entry (\w+)\((.*?)^\}", ptx, re.DOTALL | re.MULTILINE))
            for kernel, stack, stores, loads, used in re.findall(
                    r"entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
                    r".*?(Used [^\n]*)", told, re.DOTALL):
                threads, dynamic = rows[kernel]
                static = re.search(r"(\d+) bytes smem", used)
                found[kernel] = Kernel(threads, int(re.search(r"(\d+) registers", used).group(1)),
                                       int(stack) + int(stores) + int(loads),
                                       dynamic + int(static.group(1) if static else 0), bytes_under_way(bodies[kernel]))
    return found


def resident(kernel, shared=None, threads=None):
    """Blocks that a multiprocessor holds, of as many threads as a launch has or the kernel may have."""
    threads = threads or kernel.threads
    of_warp = -(-kernel.registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
    shared = kernel.shared if shared is None else shared
    return min(THREADS // threads, REGISTERS // (of_warp * (threads // 32)),
               SHARED // (shared + SHARED_OF_BLOCK), BLOCKS)


# What the program says

def explained(step):
    """The launches of a step, and its bytes: weights, keys and values, activations read, activations written."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "config.json").write_text((ROOT / f"examples/shapes/{step.shape}.json").read_text())
        text = run([ROOT / "build/release/bin/lockstep", "explain", "--model", folder, "--backend", "cuda", "--amp", "bf16",
                    "--batch-size", "1", "--max-seq-len", str(step.capacity), "--prefill-chunk", str(step.chunk), "--phase",
                    step.phase])
    sums = re.search(r"bytes: (\d+) of weights, (\d+) of keys and values, (\d+) of activations read and (\d+) written", text)
    launches = re.findall(r"^(\w+) +(\d+) blocks of +(\d+) threads(?:, (\d+) B shared)?(?:, all resident)?(?:, early)?; reads (\d+) B"
                          r"(?:, (\d+) of weights)?(?:, (\d+) of cache)?", text, re.MULTILINE)
    return ([Launch(kernel, *(int(number or 0) for number in numbers)) for kernel, *numbers in launches],
            [int(number) for number in sums.groups()])


# The page

def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join("---" for _ in header) + " |"]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def stem_of(kernel):
    head, _, last = kernel.rpartition("_")
    return (head, last) if last in TYPES and head != "probe_read" else (kernel, "")


def kernel_table(kernels):
    """A row for each kernel, with the figures of its types where they differ."""
    stems = collections.defaultdict(dict)
    for name, kernel in sorted(kernels.items()):
        stem, kind = stem_of(name)
        stems[stem][kind] = kernel
    rows = []
    for stem, kinds in stems.items():
        def figures(of):
            values = [of(kernel) for kernel in kinds.values()]
            return values[0] if len(set(values)) == 1 else ", ".join(map(str, values))
        rows.append((f"`{stem}`", ", ".join(filter(None, kinds)) or "–", figures(lambda k: k.threads),
                     figures(lambda k: k.registers), figures(lambda k: k.spilled), figures(lambda k: k.shared),
                     figures(resident), figures(lambda k: resident(k) * k.threads // 32), figures(lambda k: k.under_way)))
    return table(["kernel", "types", "threads", "registers", "spilled", "shared bytes", "blocks a multiprocessor",
                  "warps of 64", "bytes a thread has under way"], rows)


def floor(launch, step, gpu):
    """Seconds at the published limits: of reading, and of products of all rows with weights in bf16."""
    multiplies = launch.kernel.startswith(("product", "experts")) and "few" not in launch.kernel
    rows = step.chunk if step.phase == "prefill" and multiplies else 0
    return max(launch.read / gpu.bandwidth, rows * launch.weights / gpu.flops)


def under_way(launch, kernel, gpu):
    """The bytes that all multiprocessors have under way, of those that the bandwidth needs."""
    blocks = min(launch.blocks, resident(kernel, launch.shared, launch.threads) * gpu.multiprocessors)
    return blocks * launch.threads * kernel.under_way / (gpu.bandwidth * LATENCY)


def alike(launches):
    """Launches in groups: those that read much by what they read, all by their grids."""
    groups = collections.defaultdict(list)
    for launch in launches:
        groups[launch.kernel, launch.blocks, launch.shared, launch.read if launch.read >= MUCH else 0].append(launch)
    return groups.values()


def step_table(step, kernels):
    launches, (weights, cache, read, written) = explained(step)
    rows, short = [], {}
    for group in alike(launches):
        launch, kernel = group[0], kernels[group[0].kernel]
        held = resident(kernel, launch.shared, launch.threads)
        row = [f"`{launch.kernel}`", len(group), launch.blocks, launch.shared, held,
               f"{launch.blocks / (held * H100.multiprocessors):.2f}"]
        if launch.read < MUCH:
            rows.append((*row, "–", "–", "–"))
            continue
        shares = [under_way(launch, kernel, gpu) for gpu in GPUS]
        if step.phase == "decode" and shares[GPUS.index(H100)] < 1:
            short[launch.kernel] = f"`{launch.kernel}` ({shares[GPUS.index(H100)]:.2g})"
        rows.append((*row, f"{launch.read / 1e6:.2f}", " / ".join(f"{share:.2g}" for share in shares),
                     f"{floor(launch, step, H100) * 1e6:.1f}"))
    lines = table(["kernel", "launches", "blocks", "shared bytes", "blocks a multiprocessor", "waves on 132", "MB read each",
                   "bytes under way, of those needed: A100 / H100 / H200", "µs each at least, H100"], rows)
    floors = ", ".join(f"{gpu.name} {sum(floor(launch, step, gpu) for launch in launches) * 1e6:.0f} µs" for gpu in GPUS)
    warning = f" Too few bytes under way for an H100: {', '.join(short.values())}." if short else ""
    return [f"### {step.title}", "", *lines, "",
            f"{len(launches)} launches. It reads {weights / 1e9:.3f} GB of weights, {cache / 1e6:.1f} MB of keys and values "
            f"and {read / 1e6:.2f} MB of activations, and writes {written / 1e6:.2f} MB. At the published limits at least "
            f"{floors}.{warning}", ""]


def tables():
    kernels = compiled()
    lines = ["### Kernels, as compiled for sm_90a", "", *kernel_table(kernels), ""]
    for step in STEPS:
        lines += step_table(step, kernels)
    return "\n".join(lines).rstrip(), [name for name, kernel in kernels.items() if kernel.spilled > 0]


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
