#include "runtime/backends/cpu/linear.h"

#include <algorithm>
#include <cstring>

namespace lockstep::cpu {
namespace {

/// Steps of a panel (of 256 bytes each at most) whose weights stay in a core's second-level cache with the rows.
constexpr int64_t kSlabSteps = 512;
constexpr int64_t kTileFloats = kTileRows * kPanel;

int64_t tiles_of(int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

/// Adds the segments of leaf [begin, end) steps, at `level`.
void add_leaf(LinearPlan& plan, int64_t begin, int64_t end, int level) {
  bool opens = true;
  do {
    const int64_t steps = std::min(end - begin, kSlabSteps);
    plan.segments.push_back({.begin = begin, .steps = steps, .level = level, .opens = opens});
    begin += steps;
    opens = false;
  } while (begin < end);
  plan.levels = std::max(plan.levels, level + 1);
}

void cut_into_slabs(LinearPlan& plan) {
  plan.slabs = {0};
  int64_t steps = 0;
  for (size_t i = 0; i < plan.segments.size(); ++i) {
    if (steps > 0 && steps + plan.segments[i].steps > kSlabSteps) {
      plan.slabs.push_back(static_cast<int64_t>(i));
      steps = 0;
    }
    steps += plan.segments[i].steps;
  }
  plan.slabs.push_back(static_cast<int64_t>(plan.segments.size()));
}

}  // namespace

LinearPlan LinearPlan::plain(const Packing& packing) {
  LinearPlan plan;
  add_leaf(plan, 0, packing.steps(), 0);
  plan.segments.back().root = 0;
  cut_into_slabs(plan);
  return plan;
}

LinearPlan LinearPlan::blocks(const Packing& packing, const BlockSplit& split, int rank, int64_t block) {
  LinearPlan plan;
  const int64_t leaf_steps = packing.pairs ? packing.padded_leaf(block) / 2 : block;
  const int64_t first_leaf = split.range_of(rank).begin;
  int root = 0;
  for (const Range& subtree : split.roots_of(rank)) {
    int level = 0;
    for (int64_t leaf = subtree.begin; leaf < subtree.end; ++leaf) {
      const int64_t begin = (leaf - first_leaf) * leaf_steps;
      add_leaf(plan, begin, std::min(begin + leaf_steps, packing.steps()), level);
      // The trailing ones of the leaf's number within its root say how many subtrees it completes.
      const auto number = static_cast<uint64_t>(leaf - subtree.begin);
      int merges = __builtin_ctzll(~number);
      if (leaf + 1 == subtree.end) merges = level;  // the clipped end: everything left is added, right to left
      plan.segments.back().merges = merges;
      level += 1 - merges;
    }
    plan.segments.back().root = root++;
  }
  cut_into_slabs(plan);
  return plan;
}

LinearTask LinearTask::make(const Kernels& kernels, PackedWeight weight, LinearPlan plan, Tensor x, Tensor result) {
  LinearTask task;
  task.kernels = &kernels;
  task.weight = weight;
  task.plan = std::move(plan);
  task.x = x;
  task.result = result;
  const Packing& packing = weight.packing;
  if (packing.pairs) {
    task.product = kernels.product_pairs;
    task.arrange = packing.padded_k() != packing.k;
  } else {
    task.product = packing.dtype == DType::kFloat32    ? kernels.product_f32
                   : packing.dtype == DType::kBFloat16 ? kernels.product_bf16
                                                       : kernels.product_f16;
    task.arrange = x.dtype != DType::kFloat32;
  }
  return task;
}

int64_t LinearTask::arranged_stride() const { return weight.packing.padded_k() * (weight.packing.pairs ? 2 : 4); }

int64_t LinearTask::arranged_bytes() const { return arrange ? x.rows * arranged_stride() : 0; }

int64_t LinearTask::private_bytes() const {
  return tiles_of(x.rows) * plan.levels * kTileFloats * static_cast<int64_t>(sizeof(float));
}

void LinearTask::arrange_rows(std::byte* arranged, Part part) const {
  const Packing& packing = weight.packing;
  const Share share = share_of(x.used_rows(), part);
  for (int64_t row = share.begin; row < share.end; ++row) {
    std::byte* dst = arranged + row * arranged_stride();
    if (!packing.pairs) {
      kernels->convert(x.const_row(row), {dst, DType::kFloat32}, packing.k);
      continue;
    }
    const auto* from = reinterpret_cast<const uint16_t*>(x.at(row));
    auto* to = reinterpret_cast<uint16_t*>(dst);
    for (int64_t c = 0; c < packing.padded_k(); ++c) {
      const int64_t column = packing.column_of(c);
      to[c] = column < 0 ? uint16_t{0} : from[column];
    }
  }
}

void LinearTask::run(const std::byte* arranged, std::byte* private_scratch, Part part) const {
  const Packing& packing = weight.packing;
  if (plan.segments.empty()) return;
  // Whole panels where there are many, so that a worker reads one stream; single strips where there are few.
  const bool whole = packing.panels() >= 8 * part.workers;
  const Share share = share_of(whole ? packing.panels() : packing.strips(), part);
  const int64_t unit = whole ? kPanelStrips : 1;
  const int64_t end = std::min(share.end * unit, packing.strips());
  for (int64_t strip = share.begin * unit; strip < end;) {
    const int64_t panel = strip / kPanelStrips;
    const int64_t last = std::min(end, (panel + 1) * kPanelStrips);
    run_panel(panel, strip % kPanelStrips, last - panel * kPanelStrips, arranged,
              reinterpret_cast<float*>(private_scratch));
    strip = last;
  }
}

void LinearTask::run_panel(int64_t panel, int64_t first_strip, int64_t last_strip, const std::byte* arranged,
                           float* sums) const {
  const Packing& packing = weight.packing;
  const int64_t rows = x.used_rows();
  const int64_t tiles = tiles_of(rows);
  const std::byte* x_data = arrange ? arranged : x.data;
  Product tile;
  tile.weights = weight.data + packing.panel_offset(panel) + first_strip * packing.bytes_per_strip_step();
  tile.weight_stride = packing.step_stride(panel);
  tile.x_stride = arrange ? arranged_stride() : x.stride;
  tile.sums_stride = kPanel;
  tile.strips = static_cast<int>(last_strip - first_strip);
  const int64_t column = panel * kPanel + first_strip * kStrip;
  for (size_t slab = 0; slab + 1 < plan.slabs.size(); ++slab) {
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = rows * t / tiles;
      tile.rows = static_cast<int>(rows * (t + 1) / tiles - row);
      tile.x = x_data + row * tile.x_stride;
      float* stack = sums + t * plan.levels * kTileFloats;
      for (int64_t s = plan.slabs[slab]; s < plan.slabs[slab + 1]; ++s) {
        run_segment(plan.segments[s], tile, stack, row, column);
      }
    }
  }
}

void LinearTask::run_segment(const Segment& segment, Product tile, float* stack, int64_t row, int64_t column) const {
  float* top = stack + segment.level * kTileFloats;
  tile.weights += segment.begin * tile.weight_stride;
  tile.x += segment.begin * 4;  // a float32, or a pair of bfloat16
  tile.steps = segment.steps;
  tile.sums = top;
  tile.opens = segment.opens;
  if (segment.merges > 0) tile.left = top - kTileFloats;  // the first merge happens in registers
  product(tile);
  for (int i = 0; i < segment.merges; ++i) {
    if (i > 0) kernels->add_floats(top - kTileFloats, top, tile.rows * kPanel);
    top -= kTileFloats;
  }
  if (segment.root < 0) return;
  const int64_t columns = std::min<int64_t>(tile.strips * kStrip, weight.packing.n - column);
  const bool has_bias = bias != nullptr;
  kernels->finish_tile({.sums = top,
                        .rows = tile.rows,
                        .columns = static_cast<int>(columns),
                        .bias = has_bias ? bias + column * static_cast<int64_t>(size_of(bias_type)) : nullptr,
                        .bias_type = bias_type,
                        .dst = result.at(row, column) + segment.root * result.plane_stride(),
                        .dst_stride = result.stride,
                        .dst_type = result.dtype});
}

}  // namespace lockstep::cpu
