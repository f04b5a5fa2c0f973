#include "runtime/backends/cpu/linear.h"

#include <algorithm>
#include <cstring>

namespace lockstep::cpu {
namespace {

/// Steps of a panel (of 256 bytes each at most) whose weights stay in a core's second-level cache with the rows.
constexpr int64_t kSlabSteps = 512;
constexpr int64_t kStepOfX = 4;  // bytes: a float32, or a pair of bfloat16

/// Adds the segments of leaf [begin, end) steps, at `level`.
void add_leaf(LinearPlan& plan, Range steps, int level) {
  bool opens = true;
  do {
    const int64_t count = std::min(steps.size(), kSlabSteps);
    plan.segments.push_back({.begin = steps.begin, .steps = count, .level = level, .opens = opens});
    steps.begin += count;
    opens = false;
  } while (steps.size() > 0);
  plan.levels = std::max(plan.levels, level + 1);
}

void cut_into_slabs(LinearPlan& plan) {
  plan.slabs = {0};
  int64_t steps = 0;
  for (size_t i = 0; i < plan.segments.size(); ++i) {
    const int64_t more = plan.segments[i].steps + plan.segments[i].next_steps;
    if (steps > 0 && steps + more > kSlabSteps) {
      plan.slabs.push_back(static_cast<int64_t>(i));
      steps = 0;
    }
    steps += more;
  }
  plan.slabs.push_back(static_cast<int64_t>(plan.segments.size()));
}

/// Asks for a part of what will be read next: its first reader would wait for memory.
void ask_for(const std::byte* next, Range bytes) {
  constexpr int64_t kLine = 64;
  for (int64_t at = bytes.begin / kLine * kLine; at < bytes.end; at += kLine) __builtin_prefetch(next + at, 0, 2);
}

}  // namespace

int64_t sums_bytes(int64_t rows) { return tiles_of(rows) * kTileFloats * static_cast<int64_t>(sizeof(float)); }

Strips share_of_strips(const Packing& packing, Part part) {
  // Whole panels where there are many, so that a worker reads one stream; single strips where there are few.
  const bool whole = packing.panels() >= 8 * part.workers;
  const Share share = share_of(whole ? packing.panels() : packing.strips(), part);
  const int64_t unit = whole ? kPanelStrips : 1;
  return {share.begin * unit, std::min(share.end * unit, packing.strips())};
}

Product product_of(const Packing& packing, const std::byte* weights, int64_t panel, Strips strips) {
  Product product;
  product.weights = weights + packing.panel_offset(panel) + strips.begin * packing.bytes_per_strip_step();
  product.weight_stride = packing.step_stride(panel);
  product.sums_stride = kPanel;
  product.strips = static_cast<int>(strips.end - strips.begin);
  return product;
}

void sum_rows(ProductFunction function, Product product, Range steps, int64_t rows, float* sums) {
  const int64_t tiles = tiles_of(rows);
  const std::byte* x = product.x + steps.begin * kStepOfX;
  const Product whole = product;
  product.weights += steps.begin * product.weight_stride;
  for (int64_t begin = 0; begin < steps.size(); begin += kSlabSteps) {
    product.steps = std::min(kSlabSteps, steps.size() - begin);
    product.opens = begin == 0;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const Range of = rows_of_tile(rows, tile);
      product.x = x + of.begin * product.x_stride;
      product.rows = static_cast<int>(of.size());
      product.sums = sums + tile * kTileFloats;
      const bool is_routed = whole.routes != nullptr && begin + product.steps == steps.size();
      product.routes = is_routed ? whole.routes + of.begin : nullptr;
      product.places = is_routed ? whole.places + of.begin : nullptr;
      product.left = is_routed ? whole.left : nullptr;
      function(product);
    }
    product.weights += product.steps * product.weight_stride;
    x += product.steps * kStepOfX;
  }
}

