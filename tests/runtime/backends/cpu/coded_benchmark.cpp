// Products with weights in codes, beside the machine's limits (docs/benchmarks.md).
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/backends/cpu/experts.h"
#include "runtime/backends/cpu/linear_coded.h"
#include "tests/runtime/backends/cpu/benchmark_limits.h"

namespace lockstep::cpu {
namespace {

/// A format, and what it is multiplied with.
struct Kind {
  const char* format;
  DotKind dots;
};
constexpr Kind kKinds[] = {
    {"q4g32.f16", DotKind::kDigits},    {"q4g32.f16", DotKind::kBytes},      {"q4g128z.f16", DotKind::kDigits},
    {"e2m1g32.e8m0", DotKind::kDigits}, {"q8g64", DotKind::kBytes},          {"q8g128", DotKind::kBytes},
    {"q8g32.f16", DotKind::kDigits},    {"e4m3g128.bf16", DotKind::kFloats}, {"q4g32m.f16", DotKind::kDigits}};

/// Memory of packed codes: one panel of random ones, again and again.
Mapping filled_with_codes(const CodedPacking& packing) {
  std::minstd_rand random(1);
  const auto codes_of_panel = static_cast<size_t>(kPanel * packing.groups.columns);
  const auto groups_of_panel = static_cast<size_t>(kPanel * packing.groups.count());
  std::vector<uint8_t> codes(codes_of_panel);
  for (uint8_t& code : codes) code = static_cast<uint8_t>(random() % (packing.format.bits == 4 ? 16 : 126));
  std::vector<float> scales(groups_of_panel, 1.0f / 64.0f), offsets(groups_of_panel, 1.0f);
  Mapping mapping =
      Mapping::create(std::max<int64_t>(packing.bytes(), int64_t{2} << 20), Pages::kHuge, "a benchmark").value();
  for (int64_t panel = 0; panel < packing.panels() * packing.parts; ++panel) {
    pack_coded_panel(packing, panel, {codes, scales, offsets}, mapping.data());
    if (panel != 0 || packing.n % kPanel != 0 || packing.parts != 1) continue;
    const int64_t bytes = packing.panel_offset(1);
    for (int64_t at = bytes; at < packing.bytes(); at += bytes) {
      std::memcpy(mapping.data() + at, mapping.data(), static_cast<size_t>(bytes));
    }
    break;
  }
  return mapping;
}

/// A product of bfloat16 rows, plain or in leaves of `block` columns.
struct CodedBench {
  const Kernels& kernels = kernels_for(best_isa());
  CodedPacking packing;
  Mapping weights, x, result, arranged, scratch;
  std::unique_ptr<CodedLinearTask> task;

  CodedBench(const Kind& kind, int64_t rows, int64_t n, int64_t k, int64_t block)
      : packing{.n = n, .format = *weight_format_from_text(kind.format), .dots = kind.dots} {
    packing.groups = {.columns = k, .leaf = block > 0 ? block : k, .width = packing.format.group};
    weights = filled_with_codes(packing);
    const DType dtype = DType::kBFloat16;
    x = filled(rows * k * 4, dtype);
    result = filled(rows * n * 4, DType::kFloat32);
    const Tensor from = tensor_over(x, dtype, rows, k), to = tensor_over(result, DType::kFloat32, rows, n);
    const CodedWeight weight{packing, weights.data()};
    const BlockSplit split{{0, block > 0 ? (k + block - 1) / block : 1}};
    task = std::make_unique<CodedLinearTask>(block > 0 ? CodedLinearTask::blocks(kernels, weight, split, 0, from, to)
                                                       : CodedLinearTask::plain(kernels, weight, from, to));
    arranged = filled(task->arranged_bytes(), DType::kFloat32);
    scratch = filled(task->private_bytes(), DType::kFloat32);
  }

