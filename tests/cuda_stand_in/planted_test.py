"""Planted mistakes: each is put into a copy of one source, which a test program or the stand-in is linked with; the test
named here must fail, and pass without the mistake.

    planted_test.py BUILD Places             of each mistake: its place is there, and the table of docs/gpu.md names it
    planted_test.py BUILD PlantedMistakes    each is caught
    planted_test.py --table                  prints the table
"""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BACKEND = "runtime/backends/cuda"
NCCL = "transport/nccl"
DEADLINE = 240.0  # of a compilation, and of a test without a mistake
HANG = 40.0       # a test that takes longer has found the mistake
BUILD = None


@dataclasses.dataclass(frozen=True)
class Mistake:
    what: str
    file: str      # that holds it
    right: str
    wrong: str
    program: str   # whose objects are linked
    test: str      # that must fail
    settings: str = ""  # of the stand-in
    says: str = ""      # words of a sanitizer's report; empty: any
    unit: str = ""      # that includes the file; empty: the file itself is compiled

    @property
    def compiled(self):
        return self.unit or self.file


KERNELS, STEPS, HOSTS = "cuda_kernels_test", "conformance_backend_cuda", "conformance_backend_cuda_hosts"
UNDER_ADDRESS, UNDER_THREAD = "cuda_kernels_address", "cuda_kernels_thread"  # ASan and UBSan, TSan
MISTAKES = (
    Mistake("a barrier out", f"{BACKEND}/kernels/sums.h",
            "scratch[thread_index() / kWarpLanes] = value;\n  sync_block();",
            "scratch[thread_index() / kWarpLanes] = value;", KERNELS, "*NormRows*",
            unit=f"{BACKEND}/kernels/rms_norm.cu"),
    Mistake("a barrier out between parts and their sum", f"{BACKEND}/kernels/product.cu",
            "shared.parts[warp]);\n      }\n      sync_block();", "shared.parts[warp]);\n      }", KERNELS,
            "*MultiplyInTheOrder*"),
    Mistake("a barrier out between parts in codes and their sum", f"{BACKEND}/kernels/product_codes.cu",
            "shared.parts[warp]);\n      }\n      sync_block();", "shared.parts[warp]);\n      }", KERNELS,
            "*SumGroupsInTheirOrder*"),
    Mistake("a wrong lane", f"{BACKEND}/kernels/sum_tile.h", "lane / 4 + i / 2 * 8", "lane / 4 + i % 2 * 8", KERNELS,
            "*MultiplyInTheOrder*", unit=f"{BACKEND}/kernels/product.cu"),
    Mistake("a wait for peers out", f"{BACKEND}/kernels/meet.h",
            "while (static_cast<int32_t>(load_acquire(flag) - epoch) < 0)",
            "while (static_cast<int32_t>(load_acquire(flag) - epoch) < -1000000)", KERNELS, "*SumOfRanks*",
            unit=f"{BACKEND}/kernels/sum.cu"),
    Mistake("a sum over ranks out of order", f"{BACKEND}/kernels/sum_end.h",
            "for (int step = 0; step < additions; ++step) {", "for (int step = additions - 1; step >= 0; --step) {",
            KERNELS, "*AddsAlongTheTree*", unit=f"{BACKEND}/kernels/sum.cu"),
    Mistake("slices read before they are there", f"{BACKEND}/kernels/sum.cu", "meet_ranks(p.sum.meeting, 1);", "",
            KERNELS, "*AddsAlongTheTree*"),
    Mistake("a barrier out between stages", f"{BACKEND}/kernels/product_tiles.cu",
            "show_to_products();\n        sync_block();", "show_to_products();", KERNELS, "*HaveTheBitsOfFewRows*"),
    Mistake("an open sum over another", f"{BACKEND}/kernels/product_tiles.cu", "keep(height_ - 1, top_)",
            "keep(0, top_)", KERNELS, "*HaveTheBitsOfFewRows*blocks*"),
    Mistake("a missing peer that nobody notes", f"{BACKEND}/kernels/meet.h",
            "store_release(m.missing, 1u + static_cast<uint32_t>(peer));", "", KERNELS, "*NamesTheRankThatDoesNotCome*",
            unit=f"{BACKEND}/kernels/sum.cu"),
    Mistake("an abort that nobody hears", f"{BACKEND}/kernels/meet.h", "load_acquire(m.abort) != 0 || ", "", KERNELS,
            "*GivesUpWhenItIsTold*", unit=f"{BACKEND}/kernels/sum.cu"),
    Mistake("a barrier out between rows and their product", f"{BACKEND}/kernels/product_few.cu",
            "norm_rows(block);\n  }\n  sync_block();", "norm_rows(block);\n  }", KERNELS, "*Few.NormTheirRows*"),
    Mistake("activations read before the wait for the launch ahead", f"{BACKEND}/kernels/product_few.cu",
            "follow_previous();\n  prepare_rows(block);", "prepare_rows(block);\n  follow_previous();", KERNELS,
            "*Few.ReadNothingEarly*"),
    Mistake("a launch that does not wait for the one ahead", f"{BACKEND}/kernels/product_few.cu",
            "  follow_previous();\n", "", KERNELS, "*Few.ReadNothingEarly*"),
    Mistake("weights of another tile ahead", f"{BACKEND}/kernels/few_sums.h", "words_of(block, next_tile)",
            "words_of(block, tile + 1)", KERNELS, "*MultiplyInTheOrder*", unit=f"{BACKEND}/kernels/product_few.cu"),
    Mistake("tiles folded out of order", f"{BACKEND}/kernels/attend.cu",
            "for (int tile = 0; tile <= query.seen.position / kTileTokens; ++tile) {",
            "for (int tile = query.seen.position / kTileTokens; tile >= 0; --tile) {", KERNELS,
            "*WeighsWhatEachRowSees*"),
    Mistake("tiles folded before the last one is there", f"{BACKEND}/kernels/tile_units.h",
            "count_arrival(arrivals) == static_cast<uint32_t>(tiles)",
            "count_arrival(arrivals) == static_cast<uint32_t>(tiles - 1)", KERNELS, "*WeighsWhatEachRowSees*",
            unit=f"{BACKEND}/kernels/attend_tiles.cu"),
    Mistake("a count of tiles that stays", f"{BACKEND}/kernels/tile_units.h", "if (is_last != 0) *arrivals = 0;", "",
            KERNELS, "*WeighsWhatEachRowSees*", unit=f"{BACKEND}/kernels/attend_tiles.cu"),
    Mistake("keys replaced while they are read", f"{BACKEND}/kernels/attend_tiles.cu",
            "score_keys(p, chunk, memory);\n    sync_block();\n    weigh_keys(p, chunk, *memory.shared);\n"
            "    if (head + kHeadsAtOnce >= end) {  // the keys are read\n"
            "      copy_keys<kIsCoded>(p, next, has_next, memory);\n",
            "copy_keys<kIsCoded>(p, next, has_next, memory);\n    score_keys(p, chunk, memory);\n    sync_block();\n"
            "    weigh_keys(p, chunk, *memory.shared);\n    if (head + kHeadsAtOnce >= end) {\n",
            KERNELS, "*WeighsWhatEachRowSees*"),
    Mistake("values before everybody has the scores", f"{BACKEND}/kernels/attend_rows.cu",
            "sync_block();  // all threads have read the last one", "", KERNELS, "*ShareTiles*f32_plain"),
    Mistake("half of the chains twice", f"{BACKEND}/kernels/query_pairs.h",
            "sum_lanes<2 * kMask>(operands, lane + kMask)", "sum_lanes<2 * kMask>(operands, lane)", KERNELS,
            "*ShareTiles*f32_plain", unit=f"{BACKEND}/kernels/attend_rows.cu"),
    Mistake("values replaced while they are read", f"{BACKEND}/kernels/attend_rows_16.h",
            "sync_block();  // the keys are there, and all warps are done with the last values", "", KERNELS,
            "*ShareTiles*/plain", unit=f"{BACKEND}/kernels/attend_rows_16.cu"),
    Mistake("keys replaced while another warp reads them", f"{BACKEND}/kernels/attend_rows_16.h",
            "sync_block();  // the values are there, and all warps are done with the keys", "", KERNELS,
            "*ShareTiles*/plain", unit=f"{BACKEND}/kernels/attend_rows_16.cu"),
    Mistake("infinities that a weight of 0 lets through", f"{BACKEND}/kernels/attend_rows_16.h",
            "weights.sees_all || !holds_infinity", "true || !holds_infinity", KERNELS, "*ShareTiles*infinities",
            unit=f"{BACKEND}/kernels/attend_rows_16.cu"),
    Mistake("the largest score of a warp's keys for the tile's", f"{BACKEND}/kernels/attend_tiles_16.cu",
            "for (int warp = 1; warp < kWarps; ++warp) {", "for (int warp = kWarps; warp < kWarps; ++warp) {", KERNELS,
            "*ShareTiles*/plain"),
    Mistake("a tile replaced while its values are read", f"{BACKEND}/kernels/attend_tiles_16.cu",
            "if (has_unit && keys_ != values_) copy_tile", "if (has_unit) copy_tile", KERNELS, "*ShareTiles*/latent"),
    Mistake("a tile replaced while another warp reads its values", f"{BACKEND}/kernels/attend_rows_16.h",
            "tile_of_keys(1 - turn_)", "tile_of_keys(turn_)", KERNELS, "*ShareTiles*/latent",
            unit=f"{BACKEND}/kernels/attend_rows_16.cu"),
    Mistake("weights of the warp's own keys alone", f"{BACKEND}/kernels/attend_rows_16.h",
            "maxima[row] = larger_or_nan(maxima_of(row)[0], maxima_of(row)[1]);", "maxima[row] = maxima_of(row)[own_];",
            KERNELS, "*ShareTiles*/latent", unit=f"{BACKEND}/kernels/attend_rows_16.cu"),
    Mistake("columns of x of another head", f"{BACKEND}/kernels/head_products.h", "head * p.x_columns",
            "head * own.outputs", KERNELS, "*ProductHeads*", unit=f"{BACKEND}/kernels/product.cu"),
    Mistake("a norm over the columns behind its own", f"{BACKEND}/kernels/heads.cu", "part.norm, own, read",
            "part.norm, p.head_dim, read", KERNELS, "*Few.JoinHeads*"),
    Mistake("keys on the wrong lanes", f"{BACKEND}/kernels/attention_16.h",
            "keys += (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * kChunk16;",
            "keys += (lane % 8 + lane / 8 % 2 * 8) * stride + lane / 16 * kChunk16;", KERNELS,
            "*HasTheBitsOfItsFormula*/plain", unit=f"{BACKEND}/kernels/attend_rows_16.cu"),
    Mistake("keys of another slot", f"{BACKEND}/kernels/attend.cu", "tile_at(p, p.slot[query.row], tile",
            "tile_at(p, 0, tile", KERNELS, "*WeighsWhatEachRowSees*"),
    Mistake("a window that is one too wide", f"{BACKEND}/kernels/attention.h", "position - p.window + 1",
            "position - p.window", KERNELS, "*WeighsWhatEachRowSees*window", unit=f"{BACKEND}/kernels/attend.cu"),
    Mistake("a probe that leaves words out", f"{BACKEND}/kernels/probe.cu", "tile += block_count()",
            "tile += block_count() + 1", KERNELS, "*ReadEveryWordOnce*"),
    Mistake("an allocation in a capture", f"{BACKEND}/executable.cpp", "Result<void> Executable::enqueue() {",
            "Result<void> Executable::enqueue() {\n  LOCKSTEP_TRY(const cu::DeviceMemory extra, "
            "cu::DeviceMemory::create(*device_.context, Bytes(64), \"a mistake\"));",
            STEPS, "CudaSteps.ReplayOneGraph*"),
    Mistake("a stale address of peers' memory", f"{BACKEND}/executable.cpp", "bases_.areas = peers_.areas();", "",
            STEPS, "*SumTheRoots*Cuda_f32"),
    Mistake("roots over the flags", f"{BACKEND}/lower_ranks.cpp",
            "static_cast<uint64_t>(flag_bytes(graph_.ranks) + (exchange % 2)", "static_cast<uint64_t>((exchange % 2)",
            STEPS, "*SumTheRoots*Cuda_f32"),
    Mistake("slices over the roots", f"{BACKEND}/lower_ranks.cpp",
            "sliced.slices[rank] = reinterpret_cast<void*>(area(rank, exchange_))",
            "sliced.slices[rank] = reinterpret_cast<void*>(area(rank, exchange_ + 1))", STEPS,
            "CudaSteps.SumLargeMessages*"),
    Mistake("pages that are not committed", f"{BACKEND}/executable.cpp",
            "store_.prepare_rows(*written.state, ints(written.slot, written.rows), ints(written.position, written.rows))",
            "Result<void>(ok())", STEPS, "CudaSteps.ReplayOneGraph*"),
    Mistake("results read before they are there", f"{BACKEND}/executable.cpp",
            "const Result<void> done = device_.stream->wait(limit);", "const Result<void> done = ok();", STEPS,
            "*WholeSteps*Cuda*", "lazy"),
    Mistake("sums of hosts finished out of order", f"{BACKEND}/lower_hosts.cpp", "append_pairs(plan, between.steps);",
            "append_pairs(plan, {between.steps.rbegin(), between.steps.rend()});", HOSTS,
            "*SumTheRoots*HostsOfOne_f32"),
    Mistake("results made before the host's other rails have theirs", f"{BACKEND}/lower_hosts.cpp",
            "parameters.meeting = next_meeting();\n  emit(\"sum_of_hosts\"",
            "parameters.meeting = next_meeting();\n  parameters.meeting.ranks = 0;\n  emit(\"sum_of_hosts\"", HOSTS,
            "*SumTheRoots*UnevenHosts_f32", "threaded"),
    Mistake("no wait until a gather between hosts is in the stream", f"{NCCL}/nccl_exchange.cpp",
            "  WaitOptions wait = wait_;\n",
            "  if (operation != \"connect the GPUs of several hosts\") return ok();\n  WaitOptions wait = wait_;\n",
            HOSTS, "*SumTheRoots*UnevenHosts_f32"),
    Mistake("a barrier out, whatever the order of threads", f"{BACKEND}/kernels/sums.h",
            "scratch[thread_index() / kWarpLanes] = value;\n  sync_block();",
            "scratch[thread_index() / kWarpLanes] = value;", UNDER_THREAD, "*NormRows/2",
            unit=f"{BACKEND}/kernels/rms_norm.cu", says=r"ThreadSanitizer: data race \S*sums\.h:\d+"),
    Mistake("two blocks that write one place", f"{BACKEND}/kernels/rms_norm.cu",
            "static_cast<Element*>(p.y) + row * p.y_stride + first;", "static_cast<Element*>(p.y) + row * 0 + first;",
            UNDER_THREAD, "*NormRows/0", says=r"ThreadSanitizer: data race \S*rms_norm\.cu:\d+"),
    Mistake("a write past an array", f"{BACKEND}/kernels/rms_norm.cu", "y[i] = Rows::write", "y[i + 1] = Rows::write",
            UNDER_ADDRESS, "*NormRows*", says=r"heap-buffer-overflow[\s\S]*rms_norm\.cu:\d+"),
)


