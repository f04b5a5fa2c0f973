#include "runtime/backends/cpu/linear_int8.h"

#include <algorithm>

namespace lockstep::cpu {
namespace {

/// Steps of a panel (of 256 bytes each at most) whose weights stay in a core's second-level cache with the rows.
constexpr int64_t kSlabSteps = 512;
constexpr int64_t kTileFloats8 = kInt8TileRows * kPanel;

int64_t tile_count(int64_t rows) { return (rows + kInt8TileRows - 1) / kInt8TileRows; }

/// Rows pass in tiles of equal size, one more or less.
Range rows_of(int64_t rows, int64_t tile) {
  if (rows <= kInt8TileRows) return {0, rows};
  const int64_t tiles = tile_count(rows);
  return {rows * tile / tiles, rows * (tile + 1) / tiles};
}

/// The strips of a worker: whole panels where there are many, so that it reads one stream; else single strips.
Strips share_of_int8(const Int8Packing& packing, Part part) {
  const bool whole = packing.panels() >= 8 * part.workers;
  const Share share = share_of(whole ? packing.panels() : packing.strips(), part);
  const int64_t unit = whole ? kPanelStrips : 1;
  return {share.begin * unit, std::min(share.end * unit, packing.strips())};
}

}  // namespace

Int8LinearTask::Int8LinearTask(const Kernels& kernels, Int8Weight weight, Tensor x, Tensor result)
    : kernels_(&kernels), int8_(&int8_kernels_for(kernels.isa)), weight_(weight), x_(x), result_(result) {}

Int8LinearTask Int8LinearTask::plain(const Kernels& kernels, Int8Weight weight, Tensor x, Tensor result) {
  Int8LinearTask task(kernels, weight, x, result);
  task.add_leaf({0, weight.packing.groups.count()}, 0);
  task.segments_.back().root = 0;
  task.cut_into_slabs();
  return task;
}

Int8LinearTask Int8LinearTask::blocks(const Kernels& kernels, Int8Weight weight, const BlockSplit& split, int rank,
                                      Tensor x, Tensor result) {
  Int8LinearTask task(kernels, weight, x, result);
  const Int8Groups& groups = weight.packing.groups;
  for (const TreeLeaf& leaf : leaves_of(split, rank)) {
    const int64_t own = leaf.number - split.range_of(rank).begin;
    task.add_leaf({own * groups.per_leaf(), std::min((own + 1) * groups.per_leaf(), groups.count())}, leaf.level);
    task.segments_.back().merges = leaf.merges;
    task.segments_.back().root = leaf.root;
  }
  task.cut_into_slabs();
  return task;
}

void Int8LinearTask::add_leaf(Range groups, int level) {
  const int64_t at_once = std::max<int64_t>(1, kSlabSteps * kInt8Columns / weight_.packing.groups.width);
  bool opens = true;
  do {
    const int64_t count = std::min(groups.size(), at_once);
    segments_.push_back({.begin = groups.begin, .steps = count, .level = level, .opens = opens});
    groups.begin += count;
    opens = false;
  } while (groups.size() > 0);
  levels_ = std::max(levels_, level + 1);
}

void Int8LinearTask::cut_into_slabs() {
  const Int8Packing& packing = weight_.packing;
  slabs_ = {0};
  int64_t first = 0;  // step of the slab
  for (size_t i = 0; i < segments_.size(); ++i) {
    const int64_t end = packing.steps_before(segments_[i].begin + segments_[i].steps);
    if (end - first > kSlabSteps && slabs_.back() < static_cast<int64_t>(i)) {
      slabs_.push_back(static_cast<int64_t>(i));
      first = packing.steps_before(segments_[i].begin);
    }
  }
  slabs_.push_back(static_cast<int64_t>(segments_.size()));
}

int64_t Int8LinearTask::private_bytes() const {
  return levels_ * tile_count(x_.rows) * kTileFloats8 * static_cast<int64_t>(sizeof(float));
}

void Int8LinearTask::arrange(std::byte* arranged, Part part) const {
  // Stretches of a row, so that a single row has work for all; each has whole lines of the caches to itself.
  constexpr int64_t kGroupsAtOnce = 16;
  const Int8Packing& packing = weight_.packing;
  const int64_t groups = packing.groups.count();
  const int64_t stretches = (groups + kGroupsAtOnce - 1) / kGroupsAtOnce;
  const Share share = share_of(x_.used_rows() * stretches, part);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t row = i / stretches, first = i % stretches * kGroupsAtOnce;
    arrange_int8(*kernels_, packing, x_.const_row(row), {first, std::min(first + kGroupsAtOnce, groups)},
                 arranged + row * packing.arranged_bytes());
  }
}

