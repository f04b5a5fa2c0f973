// The kernels between the products: norms, rotations, activations, softmax, conversions, packing, routing, the draw and
// the all-reduce of threads. Each moves some bytes and computes little, so "ratio" is bytes/s over the read probe:
// below 1 it is slower than reading as much from memory; with data in a cache it should be above. Bytes are what is
// read and written, tables that stay in the first cache left out.
#include <benchmark/benchmark.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "runtime/backends/cpu/packing.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/sampling/sampling.h"
#include "tests/runtime/backends/cpu/benchmark_limits.h"
#include "transport/loopback/loopback.h"

namespace lockstep::cpu {
namespace {

constexpr int64_t kColumns = 2048;  // of a row: the hidden size of a small model
constexpr int64_t kHeadDim = 64;
constexpr int64_t kIterations = 15;

/// Rows of one call: in the second cache, and beyond all of them.
int64_t few_rows() { return 32; }
int64_t many_rows() { return runs_once() ? 64 : 32768; }

/// Runs `work`, which moves `bytes`, in turn with the read probe.
void beside_reading(benchmark::State& state, double bytes, const std::function<void()>& work) {
  const int calls = runs_once() ? 1 : static_cast<int>(1 + 16e6 / bytes);  // long enough for the clock
  work();
  run_beside_reads(state, bytes, work, calls);
}

/// Rows of one element type, the operands of row kernels.
struct Rows {
  const Kernels& kernels = kernels_for(best_isa());
  DType dtype;
  int64_t count;
  Mapping a, b, result, weight;

  Rows(DType type, int64_t rows)
      : dtype(type),
        count(rows),
        a(filled(bytes(), type)),
        b(filled(bytes(), type)),
        result(filled(bytes(), type)),
        weight(filled(kColumns * 4, type)) {}