std::vector<TreeLeaf> leaves_of(const BlockSplit& split, int rank) {
  std::vector<TreeLeaf> leaves;
  int root = 0;
  for (const Range& subtree : split.roots_of(rank)) {
    int level = 0;
    for (int64_t leaf = subtree.begin; leaf < subtree.end; ++leaf) {
      // The trailing ones of the leaf's number within its root say how many subtrees it completes.
      int merges = __builtin_ctzll(~static_cast<uint64_t>(leaf - subtree.begin));
      if (leaf + 1 == subtree.end) merges = level;  // the clipped end: everything left is added, right to left
      leaves.push_back({.number = leaf, .level = level, .merges = merges});
      level += 1 - merges;
    }
    leaves.back().root = root++;
  }
  return leaves;
}

Range steps_of_leaf(const Packing& packing, int64_t leaf, int64_t block) {
  const int64_t steps = packing.pairs ? packing.padded_leaf(block) / 2 : block;
  return {leaf * steps, std::min((leaf + 1) * steps, packing.steps())};
}

LinearPlan LinearPlan::plain(const Packing& packing) {
  LinearPlan plan;
  add_leaf(plan, {0, packing.steps()}, 0);
  plan.segments.back().root = 0;
  cut_into_slabs(plan);
  return plan;
}

LinearPlan LinearPlan::blocks(const Packing& packing, const BlockSplit& split, int rank, int64_t block) {
  LinearPlan plan;
  for (const TreeLeaf& leaf : leaves_of(split, rank)) {
    add_leaf(plan, steps_of_leaf(packing, leaf.number - split.range_of(rank).begin, block), leaf.level);
    plan.segments.back().merges = leaf.merges;
    plan.segments.back().root = leaf.root;
  }
  cut_into_slabs(plan);
  return plan;
}

LinearPlan LinearPlan::in_pairs() const {
  LinearPlan paired;
  paired.levels = levels;
  for (size_t i = 0; i < segments.size(); ++i) {
    Segment segment = segments[i];
    const Segment next = i + 1 < segments.size() ? segments[i + 1] : Segment{};
    const bool is_left_leaf = segment.opens && segment.merges == 0 && segment.root < 0;
    if (is_left_leaf && next.opens && next.merges > 0 && next.steps > 0 && segment.steps + next.steps <= kSlabSteps) {
      segment.next_steps = next.steps;
      segment.merges = next.merges - 1;
      segment.root = next.root;
      ++i;
    }
    paired.segments.push_back(segment);
  }
  cut_into_slabs(paired);
  return paired;
}

ProductFunction product_for(const Kernels& kernels, const Packing& packing) {
  if (packing.pairs) return kernels.product_pairs;
  if (packing.dtype == DType::kFloat32) return kernels.product_f32;
  return packing.dtype == DType::kBFloat16 ? kernels.product_bf16 : kernels.product_f16;
}

LinearTask LinearTask::make(const Kernels& kernels, PackedWeight weight, LinearPlan plan, Tensor x, Tensor result) {
  LinearTask task;
  task.kernels = &kernels;
  task.weight = weight;
  task.plan = std::move(plan);
  task.paired = kernels.joins_leaves ? task.plan.in_pairs() : task.plan;
  task.x = x;
  task.result = result;
  task.product = product_for(kernels, weight.packing);
  task.arrange = needs_arranging(weight.packing, x.dtype);
  return task;
}

int64_t LinearTask::arranged_bytes() const { return arrange ? x.rows * cpu::arranged_bytes(weight.packing) : 0; }

int64_t LinearTask::private_bytes() const { return plan.levels * sums_bytes(x.rows); }

void LinearTask::arrange_rows(std::byte* arranged, Part part) const {
  const Share share = share_of(x.used_rows(), part);
  for (int64_t row = share.begin; row < share.end; ++row) {
    arrange_row(*kernels, weight.packing, x.const_row(row), arranged + row * cpu::arranged_bytes(weight.packing));
  }
}