  void run() {
    if (task->arrange) task->arrange_rows(arranged.data(), {0, 1});
    task->run(arranged.data(), scratch.data(), task->share({0, 1}));
  }
};

void set_label(benchmark::State& state, const Kind& kind) {
  state.SetLabel(std::string(kind.format) + (kind.dots == DotKind::kBytes ? " · int8" : ""));
}

/// Arguments: kind, rows, n, k, block (0: plain).
void matvec_coded(benchmark::State& state) {
  const Kind& kind = kKinds[state.range(0)];
  CodedBench bench(kind, state.range(1), state.range(2), state.range(3), state.range(4));
  const int calls = state.range(2) <= 1024 ? 100 : 1;  // small weights stay in the second-level cache
  run_beside_reads(
      state, static_cast<double>(bench.packing.bytes()), [&] { bench.run(); }, calls);
  set_label(state, kind);
}
BENCHMARK(matvec_coded)
    ->ArgNames({"kind", "rows", "n", "k", "block"})
    ->Args({0, 1, 256, 2048, 0})
    ->Args({1, 1, 256, 2048, 0})
    ->Args({0, 1, 65536, 2048, 0})
    ->Args({0, 1, 16384, 8192, 256})
    ->Args({0, 2, 65536, 2048, 0})
    ->Args({0, 4, 65536, 2048, 0})
    ->Args({0, 8, 65536, 2048, 0})
    ->Args({1, 1, 65536, 2048, 0})
    ->Args({1, 2, 65536, 2048, 0})
    ->Args({1, 8, 65536, 2048, 0})
    ->Args({2, 1, 65536, 2048, 0})
    ->Args({3, 1, 65536, 2048, 0})
    ->Args({4, 1, 65536, 2048, 0})
    ->Args({4, 1, 65536, 2048, 64})
    ->Args({4, 4, 65536, 2048, 0})
    ->Args({4, 8, 65536, 2048, 0})
    ->Args({5, 1, 16384, 8192, 128})
    ->Args({6, 1, 65536, 2048, 0})
    ->Args({7, 1, 65536, 2048, 0})
    ->Args({8, 1, 65536, 2048, 0})
    ->UseManualTime()
    ->Iterations(iterations(9));

/// The ratio is to the peak of dots of pairs; of bytes, to twice that.
void gemm_coded(benchmark::State& state) {
  const Kind& kind = kKinds[state.range(0)];
  CodedBench bench(kind, state.range(1), state.range(2), state.range(3), state.range(4));
  const double flops = 2.0 * static_cast<double>(state.range(1) * state.range(2) * state.range(3));
  const double times = kind.dots == DotKind::kBytes ? 2.0 : 1.0;
  const bool pairs = bench.kernels.bf16_pairs;
  run_beside_peak(
      state, [=] { return times * register_peak(pairs); }, flops, [&] { bench.run(); });
  set_label(state, kind);
}
BENCHMARK(gemm_coded)
    ->ArgNames({"kind", "rows", "n", "k", "block"})
    ->Args({0, 256, 2048, 2048, 0})
    ->Args({0, 512, 4096, 2048, 0})
    ->Args({0, 256, 2048, 8192, 256})
    ->Args({1, 256, 2048, 2048, 0})
    ->Args({2, 256, 2048, 2048, 0})
    ->Args({3, 256, 2048, 2048, 0})
    ->Args({4, 256, 2048, 2048, 0})
    ->Args({4, 256, 2048, 2048, 64})
    ->Args({5, 256, 2048, 8192, 128})
    ->Args({7, 256, 2048, 2048, 0})
    ->Args({8, 256, 2048, 2048, 0})
    ->UseManualTime()
    ->Iterations(iterations(9));

/// A layer of experts in MXFP4 [2880 → 2880 → 2880], of which each row chooses some; as one sum or in leaves.
struct CodedExpertBench {
  static constexpr int64_t kHidden = 2880;
  const Kernels& kernels = kernels_for(best_isa());
  CodedPacking inner, outer;
  Mapping gate, up, down, x, route, result, shared, scratch;
  std::unique_ptr<ExpertTask> task;

  CodedExpertBench(int64_t rows, int64_t experts, int64_t chosen, int64_t block) {
    inner = {
        .n = kHidden, .format = *weight_format_from_text("e2m1g32.e8m0"), .dots = DotKind::kDigits, .parts = experts};
    outer = inner;
    inner.groups = {.columns = kHidden, .leaf = kHidden, .width = 32};
    outer.groups = {.columns = kHidden, .leaf = block, .width = 32};
    gate = filled_with_codes(inner);
    up = filled_with_codes(inner);
    down = filled_with_codes(outer);
    const DType dtype = DType::kBFloat16;
    x = filled(rows * kHidden * 4, dtype);
    route = filled(rows * experts * 4, DType::kFloat32);
    result = filled(rows * kHidden * 4, DType::kFloat32);
    ExpertOperands operands{.x = tensor_over(x, dtype, rows, kHidden),
                            .route = tensor_over(route, DType::kFloat32, rows, experts),
                            .gate = CodedWeight{inner, gate.data()},
                            .up = CodedWeight{inner, up.data()},
                            .down = CodedWeight{outer, down.data()},
                            .most_per_row = chosen,
                            .activation = {},
                            .result = tensor_over(result, DType::kFloat32, rows, kHidden)};
    for (int64_t row = 0; row < rows; ++row) {
      auto* routes = reinterpret_cast<float*>(operands.route.at(row));
      std::vector<float> logits(routes, routes + experts);
      kernels.route(logits.data(), routes, experts, {.chosen = chosen});
    }
    const BlockSplit split{{0, kHidden / block}};
    task = std::make_unique<ExpertTask>(kernels, operands, ExpertLeaf::blocks(operands.down, split, 0, block));
    shared = filled(task->shared_bytes(), DType::kFloat32);
    scratch = filled(task->private_bytes(), DType::kFloat32);
  }

  void run() {
    task->group(shared.data());
    task->gather(shared.data(), {0, 1});
    task->run_inner(shared.data(), scratch.data(), {0, 1});
    if (task->arranges_inner()) task->arrange_inner(shared.data(), {0, 1});
    task->run_down(shared.data(), scratch.data(), {0, 1});
  }
  double bytes_of_one() const { return static_cast<double>(2 * inner.bytes_of_part() + outer.bytes_of_part()); }
};

/// Arguments: rows, experts, chosen, columns of a leaf. Beside the read bandwidth; more rows choose all experts.
void decode_coded_experts(benchmark::State& state) {
  CodedExpertBench bench(state.range(0), state.range(1), state.range(2), state.range(3));
  const double read = state.range(0) == 1 ? state.range(2) : state.range(1);
  run_beside_reads(state, read * bench.bytes_of_one(), [&] { bench.run(); });
}
BENCHMARK(decode_coded_experts)
    ->ArgNames({"rows", "experts", "chosen", "block"})
    ->Args({1, 16, 4, 2880})
    ->Args({1, 16, 4, 96})
    ->Args({64, 16, 4, 96})
    ->UseManualTime()
    ->Iterations(iterations(9));

}  // namespace
}  // namespace lockstep::cpu
