"""Ranks on GPUs, over the stand-in of the CUDA driver: threads and processes give the CPU's tokens, and every failure
ends in time, with its reason.

    cuda_test.py PROGRAM STAND_IN [NCCL_STAND_IN]
"""
import json
import os
import pathlib
import re
import sys

import launches

STAND_IN = NCCL_STAND_IN = None
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "examples/cluster/gpus-mpirun.sh"
MACHINES = pathlib.Path(__file__).resolve().parents[1] / "runtime/topology/machines"


def on_stand_in(test):
    """Of tests that set the stand-in up; another driver has the GPUs that it has."""
    def skipped_elsewhere(self):
        if "stand_in" not in pathlib.Path(STAND_IN).name:
            self.skipTest("needs the stand-in")
        test(self)
    return skipped_elsewhere


class OnGpus(launches.Launches):
    def arguments_on(self, name, *more, deadline=60):
        return self.arguments(name, "--backend", "cuda", "--cuda-driver", STAND_IN, *more, deadline=deadline)

    def threads(self, name, ranks, *more, setting="threaded", deadline=60):
        return self.run_command([launches.PROGRAM, *self.arguments_on(name, *more, deadline=deadline), "--launch",
                                 "threads", "--tp", ranks], {"LOCKSTEP_STAND_IN_CUDA": setting})

    def mpirun(self, name, ranks, *more, setting="threaded", deadline=60):
        return self.run_command(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", ranks, launches.PROGRAM,
                                 *self.arguments_on(name, *more, deadline=deadline)],
                                {"LOCKSTEP_STAND_IN_CUDA": setting})

    def test_threads_that_share_a_gpu(self):
        self.expect_tokens(self.threads("shared", 2, "--share-devices"), "shared", 2)

    @on_stand_in
    def test_threads_with_gpus_of_their_own(self):
        done = self.threads("own", 3, setting="threaded,devices=3")
        self.expect_tokens(done, "own", 3)
        self.expect_words(done, "cuda:0", "cuda:1", "cuda:2")

    def test_processes_that_share_a_gpu(self):
        done = self.mpirun("ipc", 2, "--share-devices")
        self.expect_tokens(done, "ipc", 2)
        self.expect_words(done, "2 ranks of host", "share 1 GPU")

    @on_stand_in
    def test_processes_with_gpus_of_their_own(self):
        self.expect_tokens(self.mpirun("each", 3, setting="threaded,devices=4"), "each", 3)

    @on_stand_in
    def test_more_ranks_than_gpus_are_refused(self):
        done = self.mpirun("crowd", 2)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.expect_words(done, "found 2 ranks and 1 visible GPU", "--share-devices")

    @on_stand_in
    def test_groups_of_a_launch_share_the_gpus_of_their_host(self):
        done = self.run_command(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", 4, launches.PROGRAM, "engine",
                                 "--model", self.model, "--max-seq-len", 64, "--socket", self.folder / "engine.sock",
                                 "--threads", 1, "--tp", 2, "--backend", "cuda", "--cuda-driver", STAND_IN],
                                {"LOCKSTEP_STAND_IN_CUDA": "threaded,devices=3"})
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.expect_words(done, "found 4 ranks and 3 visible GPUs", "--share-devices")

    @on_stand_in
    def test_processes_that_lockstep_starts(self):
        done = self.run_command([launches.PROGRAM, *self.arguments_on("started"), "--launch", "processes", "--tp", 2],
                                {"LOCKSTEP_STAND_IN_CUDA": "threaded,devices=2"})
        self.expect_tokens(done, "started", 2)

    @on_stand_in
    def test_the_job_script_of_a_hostfile_starts_a_rank_for_each_slot(self):
        if not SCRIPT.exists():
            self.skipTest("needs the project's folder")
        hostfile = self.folder / "hosts.txt"
        hostfile.write_text("# a host of GPUs\nlocalhost slots=2\n")
        done = self.run_command([SCRIPT, hostfile, *self.arguments("script", "--cuda-driver", STAND_IN)[1:]],
                                {"LOCKSTEP": launches.PROGRAM, "LOCKSTEP_STAND_IN_CUDA": "threaded,devices=2"})
        self.expect_tokens(done, "script", 2)
        self.expect_words(done, "0/2 cuda:0", "1/2 cuda:1")

    # The capacity makes a prefill of many rows.
    FAST = ("--numerics", "fast", "--max-seq-len", 64)

    @on_stand_in
    def test_fast_numerics_take_the_library_that_is_named(self):
        done = self.mpirun("fast", 2, "--share-devices", *self.FAST, "--cublas", STAND_IN)
        self.expect_tokens(done, "fast", 2)

    @on_stand_in
    def test_fast_numerics_without_the_library_say_what_is_missing(self):
        done = self.threads("bare", 1, *self.FAST, "--cublas", "/nowhere/libcublasLt.so.13")
        self.assertEqual(done.returncode, 4, done.stdout)
        self.expect_words(done, "cuBLASLt", "/nowhere/libcublasLt.so.13", "--cublas", "omit --numerics fast")

    @on_stand_in
    def test_a_product_that_the_library_cannot_make_is_named(self):
        done = self.threads("unable", 1, *self.FAST, "--cublas", STAND_IN,
                            setting="threaded,LtMatmulAlgoGetHeuristic:1=1")
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.expect_words(done, "choose how to multiply", "cuBLASLt's status 14 INTERNAL_ERROR")

    def record_of_rank_0(self, done, name):
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return json.loads((self.folder / name / "rank-0.json").read_text())

    def test_a_killed_rank_ends_the_others_while_they_wait_in_a_kernel(self):
        (self.folder / "dead").mkdir()
        done = self.mpirun("dead", 2, "--share-devices", "--fault", "rank=1,phase=decode,kind=kill,step=3",
                           "--exit-record", self.folder / "dead")
        record = self.record_of_rank_0(done, "dead")
        self.assertEqual((record["code"], record["lost_rank"]), (5, 1), record)

    def test_a_stuck_rank_is_found_by_its_silence(self):
        (self.folder / "stuck").mkdir()
        done = self.mpirun("stuck", 2, "--share-devices", "--fault", "rank=1,phase=decode,kind=stop,step=3",
                           "--silence-s", "2", "--exit-record", self.folder / "stuck")
        record = self.record_of_rank_0(done, "stuck")
        self.assertEqual((record["code"], record["lost_rank"]), (5, 1), record)

    @on_stand_in
    def test_too_little_memory_is_told_with_what_to_lower(self):
        done = self.threads("small", 1, setting="memory=200000")
        self.assertEqual(done.returncode, 7, done.stdout)
        self.expect_words(done, "rank 0: GPU 0 (Stand-in GPU 0) is too small: found 195.31 KiB for this rank",
                          "of weights", "of keys and values of all slots", "lower --max-seq-len")

    def bench(self, name, *more, setting="threaded"):
        done = self.run_command([launches.PROGRAM, "bench", "--random-weights", "--config",
                                 self.model / "config.json", "--backend", "cuda", "--cuda-driver", STAND_IN,
                                 "--launch", "threads", "--prompt-tokens", 8, "--new-tokens", 9, "--prefill-chunk", 4,
                                 "--repeats", 1, "--warmup", 0, "--probe-mib", 1, "--json",
                                 self.folder / f"{name}.json", *more], {"LOCKSTEP_STAND_IN_CUDA": setting})
        self.assertEqual(done.returncode, 0, done.stdout)
        return done, self.answer(name)

    def expect_probed_on_gpus(self, bench):
        self.assertTrue(bench["probe"]["of_devices"])
        for repetition in bench["repetitions"]:
            for kernel in ("read_kernel", "flops_kernel"):
                self.assertRegex(repetition[kernel], "^GPU, .* blocks a multiprocessor$")
            bytes_per_s = bench["decode"]["bytes_per_token"] * repetition["decode_tokens_per_s"]
            self.assertAlmostEqual(repetition["of_bandwidth"] * repetition["read_bytes_per_s"] / bytes_per_s, 1)
            flops_per_s = bench["prefill"]["flops_per_token"] * repetition["prefill_tokens_per_s"]
            self.assertAlmostEqual(repetition["of_peak"] * repetition["flops_per_s"] / flops_per_s, 1)

    def test_bench_holds_speeds_against_probes_of_the_gpu(self):
        done, bench = self.bench("bench")
        self.expect_probed_on_gpus(bench)
        prefill, decode = bench["graphs"]
        self.assertEqual((prefill["graph"], prefill["replays"]), ("prefill rows=4 slots=1", 2))
        self.assertEqual((decode["graph"], decode["replays"]), ("decode rows=1 slots=1", 8))
        self.assertEqual(decode["bytes"], bench["decode"]["bytes_per_token"])
        for graph in bench["graphs"]:
            self.assertGreater(graph["launches"], 10)
            self.assertGreater(graph["device_s"], 0)
        self.expect_words(done, "launches and copies", "ms on the device")

    def test_explain_counts_the_weights_that_bench_counts(self):
        done = self.run_command([launches.PROGRAM, "explain", "--model", self.model, "--backend", "cuda", "--batch-size", 1,
                                 "--phase", "decode"])
        self.assertEqual(done.returncode, 0, done.stdout)
        weights = int(re.search(r"bytes: (\d+) of weights", done.stdout).group(1))
        tokens = 8 + 9 / 2  # of a sequence, on average
        cache = tokens * 2 * 2 * 2 * 8 * 4  # keys and values of 2 layers, 2 heads of 8, f32
        padding = 2 * 32 * 32 * 4  # of o_proj: each head's 8 columns take the 16 of a tensor core's step
        self.assertEqual(weights - padding, self.bench("counted")[1]["decode"]["bytes_per_token"] - cache)

    @on_stand_in
    def test_bench_adds_the_limits_of_gpus(self):
        self.expect_probed_on_gpus(self.bench("benches", "--tp", 2, setting="threaded,devices=2")[1])

    def test_a_trace_and_a_profile_have_the_time_of_the_device(self):
        trace, metrics = self.folder / "trace.json", self.folder / "out.prom"
        done = self.threads("traced", 1, "--profile", "--trace", trace, "--metrics", metrics)
        self.expect_tokens(done, "traced", 1)
        slices = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
        count = {category: sum(event["cat"] == category for event in slices) for category in ("step", "device")}
        self.assertEqual(count["device"], count["step"])
        for phase in ("prefill", "decode"):
            told = self.answer("traced")["ranks"][0][phase]
            parts = told["device"]
            self.assertGreater(min(parts.values()), 0)
            self.assertAlmostEqual(sum(parts.values()), told["seconds"])
            self.assertIn(f'phase="{phase}",part="device"', metrics.read_text())
        self.expect_words(done, "us a step:", "host before it")

    @on_stand_in
    def test_a_gpu_that_is_lost_in_a_step_is_named(self):
        done = self.threads("lost", 1, setting="GraphLaunch:6+=719")
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.expect_words(done, "CUDA_ERROR_LAUNCH_FAILED")

    @on_stand_in
    def test_gpus_that_cannot_see_each_other_are_refused_on_every_rank(self):
        done = self.threads("apart", 2, setting="threaded,devices=2,CtxEnablePeerAccess:1+=217")
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.expect_words(done, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "nvidia-smi topo -p2p r")

    @on_stand_in
    def test_ranks_take_gpus_near_their_cores_and_stay_there(self):
        if not {0, 1} <= os.sched_getaffinity(0) or not MACHINES.exists():
            self.skipTest("needs cores 0 and 1, and the project's tests")
        setting = {"LOCKSTEP_STAND_IN_CUDA": "threaded,devices=2",
                   "HWLOC_XMLFILE": str(MACHINES / "two_cores.xml")}
        ranks = [word for core in (1, 0) for word in
                 (":", "-n", 1, "taskset", "-c", core, launches.PROGRAM, *self.arguments_on("near"))]
        done = self.run_command(["mpirun", "--oversubscribe", "--bind-to", "none", *ranks[1:]], setting)
        self.expect_tokens(done, "near", 2)
        self.expect_words(done, "0/2 cuda:1 1 1 1", "1/2 cuda:0 1 0")
        done = self.run_command([launches.PROGRAM, *self.arguments_on("free"), "--launch", "threads", "--tp", 2], setting)
        self.expect_tokens(done, "free", 2)
        self.expect_words(done, "0/2 cuda:0 1 0 1", "1/2 cuda:1 1 1")

    @on_stand_in
    def test_doctor_tells_of_gpus_and_their_links(self):
        (self.folder / "libcuda.so.1").symlink_to(STAND_IN)
        if NCCL_STAND_IN:
            (self.folder / "libnccl.so.2").symlink_to(NCCL_STAND_IN)
        libraries = f"{self.folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        done = self.run_command([launches.PROGRAM, "doctor", "--quick", "--launch", "threads"],
                                {"LOCKSTEP_STAND_IN_CUDA": "devices=2", "LD_LIBRARY_PATH": libraries})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.expect_words(done, "driver of CUDA 13.0; GPU 0: Stand-in GPU 0, 1.00 GiB, compute capability 9.0",
                          "GPU 1: Stand-in GPU 1", "all GPUs see each other's memory",
                          *(["between hosts by NCCL 2.28.9"] if NCCL_STAND_IN else []))

    def test_without_a_driver_its_name_and_option_are_told(self):
        done = self.run_command([launches.PROGRAM, *self.arguments("none"), "--backend", "cuda", "--cuda-driver",
                                 self.folder / "nothing.so", "--launch", "threads"])
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.expect_words(done, "nothing.so", "--cuda-driver")


if __name__ == "__main__":
    NCCL_STAND_IN = sys.argv.pop(3) if sys.argv[3:] else None
    STAND_IN = sys.argv.pop(2)
    launches.start_tests()