void Int8LinearTask::run(const std::byte* arranged, std::byte* private_scratch, Part part) const {
  if (segments_.empty()) return;
  for_panels(share_of_int8(weight_.packing, part), [&](int64_t panel, Strips strips) {
    run_panel(panel, strips, arranged, reinterpret_cast<float*>(private_scratch));
  });
}

void Int8LinearTask::run_panel(int64_t panel, Strips strips, const std::byte* arranged, float* sums) const {
  const Int8Packing& packing = weight_.packing;
  const int64_t rows = x_.used_rows();
  Int8Product product;
  product.weights = weight_.data + packing.panel_offset(panel) + strips.begin * kInt8StripStep;
  product.step_stride = packing.step_stride(panel);
  product.x_stride = packing.arranged_bytes();
  product.group_steps = packing.groups.width / kInt8Columns;
  product.sums_stride = kPanel;
  product.strips = static_cast<int>(strips.size());
  const int64_t column = panel * kPanel + strips.begin * kStrip;
  for (size_t slab = 0; slab + 1 < slabs_.size(); ++slab) {
    for (int64_t tile = 0; tile < tile_count(rows); ++tile) {
      const Range of = rows_of(rows, tile);
      product.rows = static_cast<int>(of.size());
      product.x = arranged + of.begin * product.x_stride;
      float* stack = sums + tile * levels_ * kTileFloats8;
      for (int64_t s = slabs_[slab]; s < slabs_[slab + 1]; ++s) {
        run_segment(segments_[s], product, stack, of.begin, column);
      }
    }
  }
}

void Int8LinearTask::run_segment(const Segment& segment, Int8Product product, float* stack, int64_t row,
                                 int64_t column) const {
  const Int8Packing& packing = weight_.packing;
  const int64_t first_step = packing.steps_before(segment.begin);
  float* top = stack + segment.level * kTileFloats8;
  product.weights += (first_step + segment.begin) * product.step_stride;
  product.x_scales = reinterpret_cast<const float*>(product.x + packing.scales_offset()) + segment.begin;
  product.x_offsets = reinterpret_cast<const int32_t*>(product.x + packing.offsets_offset()) + segment.begin;
  product.x += first_step * kInt8Columns;
  product.groups = segment.steps;
  product.last_steps = segment.steps > 0 ? packing.steps_of(segment.begin + segment.steps - 1) : 0;
  product.sums = top;
  product.opens = segment.opens;
  if (segment.merges > 0) product.left = top - kTileFloats8;  // the first merge happens in registers
  int8_->product(product);
  for (int i = 0; i < segment.merges; ++i) {
    if (i > 0) kernels_->add_floats(top - kTileFloats8, top, product.rows * kPanel);
    top -= kTileFloats8;
  }
  if (segment.root < 0) return;
  const int64_t columns = std::min<int64_t>(product.strips * kStrip, packing.n - column);
  kernels_->finish_tile({.sums = top,
                         .rows = product.rows,
                         .columns = static_cast<int>(columns),
                         .bias = bias_ != nullptr ? bias_ + column * static_cast<int64_t>(size_of(bias_type_)) : nullptr,
                         .bias_type = bias_type_,
                         .dst = result_.at(row, column) + segment.root * result_.plane_stride(),
                         .dst_stride = result_.stride,
                         .dst_type = result_.dtype});
}

}  // namespace lockstep::cpu
