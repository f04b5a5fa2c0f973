"""Makes the torch wheel of .venv importable without the libraries of CUDA that it is linked to.

Tensors on the CPU call none of them, but the dynamic linker wants the files: this module compiles empty ones, with the
symbols that torch names, and loads them. `import torch_without_cuda`, then torch.
"""
import collections
import ctypes
import importlib.util
import pathlib
import subprocess
import tempfile

PREFIXES = {"cusparseLt": "libcusparseLt.so.0", "cusparse": "libcusparse.so.12", "cufft": "libcufft.so.12",
            "cuFile": "libcufile.so.0", "nccl": "libnccl.so.2", "pnccl": "libnccl.so.2", "curand": "libcurand.so.10",
            "cublasLt": "libcublasLt.so.13", "cublas": "libcublas.so.13", "cudnn": "libcudnn.so.9",
            "nvshmem": "libnvshmem_host.so.3"}


def output(*words):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True).stdout


def wanted_symbols(libraries):
    """By library, the symbols that torch takes from it, each with its version or ""."""
    wanted = {library: {} for library in PREFIXES.values()}
    for library in libraries:
        for line in output("nm", "-D", "--undefined-only", library).splitlines():
            name, _, version = line.split()[-1].partition("@")
            prefix = max((one for one in PREFIXES if name.startswith(one)), key=len, default=None)
            if prefix is not None:
                wanted[PREFIXES[prefix]][name] = version.lstrip("@")
    return wanted


def compile_library(path, symbols):
    versions = collections.defaultdict(list)
    for name, version in symbols.items():
        versions[version].append(name)
    script = path.with_suffix(".map")
    script.write_text("".join(f"{version} {{ global: {'; '.join(names)}; }};\n"
                              for version, names in versions.items() if version))
    source = "".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in symbols)
    subprocess.run(["g++", "-shared", "-fPIC", "-w", "-o", path, f"-Wl,-soname,{path.name}",
                    *([f"-Wl,--version-script,{script}"] if any(versions) else []), "-xc", "-"],
                   input=source, text=True, check=True)


def load():
    torch = pathlib.Path(importlib.util.find_spec("torch").submodule_search_locations[0]) / "lib"
    for name in ("libcudart.so.13", "libcupti.so.13"):
        ctypes.CDLL(str(next((torch.parents[1] / "nvidia").glob(f"*/lib/{name}"))), ctypes.RTLD_GLOBAL)
    with tempfile.TemporaryDirectory() as folder:
        for library, symbols in wanted_symbols(torch / f"libtorch_{part}.so" for part in ("cuda", "python", "nvshmem")).items():
            path = pathlib.Path(folder) / library
            compile_library(path, symbols)
            ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)


load()
