#!/usr/bin/env python3
"""Runs lowered modules through XLA's CPU client and compares with the reference backend.

A development tool, not a test. It needs jaxlib (tools/requirements-hlo.txt, 590 MB), whose Python module is private
API, hence the pinned version. In a separate virtual environment:

    python3 -m venv V && V/bin/pip install -r tools/requirements-hlo.txt
    build/release/bin/neuron_oracle_cases DIR            # writes the cases; needs no jaxlib
    V/bin/python tools/check_hlo.py DIR [NAME ...]       # checks them, each in a separate process
    V/bin/python tools/check_hlo.py DIR --approve tests/runtime/backends/neuron/approved.txt

and, for the indices of gather and scatter, the same with `neuron_oracle_cases --indices DIR`, without --approve.

Ranks are virtual CPU devices of one process. States are fed back from the module's outputs. Integers must be equal,
floats within the case's tolerance of the largest expected magnitude. A passing module is valid HLO and computes the
right numbers; whether neuronx-cc compiles it is not tested.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import struct
import subprocess
import sys

PINNED = "0.10.2"


class Oracle:
    """XLA's CPU client with one virtual device per rank."""

    def __init__(self, ranks):
        import collections

        from jaxlib import _jax, xla_client

        self.xc, self.jax, self.ranks = xla_client, _jax, ranks
        self.client = xla_client.make_cpu_client(asynchronous=False, num_devices=ranks)
        self.devices = xla_client.DeviceList(tuple(self.client.devices()[:ranks]))
        self.aval = collections.namedtuple("Aval", "shape dtype weak_type")

        class Placed(xla_client.GSPMDSharding):  # batched_device_put calls these two
            memory_kind = None

            def _to_xla_hlo_sharding(self, _):
                return self.hlo_sharding

        self.placed = Placed

    def compile(self, module):
        import numpy as np

        xc = self.xc
        mlir = self.jax.mlir.xla_computation_to_mlir_module(xc.XlaComputation(module))
        options = xc.CompileOptions()
        options.num_replicas, options.num_partitions = self.ranks, 1
        options.device_assignment = xc.DeviceAssignment.create(np.arange(self.ranks, dtype=np.int32).reshape(-1, 1))
        return self.client.compile_and_load(mlir, self.devices, options)

    def put(self, by_rank):
        """One array per rank, as shards of one array divided along its first dimension."""
        import numpy as np

        xc = self.xc
        by_rank = [np.array(array) for array in by_rank]  # XLA refuses the same object twice
        shape = by_rank[0].shape
        if self.ranks == 1:
            sharding, whole = xc.HloSharding.replicate(), shape
        else:
            proto = xc.OpSharding()
            proto.type = xc.OpSharding.Type.OTHER
            proto.tile_assignment_dimensions = [self.ranks] + [1] * (len(shape) - 1)
            proto.tile_assignment_devices = list(range(self.ranks))
            sharding, whole = xc.HloSharding.from_proto(proto), (self.ranks * shape[0],) + shape[1:]
        placed = self.placed(self.devices, sharding)
        placed.hlo_sharding = sharding
        return xc.batched_device_put(
            self.aval(whole, by_rank[0].dtype, False), placed, by_rank, list(self.devices), True, True,
            xc.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL, enable_x64=True)

    def run(self, executable, parameters):
        """-> [output][rank]"""
        arrays = [self.put(parameter) for parameter in parameters]
        outputs = executable.execute_sharded(arrays).disassemble_into_single_device_arrays()
        return [[array._single_device_array_to_np_array_did_copy()[0] for array in output] for output in outputs]


