// Benchmarks of the kernels relative to the machine's limits. Each measurement alternates with a probe of the limit
// (memory read, dot-product peak), because a shared machine's limits drift: "ratio" is the median of the paired ratios,
// "low" and "high" are their quartiles.
//
//   cpu_benchmark [--benchmark_filter=…]          products and attention here, everything else in row_benchmark.cpp
#include <benchmark/benchmark.h>

#include <vector>

#include "runtime/backends/cpu/attention.h"
#include "runtime/backends/cpu/experts.h"
#include "runtime/backends/cpu/linear.h"
#include "runtime/backends/cpu/memory.h"
#include "tests/runtime/backends/cpu/benchmark_limits.h"

namespace lockstep::cpu {
namespace {

/// Operations per second of `product` on 6 rows and one panel that lie in the first-level cache.
double dot_limit(ProductFunction product, bool pairs) {
  constexpr int64_t kSteps = 32;
  std::vector<std::byte> weights(kSteps * 256), x(kTileRows * kSteps * 4);
  std::vector<float> sums(kTileRows * kPanel);
  Product tile;
  tile.weights = weights.data();
  tile.weight_stride = 256;
  tile.x = x.data();
  tile.x_stride = kSteps * 4;
  tile.steps = kSteps;
  tile.sums = sums.data();
  tile.sums_stride = kPanel;
  tile.rows = kTileRows;
  tile.strips = 4;
  const int repeats = runs_once() ? 1 : 4000;
  const double seconds = seconds_of([&] {
    for (int i = 0; i < repeats; ++i) product(tile);
  });
  return 2.0 * kTileRows * kPanel * kSteps * (pairs ? 2 : 1) * repeats / seconds;
}

/// A product [rows, k] · [n, k]ᵀ, plain or in leaves of `block` columns.
struct Bench {
  Kernels kernels = kernels_for(best_isa());
  Mapping weights, x, result, arranged, scratch;
  LinearTask task;

  Bench(DType dtype, int64_t rows, int64_t n, int64_t k, int64_t block) {
    const bool pairs = kernels.bf16_pairs && dtype == DType::kBFloat16;
    const Packing packing = Packing::for_leaves(n, k, block > 0 ? block : k, dtype, pairs);
    weights = filled(packing.bytes(), dtype);
    x = filled(rows * k * 4, dtype);
    result = filled(rows * n * 4, DType::kFloat32);
    LinearPlan plan = block > 0 ? LinearPlan::blocks(packing, BlockSplit{{0, (k + block - 1) / block}}, 0, block)
                                : LinearPlan::plain(packing);
    task = LinearTask::make(kernels, {packing, weights.data()}, plan, tensor_over(x, dtype, rows, k),
                            tensor_over(result, block > 0 ? DType::kFloat32 : dtype, rows, n));
    arranged = filled(task.arranged_bytes() + 64, DType::kFloat32);
    scratch = filled(task.private_bytes(), DType::kFloat32);
  }