void LinearTask::run(const std::byte* arranged, std::byte* private_scratch, Part part) const {
  if (plan.segments.empty()) return;
  const Strips share = share_of_strips(weight.packing, part);
  for_panels(share, [&](int64_t panel, Strips strips) {
    run_panel(panel, strips, arranged, reinterpret_cast<float*>(private_scratch));
  });
}

void LinearTask::run_panel(int64_t panel, Strips strips, const std::byte* arranged, float* sums) const {
  const Packing& packing = weight.packing;
  const int64_t rows = x.used_rows();
  const int64_t tiles = tiles_of(rows);
  const std::byte* x_data = arrange ? arranged : x.data;
  Product tile = product_of(packing, weight.data, panel, strips);
  tile.x_stride = arrange ? cpu::arranged_bytes(packing) : x.stride;
  const int64_t column = panel * kPanel + strips.begin * kStrip;
  const std::byte* weights = tile.weights;
  const LinearPlan& cut = rows > kTileRows ? paired : plan;
  tile.dst_stride = result.stride;
  tile.dst_type = result.dtype;
  for (size_t slab = 0; slab + 1 < cut.slabs.size(); ++slab) {
    const Segment& last = cut.segments[cut.slabs[slab + 1] - 1];
    const int64_t end = last.begin + last.steps + last.next_steps;
    const int64_t bytes = (end - cut.segments[cut.slabs[slab]].begin) * tile.weight_stride;
    for (int64_t t = 0; t < tiles; ++t) {
      // The next slab, or panel, follows in memory.
      if (tiles > 1) ask_for(weights + end * tile.weight_stride, {bytes * t / tiles, bytes * (t + 1) / tiles});
      const Range of = rows_of_tile(rows, t);
      tile.rows = static_cast<int>(of.size());
      const std::byte* x_rows = x_data + of.begin * tile.x_stride;
      float* stack = sums + t * plan.levels * kTileFloats;
      for (int64_t s = cut.slabs[slab]; s < cut.slabs[slab + 1]; ++s) {
        // Field by field: a copy of the whole would wait for what was just stored to it.
        const Segment& segment = cut.segments[s];
        tile.weights = weights + segment.begin * tile.weight_stride;
        tile.x = x_rows + segment.begin * kStepOfX;
        run_segment(segment, tile, stack, of.begin, column);
      }
    }
  }
}

bool LinearTask::rounds_in_product(int64_t column, int strips) const {
  return bias == nullptr && column + strips * kStrip <= weight.packing.n && result.dtype != DType::kFloat16;
}

void LinearTask::run_segment(const Segment& segment, Product& tile, float* stack, int64_t row, int64_t column) const {
  float* top = stack + segment.level * kTileFloats;
  tile.steps = segment.steps;
  tile.next_steps = segment.next_steps;
  tile.sums = top;
  tile.opens = segment.opens;
  tile.left = segment.merges > 0 ? top - kTileFloats : nullptr;
  tile.further = segment.merges - 1;
  const bool is_complete = segment.root >= 0;
  std::byte* const dst = is_complete ? result.at(row, column) + segment.root * result.plane_stride() : nullptr;
  tile.dst = is_complete && rounds_in_product(column, tile.strips) ? dst : nullptr;
  product(tile);
  if (!is_complete || tile.dst != nullptr) return;
  const int64_t columns = std::min<int64_t>(tile.strips * kStrip, weight.packing.n - column);
  const bool has_bias = bias != nullptr;
  kernels->finish_tile({.sums = top - segment.merges * kTileFloats,
                        .rows = tile.rows,
                        .columns = static_cast<int>(columns),
                        .bias = has_bias ? bias + column * static_cast<int64_t>(size_of(bias_type)) : nullptr,
                        .bias_type = bias_type,
                        .dst = dst,
                        .dst_stride = result.stride,
                        .dst_type = result.dtype});
}

}  // namespace lockstep::cpu