class Case:
    def __init__(self, directory):
        import ml_dtypes
        import numpy as np

        self.np = np
        self.dtypes = {"f32": np.float32, "i32": np.int32, "u8": np.uint8, "i8": np.int8, "bf16": ml_dtypes.bfloat16,
                       "f16": np.float16}
        self.directory = directory
        self.described = json.loads((directory / "case.json").read_text())
        self.data = (directory / "data.bin").read_bytes()
        self.worst = 0.0
        self.failures = []

    def tensor(self, described, rank, shape=None):
        np, dtype = self.np, self.dtypes[described["dtype"]]
        shape = described["shape"] if shape is None else shape
        offset = described["offsets"][rank]
        if offset < 0:
            return np.zeros(shape, dtype)
        count = int(np.prod(shape))
        return np.frombuffer(self.data, dtype, count, offset).reshape(shape)

    def tensors(self, described):
        return [self.tensor(described, rank) for rank in range(self.described["ranks"])]

    def compare(self, what, found, expected):
        np = self.np
        if expected.dtype.kind in "iu":
            wrong = int((found != expected).sum())
            if wrong:
                self.failures.append(f"{what}: {wrong} of {expected.size} integers differ: found "
                                     f"{found.reshape(-1)[:8]}, expected {expected.reshape(-1)[:8]}")
            return
        found, expected = found.astype(np.float64), expected.astype(np.float64)
        scale = max(np.abs(expected).max(initial=0.0), 1e-6)
        error = float(np.abs(found - expected).max(initial=0.0)) / scale
        error = error if error == error else float("inf")
        self.worst = max(self.worst, error)
        if error > self.described["tolerance"]:
            self.failures.append(f"{what}: off by {error:.1e} of the scale")

    def run(self):
        described, ranks = self.described, self.described["ranks"]
        oracle = Oracle(ranks)
        executables = [oracle.compile((self.directory / m["file"]).read_bytes()) for m in described["modules"]]
        held = {name: self.tensors(tensor) for name, tensor in (described["initial"] or {}).items()}
        for number, step in enumerate(described["steps"]):
            module = described["modules"][step["module"]]
            parameters = [self.value(parameter, step, held) for parameter in module["parameters"]]
            outputs = oracle.run(executables[step["module"]], parameters)
            for output, by_rank in zip(module["outputs"], outputs):
                if output["parameter"] is not None:
                    held[module["parameters"][output["parameter"]]["name"]] = by_rank
                elif output["name"].startswith("index"):
                    self.check_indices(number, output["name"], by_rank)
                elif output["name"] == "agreement":
                    for found in by_rank:
                        self.compare(f"step {number} agreement", found, self.np.zeros(ranks, self.np.int32))
                else:
                    self.compare_output(number, output["name"], by_rank, step["outputs"][output["name"]])
        for name, expected in (described.get("final") or {}).items():
            for rank in range(ranks):
                rows = expected["rows"]
                self.compare(f"state {name} rank {rank}", held[name][rank][:rows], self.tensor(expected, rank)[:rows])

    def check_indices(self, number, name, by_rank):
        """The check of neuron_oracle_cases --indices: an index out of range is an error on the device."""
        limits = [int(limit) for limit in name.split(" below ")[1].split(",")]
        for found in by_rank:
            vectors = found.reshape(-1, len(limits))
            if (vectors < 0).any() or (vectors >= self.np.array(limits)).any():
                self.failures.append(f"step {number} {name}: found {vectors.min(0)} to {vectors.max(0)}")

    def value(self, parameter, step, held):
        if parameter["role"] == "rank":
            return self.tensors(parameter)
        if parameter["role"] == "input":
            return self.tensors(step["inputs"][parameter["name"]])
        return held[parameter["name"]]

    def compare_output(self, number, name, by_rank, expected):
        for rank, found in enumerate(by_rank):
            shape = expected["shapes"][rank]  # a rank may hold less than the widest
            cut = found[tuple(slice(0, size) for size in shape)]
            self.compare(f"step {number} {name} rank {rank}", cut, self.tensor(expected, rank, shape))


def check(directory):
    case = Case(directory)
    case.run()
    return {"name": case.described["name"], "worst": case.worst, "failures": case.failures}


def check_in_child(directory):
    """Runs in a separate process, because some faults end it."""
    child = subprocess.run([sys.executable, __file__, "--one", str(directory)], capture_output=True, text=True,
                           timeout=900, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "1"})
    if child.returncode == 0:
        return json.loads(child.stdout.splitlines()[-1])
    return {"name": directory.name, "worst": float("inf"), "failures": [f"the process ended: {child.stderr[-2000:]}"]}


def fingerprint(data):
    """lockstep::Fingerprint (runtime/core/hash.h)."""
    mask, state = (1 << 64) - 1, 0xCBF29CE484222325
    whole = len(data) // 8 * 8
    words = list(struct.unpack(f"<{whole // 8}Q", data[:whole])) + list(data[whole:])
    for word in words:
        state = (state ^ word ^ (state >> 32)) * 0x100000001B3 & mask
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & mask
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & mask
    return state ^ (state >> 31)


def digests(directory):
    files = sorted(directory.glob("*.pb"), key=lambda path: int(path.stem.rsplit("_", 1)[1]))
    return [f"{fingerprint(path.read_bytes()):016x}" for path in files]


def approve(path, directories):
    held = {}
    if path.exists():
        lines = [line.split() for line in path.read_text().splitlines() if line and not line.startswith("#")]
        held = {name: rest for name, *rest in lines}
    held |= {directory.name: digests(directory) for directory in directories}
    lines = [f"# Modules that XLA's CPU client (jaxlib {PINNED}) ran with the reference backend's results: case, then",
             "# the fingerprint of each module's bytes. Written by tools/check_hlo.py --approve."]
    path.write_text("\n".join(lines + [" ".join([name, *held[name]]) for name in sorted(held)]) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="only cases whose name contains one of these")
    parser.add_argument("--one", action="store_true", help="check this one case in this process")
    parser.add_argument("--approve", type=pathlib.Path, help="write the fingerprints of what passes to this file, beside those that it holds")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(check(arguments.directory)))
        return 0
    directories = sorted(path.parent for path in arguments.directory.glob("*/case.json"))
    if arguments.names:
        directories = [d for d in directories if any(name in d.name for name in arguments.names)]
    failed = set()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for result in pool.map(check_in_child, directories):
            failed |= {result["name"]} if result["failures"] else set()
            print(f"{'FAILED' if result['failures'] else 'ok':<7} {result['worst']:.1e}  {result['name']}", flush=True)
            for failure in result["failures"][:4]:
                print(f"        {failure}", flush=True)
    print(f"{len(directories) - len(failed)} of {len(directories)} cases agree (jaxlib {PINNED})")
    if arguments.approve:
        approve(arguments.approve, [directory for directory in directories if directory.name not in failed])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