  void run() {
    if (task.arrange) task.arrange_rows(arranged.data(), {0, 1});
    task.run(arranged.data(), scratch.data(), task.share({0, 1}));
  }
};

DType dtype_of(int64_t bits) { return bits == 16 ? DType::kBFloat16 : DType::kFloat32; }

/// Arguments: bits, rows, n, k, block (0: plain).
void matvec(benchmark::State& state) {
  Bench bench(dtype_of(state.range(0)), state.range(1), state.range(2), state.range(3), state.range(4));
  run_beside_reads(state, static_cast<double>(bench.task.weight.packing.bytes()), [&] { bench.run(); });
}
BENCHMARK(matvec)
    ->ArgNames({"bits", "rows", "n", "k", "block"})
    ->Args({16, 1, 32768, 2048, 0})
    ->Args({16, 1, 8192, 8192, 256})
    ->Args({16, 4, 32768, 2048, 0})
    ->Args({16, 5, 32768, 2048, 0})
    ->Args({16, 6, 32768, 2048, 0})
    ->Args({16, 7, 32768, 2048, 0})
    ->Args({16, 8, 32768, 2048, 0})
    ->Args({16, 12, 32768, 2048, 0})
    ->Args({16, 16, 32768, 2048, 0})
    ->Args({16, 32, 32768, 2048, 0})
    ->Args({16, 1, 3072, 576, 0})
    ->Args({16, 1, 576, 1536, 16})
    ->Args({32, 1, 16384, 2048, 0})
    ->UseManualTime()
    ->Iterations(iterations(15));

void gemm(benchmark::State& state) {
  const bool pairs = state.range(0) == 16 && kernels_for(best_isa()).bf16_pairs;
  Bench bench(dtype_of(state.range(0)), state.range(1), state.range(2), state.range(3), state.range(4));
  const double flops = 2.0 * static_cast<double>(state.range(1) * state.range(2) * state.range(3));
  run_beside_peak(
      state, [&] { return register_peak(pairs); }, flops, [&] { bench.run(); });
  state.counters["tile"] = dot_limit(bench.task.product, pairs) * 1e-9;
}
BENCHMARK(gemm)
    ->ArgNames({"bits", "rows", "n", "k", "block"})
    ->Args({16, 256, 2048, 2048, 0})
    ->Args({16, 256, 2048, 8192, 0})
    ->Args({16, 256, 2048, 8192, 256})
    ->Args({16, 256, 2048, 2048, 64})
    ->Args({16, 256, 576, 1536, 32})
    ->Args({16, 512, 4096, 2048, 0})
    ->Args({16, 512, 2048, 8192, 256})
    ->Args({32, 256, 2048, 2048, 0})
    ->Args({16, 12, 32768, 2048, 0})
    ->Args({16, 16, 32768, 2048, 0})
    ->Args({16, 32, 32768, 2048, 0})
    ->Args({16, 32, 8192, 8192, 256})
    ->Args({16, 32, 8192, 2048, 64})
    ->UseManualTime()
    ->Iterations(iterations(15));

/// A layer of experts [2048 → columns → 2048], of which each row chooses some, in leaves of 128 columns.
struct ExpertBench {
  static constexpr int64_t kHidden = 2048, kBlock = 128;
  struct Load {
    int64_t rows, columns, experts, chosen;
  };
  const Kernels& kernels = kernels_for(best_isa());
  Load load;
  Mapping gate, up, down, x, route, result, shared, scratch;
  std::unique_ptr<ExpertTask> task;