def table():
    lines = ["| mistake | in | caught by |", "| --- | --- | --- |"]
    return lines + [f"| {m.what} | `{pathlib.Path(m.file).name}` | `{m.program} --gtest_filter={m.test}`"
                    f"{f', {m.settings}' if m.settings else ''} |" for m in MISTAKES]


class Places(unittest.TestCase):
    """What can be checked without a compiler."""

    def test_each_is_in_its_file_once(self):
        for mistake in MISTAKES:
            with self.subTest(mistake.what):
                self.assertEqual((ROOT / mistake.file).read_text().count(mistake.right), 1, mistake.file)

    def test_the_table_is_in_the_page(self):
        self.assertIn("\n".join(table()), (ROOT / "docs/gpu.md").read_text())


class PlantedMistakes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        commands = subprocess.run(["ninja", "-C", BUILD, "-t", "compdb"], check=True, stdout=subprocess.PIPE, text=True)
        cls.compilations = [entry for entry in json.loads(commands.stdout) if entry["output"].endswith(".o")]
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="lockstep-planted-")))

    def run_shell(self, command):
        return subprocess.run(["bash", "-c", command], cwd=BUILD, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=DEADLINE, check=False)

    def compilation(self, mistake):
        """Of the program's own object, or of the one that the unsanitized programs share."""
        of_unit = [entry for entry in self.compilations if entry["file"] == str(ROOT / mistake.compiled)]
        own = [entry for entry in of_unit if f"/{mistake.program}.dir/" in entry["output"]]
        shared = [entry for entry in of_unit if not any(f"/{program}.dir/" in entry["output"]
                                                        for program in (UNDER_ADDRESS, UNDER_THREAD))]
        return (own or shared)[0]

    def compiled(self, mistake):
        """(the object of the program, the object with the mistake)"""
        overlay = self.folder / "overlay"
        shutil.rmtree(overlay, ignore_errors=True)
        for folder in (BACKEND, NCCL):
            shutil.copytree(ROOT / folder, overlay / folder)
        changed = overlay / mistake.file
        changed.write_text(changed.read_text().replace(mistake.right, mistake.wrong))
        entry = self.compilation(mistake)
        made = self.folder / "mistake.o"
        command = entry["command"].replace(f"-c {ROOT / mistake.compiled}", f"-c {overlay / mistake.compiled}")
        command = re.sub(r" -MD -MT \S+ -MF \S+", "", command).replace(f"-o {entry['output']}", f"-o {made}")
        command = command.replace(" -Werror ", " ")
        command = command.replace(f" -I{ROOT}", f" -I{overlay} -I{ROOT}", 1)
        done = self.run_shell(f"CCACHE_DISABLE=1 {command}")  # which does not hash where headers come from
        self.assertEqual(done.returncode, 0, done.stdout)
        return entry["output"], made

    def linked(self, mistake):
        ours, made = self.compiled(mistake)
        link = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", mistake.program], check=True,
                              stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
        program = self.folder / mistake.program
        # What comes first is taken, of functions that several objects have too.
        link = re.sub(r"(\S*c\+\+) ", rf"\1 {made} ", link.replace(f" {ours} ", " "), count=1)
        link = link.replace(f"-o bin/{mistake.program}", f"-o {program}")
        done = self.run_shell(link)
        self.assertEqual(done.returncode, 0, done.stdout)
        return program

    def run_test(self, program, mistake, limit):
        """(whether it passes, its output); `limit`: seconds"""
        try:
            # Real threads do not meet in every run as a mistake needs it.
            repeat = 10 if mistake.settings == "threaded" else 1
            done = subprocess.run([program, f"--gtest_filter={mistake.test}", f"--gtest_repeat={repeat}"], cwd=self.folder, timeout=limit, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                  env={**os.environ, "LOCKSTEP_STAND_IN_CUDA": mistake.settings,
                                       "ASAN_OPTIONS": "detect_leaks=0"})
            return done.returncode == 0, done.stdout
        except subprocess.TimeoutExpired:
            return False, "it did not end"

    def test_each_is_caught_by_its_test(self):
        for mistake in MISTAKES:
            with self.subTest(mistake.what):
                passes, output = self.run_test(pathlib.Path(BUILD, "bin", mistake.program), mistake, DEADLINE)
                self.assertTrue(passes, output)
                self.assertRegex(output, r"\[  PASSED  \] [1-9]")
                passes, output = self.run_test(self.linked(mistake), mistake, HANG)
                self.assertFalse(passes, "no test noticed")
                if mistake.says:
                    self.assertRegex(output, mistake.says)


if __name__ == "__main__":
    if sys.argv[1] == "--table":
        print("\n".join(table()))
        sys.exit()
    BUILD = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