  int64_t row_bytes() const { return kColumns * static_cast<int64_t>(size_of(dtype)); }
  int64_t bytes() const { return count * row_bytes(); }
  ConstRow row(const Mapping& memory, int64_t i) const { return {memory.data() + i * row_bytes(), dtype}; }
  Row to(int64_t i) { return {result.data() + i * row_bytes(), dtype}; }
  ConstRow table() const { return {weight.data(), dtype}; }
};

/// A kernel over one row, and how many times the row's bytes it moves.
struct RowKernel {
  const char* name;
  double moved;
  void (*run)(Rows& rows, int64_t row);
};

/// Cosines and sines of a position: halves of a head.
const std::vector<float>& angles() {
  static const std::vector<float> values(kHeadDim, 0.7071f);
  return values;
}

void rotate(Rows& rows, int64_t row, RopeFunction rope) {
  const int64_t head = kHeadDim * static_cast<int64_t>(size_of(rows.dtype));
  for (int64_t at = 0; at < rows.row_bytes(); at += head) {
    rope({rows.row(rows.a, row).data + at, rows.dtype}, angles().data(), angles().data(),
         {rows.to(row).data + at, rows.dtype}, kHeadDim, kHeadDim);
  }
}

const RowKernel kRowKernels[] = {
    {"rms_norm", 2,
     [](Rows& r, int64_t i) { r.kernels.rms_norm(r.row(r.a, i), r.table(), r.to(i), kColumns, 1e-5, {}); }},
    {"layer_norm", 2,
     [](Rows& r, int64_t i) {
       r.kernels.layer_norm(r.row(r.a, i), r.table(), r.table(), r.to(i), kColumns, 1e-5, 0.0f);
     }},
    {"add", 3, [](Rows& r, int64_t i) { r.kernels.add(r.row(r.a, i), r.row(r.b, i), r.to(i), kColumns); }},
    {"scale", 2, [](Rows& r, int64_t i) { r.kernels.scale(r.row(r.a, i), r.to(i), kColumns, 0.5f); }},
    {"soft_cap", 2, [](Rows& r, int64_t i) { r.kernels.soft_cap(r.row(r.a, i), r.to(i), kColumns, 30.0f); }},
    {"silu_gate", 3,
     [](Rows& r, int64_t i) {
       r.kernels.gate({ActivationKind::kSilu}, r.row(r.a, i), r.row(r.b, i), r.to(i), kColumns);
     }},
    {"gelu", 2,
     [](Rows& r, int64_t i) { r.kernels.activate({ActivationKind::kGelu}, r.row(r.a, i), r.to(i), kColumns); }},
    {"gelu_tanh", 2,
     [](Rows& r, int64_t i) { r.kernels.activate({ActivationKind::kGeluTanh}, r.row(r.a, i), r.to(i), kColumns); }},
    {"rope_halves", 2, [](Rows& r, int64_t i) { rotate(r, i, r.kernels.rope_halves); }},
    {"rope_neighbours", 2, [](Rows& r, int64_t i) { rotate(r, i, r.kernels.rope_neighbours); }},
};

void row_kernel(benchmark::State& state, const RowKernel& kernel, DType dtype, int64_t count) {
  Rows rows(dtype, count);
  beside_reading(state, kernel.moved * static_cast<double>(rows.bytes()), [&] {
    for (int64_t i = 0; i < rows.count; ++i) kernel.run(rows, i);
  });
}

/// bfloat16 → float32 and back.
void convert(benchmark::State& state, DType from, DType to) {
  const Kernels& kernels = kernels_for(best_isa());
  const int64_t count = many_rows() * kColumns / 4;
  const Mapping src = filled(count * 4, from);
  const Mapping dst = filled(count * 4, to);
  const auto moved = static_cast<double>(count) * static_cast<double>(size_of(from) + size_of(to));
  beside_reading(state, moved, [&] { kernels.convert({src.data(), from}, {dst.data(), to}, count); });
}

/// Tiles of an online softmax over 64 keys for `rows` queries of a head.
void softmax(benchmark::State& state) {
  const Kernels& kernels = kernels_for(best_isa());
  constexpr int kRows = 64, kTiles = 16;
  std::vector<float> scores(kRows * kPanel * kTiles, 0.1f), maximum(kRows, 0.0f), sum(kRows * kStrip, 0.0f);
  std::vector<float> result(kRows * kHeadDim, 0.0f);
  beside_reading(state, 2.0 * static_cast<double>(scores.size() * sizeof(float)), [&] {
    for (int tile = 0; tile < kTiles; ++tile) {
      kernels.softmax_tile({.scores = scores.data() + tile * kRows * kPanel,
                            .rows = kRows,
                            .begin = 0,
                            .end = kPanel,
                            .scale = 0.125f,
                            .soft_cap = 0.0f,
                            .slope = nullptr,
                            .distance = nullptr,
                            .maximum = maximum.data(),
                            .sum = sum.data(),
                            .result = result.data(),
                            .result_columns = kHeadDim});
    }
  });
}

void packing(benchmark::State& state) {
  const bool pairs = kernels_for(best_isa()).bf16_pairs;
  const int64_t n = runs_once() ? 128 : 8192;
  const Packing layout = Packing::for_leaves(n, kColumns, kColumns, DType::kBFloat16, pairs);
  const Mapping src = filled(n * kColumns * 2, DType::kBFloat16);
  const Mapping dst = filled(layout.bytes(), DType::kBFloat16);
  beside_reading(state, 2.0 * static_cast<double>(layout.bytes()), [&] { pack(layout, src.data(), dst.data()); });
}

void arranging(benchmark::State& state) {
  const Kernels& kernels = kernels_for(best_isa());
  const Packing layout = Packing::for_leaves(64, kColumns, kColumns, DType::kFloat32, false);
  Rows rows(DType::kBFloat16, few_rows());
  const Mapping dst = filled(few_rows() * arranged_bytes(layout), DType::kFloat32);
  const auto moved = static_cast<double>(rows.bytes() + few_rows() * arranged_bytes(layout));
  beside_reading(state, moved, [&] {
    for (int64_t i = 0; i < rows.count; ++i) {
      arrange_row(kernels, layout, rows.row(rows.a, i), dst.data() + i * arranged_bytes(layout));
    }
  });
}

/// Logits of 64 rows over 128 experts of which 4 are chosen.
void routing(benchmark::State& state) {
  const Kernels& kernels = kernels_for(best_isa());
  constexpr int64_t kRows = 64, kExperts = 128;
  const Mapping logits = filled(kRows * kExperts * 4, DType::kFloat32);
  std::vector<float> routes(kRows * kExperts);
  const auto* values = reinterpret_cast<const float*>(logits.data());
  beside_reading(state, 2.0 * static_cast<double>(kRows * kExperts * 4), [&] {
    for (int64_t i = 0; i < kRows; ++i)
      kernels.route(values + i * kExperts, &routes[i * kExperts], kExperts, {.chosen = 4});
  });
}

/// The next token of one row of logits.
void drawing(benchmark::State& state, const sampling::Parameters& parameters) {
  constexpr int64_t kVocabulary = 128256;
  const Mapping memory = filled(kVocabulary * 4, DType::kFloat32);
  const std::span<const float> logits(reinterpret_cast<const float*>(memory.data()), kVocabulary);
  const std::vector<uint8_t> seen(kVocabulary, 0);
  sampling::Scratch scratch(kVocabulary);
  uint32_t index = 0;
  beside_reading(state, static_cast<double>(kVocabulary * 4),
                 [&] { benchmark::DoNotOptimize(sampling::choose(logits, seen, parameters, index++, scratch)); });
}

/// Seconds of `rounds` all-reduces of `bytes` between two threads, as the first of them sees them.
double all_reduce_seconds(int64_t bytes, int rounds) {
  const auto group = transport::loopback::make_group(2);
  const SteadyClock clock;
  AbortFlag abort;
  const transport::WaitOptions wait{.abort = &abort, .clock = &clock, .deadline = std::chrono::seconds(60)};
  const device::TreeSum sum(BlockSplit{{0, 1, 2}});
  double seconds = 0;
  const auto run = [&](int rank) {
    const auto communicator = transport::loopback::make_communicator(group, rank, wait);
    std::vector<float> roots(static_cast<size_t>(bytes / 4), 1.0f), result(roots.size());
    if (!communicator->barrier(device::Stream::host()).has_value()) return;
    const TimePoint begin = clock.now();
    for (int i = 0; i < rounds; ++i) {
      if (!communicator->all_reduce(sum, roots, result, device::Stream::host()).has_value()) return;
    }
    if (rank == 0) seconds = to_seconds(clock.now() - begin);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return seconds;
}

/// Two ranks as threads; "us" is one all-reduce. Beside MPI's: collective_benchmark.
void all_reduce(benchmark::State& state) {
  const int rounds = runs_once() ? 2 : 2000;
  const Mapping probe = filled(probe_bytes(), DType::kFloat32);
  PairedRatio ratio;
  double seconds = 0;
  for (auto _ : state) {
    const double limit = read_limit(probe);
    seconds = all_reduce_seconds(state.range(0), rounds) / rounds;
    state.SetIterationTime(seconds);
    ratio.add(3.0 * static_cast<double>(state.range(0)) / seconds / limit);  // both sources read, the result written
  }
  ratio.report(state);
  state.counters["us"] = seconds * 1e6;
}

void add(const std::string& name, const std::function<void(benchmark::State&)>& run) {
  benchmark::RegisterBenchmark(name.c_str(), run)->UseManualTime()->Iterations(iterations(kIterations));
}

}  // namespace

/// Adds everything above; main calls it.
void register_row_benchmarks() {
  for (const RowKernel& kernel : kRowKernels) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
      for (const int64_t rows : {few_rows(), many_rows()}) {
        add(std::string(kernel.name) + "/bits:" + (dtype == DType::kBFloat16 ? "16" : "32") +
                "/rows:" + std::to_string(rows),
            [=](benchmark::State& state) { row_kernel(state, kernel, dtype, rows); });
      }
    }
  }
  add("convert/16to32", [](benchmark::State& state) { convert(state, DType::kBFloat16, DType::kFloat32); });
  add("convert/32to16", [](benchmark::State& state) { convert(state, DType::kFloat32, DType::kBFloat16); });
  add("softmax_tile", softmax);
  add("pack", packing);
  add("arrange_row", arranging);
  add("route", routing);
  add("choose/greedy", [](benchmark::State& state) { drawing(state, {}); });
  add("choose/top_k_50", [](benchmark::State& state) { drawing(state, {.do_sample = true, .top_k = 50}); });
  add("choose/top_p_0.9", [](benchmark::State& state) { drawing(state, {.do_sample = true, .top_p = 0.9f}); });
  for (const int64_t kib : {4, 8, 16, 64, 256}) {
    benchmark::RegisterBenchmark("all_reduce", all_reduce)
        ->ArgName("bytes")
        ->Arg(kib << 10)
        ->UseManualTime()
        ->Iterations(iterations(kIterations));
  }
}

}  // namespace lockstep::cpu

int main(int argc, char** argv) {
  if (lockstep::cpu::best_isa() < lockstep::cpu::Isa::kAvx512Bf16) return 77;  // its probes are for such machines
  lockstep::cpu::register_row_benchmarks();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