  explicit ExpertBench(const Load& l) : load(l) {
    const auto [rows, columns, experts, chosen] = load;
    Packing inner = Packing::for_leaves(columns, kHidden, kHidden, DType::kBFloat16, kernels.bf16_pairs);
    Packing outer = Packing::for_leaves(kHidden, columns, kBlock, DType::kBFloat16, kernels.bf16_pairs);
    inner.parts = outer.parts = experts;
    gate = filled(inner.bytes(), DType::kBFloat16);
    up = filled(inner.bytes(), DType::kBFloat16);
    down = filled(outer.bytes(), DType::kBFloat16);
    x = filled(rows * kHidden * 2, DType::kBFloat16);
    route = filled(rows * experts * 4, DType::kFloat32);
    result = filled(rows * kHidden * 4, DType::kFloat32);
    ExpertOperands operands{.x = tensor_over(x, DType::kBFloat16, rows, kHidden),
                            .route = tensor_over(route, DType::kFloat32, rows, experts),
                            .gate = PackedWeight{inner, gate.data()},
                            .up = PackedWeight{inner, up.data()},
                            .down = PackedWeight{outer, down.data()},
                            .most_per_row = chosen,
                            .activation = {},
                            .result = tensor_over(result, DType::kFloat32, rows, kHidden)};
    for (int64_t row = 0; row < rows; ++row) {
      auto* routes = reinterpret_cast<float*>(operands.route.at(row));
      std::vector<float> logits(routes, routes + experts);
      kernels.route(logits.data(), routes, experts, {.chosen = chosen});
    }
    const BlockSplit split{{0, (columns + kBlock - 1) / kBlock}};
    task = std::make_unique<ExpertTask>(kernels, operands, ExpertLeaf::blocks(operands.down, split, 0, kBlock));
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
  double weights_of_one() const { return 3.0 * 2.0 * static_cast<double>(kHidden * load.columns); }
};

/// Arguments: columns, experts, chosen; one row. Beside the read bandwidth.
void decode_experts(benchmark::State& state) {
  ExpertBench bench({1, state.range(0), state.range(1), state.range(2)});
  const double bytes = static_cast<double>(bench.load.chosen) * bench.weights_of_one();
  run_beside_reads(state, bytes, [&] { bench.run(); });
}
BENCHMARK(decode_experts)
    ->ArgNames({"columns", "experts", "chosen"})
    ->Args({8192, 4, 2})
    ->Args({2048, 16, 4})
    ->UseManualTime()
    ->Iterations(iterations(15));

/// Arguments: columns, experts, chosen; 256 rows. Beside the multiply-add peak.
void prefill_experts(benchmark::State& state) {
  ExpertBench bench({256, state.range(0), state.range(1), state.range(2)});
  const double flops = static_cast<double>(bench.load.rows * bench.load.chosen) * bench.weights_of_one();
  run_beside_peak(
      state, [&] { return register_peak(bench.kernels.bf16_pairs); }, flops, [&] { bench.run(); });
}
BENCHMARK(prefill_experts)
    ->ArgNames({"columns", "experts", "chosen"})
    ->Args({8192, 4, 2})
    ->Args({2048, 16, 4})
    ->UseManualTime()
    ->Iterations(iterations(9));

/// Arguments: rows (the last positions of the context), context, head_dim, query heads per cache head, bits of a key.
void attention(benchmark::State& state) {
  const int64_t rows = state.range(0), context = state.range(1), head_dim = state.range(2), group = state.range(3);
  const bool is_coded = state.range(4) == 8;
  const Kernels& kernels = kernels_for(best_isa());
  constexpr int64_t kHeads = 8;
  CacheLayout keys{.role = CacheRole::kKeys,
                   .dtype = is_coded ? DType::kInt8 : DType::kBFloat16,
                   .pairs = kernels.bf16_pairs && !is_coded,
                   .slots = 1,
                   .heads = kHeads,
                   .capacity = context,
                   .head_dim = head_dim};
  CacheLayout values = keys;
  values.role = CacheRole::kValues;
  keys.tile_stride = values.tile_stride = kHeads * (keys.tile_bytes() + values.tile_bytes());
  const Mapping cache = filled(keys.tiles() * keys.tile_stride, DType::kBFloat16);
  keys.base = cache.data();
  values.base = cache.data() + kHeads * keys.tile_bytes();
  for (int64_t tile = 0; is_coded && tile < keys.tiles(); ++tile) {
    for (int64_t head = 0; head < kHeads; ++head) {
      for (const CacheLayout& of : {keys, values}) {  // codes up to 1 in magnitude
        auto* const scales = reinterpret_cast<float*>(of.tile(0, tile, head) + kTileTokens * of.padded_dim());
        std::fill_n(scales, kTileTokens, 1.0f / 127.0f);
      }
    }
  }
  std::vector<int64_t> head_map;
  for (int64_t head = 0; head < kHeads * group; ++head) head_map.push_back(head / group);
  std::vector<int32_t> slot(rows, 0), position;
  for (int64_t row = 0; row < rows; ++row) position.push_back(static_cast<int32_t>(context - rows + row));
  const int64_t columns = kHeads * group * head_dim;
  const Mapping q = filled(rows * columns * 2, DType::kBFloat16);
  const Mapping result = filled(rows * columns * 2, DType::kBFloat16);
  AttentionTask task = AttentionTask::make(kernels, keys, values, head_map);
  task.block_for_prefill(rows);
  task.q = tensor_over(q, DType::kBFloat16, rows, columns);
  task.result = tensor_over(result, DType::kBFloat16, rows, columns);
  task.slot = slot.data();
  task.position = position.data();
  task.rule.scale = 0.125f;
  const Mapping scratch = filled(task.private_bytes(), DType::kFloat32);
  const double pairs_of_rows = static_cast<double>(rows) * (context - rows) + 0.5 * rows * (rows + 1);
  const double flops = 4.0 * pairs_of_rows * static_cast<double>(columns);
  run_beside_peak(
      state, [&] { return register_peak(kernels.bf16_pairs); }, flops,
      [&] {
        task.run(scratch.data(), {0, 1});
      });
  const double cache_bytes = static_cast<double>(cache.size());
  state.counters["GB/s"] = cache_bytes / flops * state.counters["GFLOP/s"];  // of keys and values
}
BENCHMARK(attention)
    ->ArgNames({"rows", "context", "head_dim", "group", "bits"})
    ->Args({512, 512, 64, 4, 16})
    ->Args({512, 512, 64, 3, 16})
    ->Args({512, 2048, 64, 3, 16})
    ->Args({512, 2048, 128, 4, 16})
    ->Args({512, 8192, 64, 4, 16})
    ->Args({512, 8192, 64, 4, 8})
    ->Args({1, 8192, 64, 4, 16})
    ->Args({1, 8192, 64, 3, 16})
    ->Args({1, 8192, 128, 4, 16})
    ->Args({1, 32768, 64, 4, 16})
    ->Args({1, 32768, 64, 4, 8})
    ->UseManualTime()
    ->Iterations(iterations(9));

}  // namespace
}  // namespace lockstep::cpu
