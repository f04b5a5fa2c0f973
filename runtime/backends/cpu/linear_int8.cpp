#include "runtime/backends/cpu/linear_int8.h"

#include <algorithm>

namespace lockstep::cpu {
namespace {

/// Instead of `kSlabSteps`, in the first-level cache, where a unit for tiles is too fast for the second.
constexpr int64_t kTiledSlabSteps = 128;
constexpr int64_t kFewFloats = kInt8TileRows * kPanel;

}  // namespace

Int8LinearTask Int8LinearTask::make(const Kernels& kernels, Int8Weight weight, Tensor x, Tensor result) {
  Int8LinearTask task;
  task.kernels = &kernels;
  task.int8_ = &int8_kernels_for(kernels.isa);
  task.weight = weight;
  task.x = x;
  task.result = result;
  task.arranged_stride_ = weight.packing.arranged_bytes();
  task.scales_offset_ = weight.packing.scales_offset();
  task.offsets_offset_ = weight.packing.offsets_offset();
  return task;
}

Int8LinearTask Int8LinearTask::plain(const Kernels& kernels, Int8Weight weight, Tensor x, Tensor result) {
  Int8LinearTask task = make(kernels, weight, x, result);
  task.plan({{.number = 0, .level = 0, .merges = 0, .root = 0}}, 0);
  return task;
}

Int8LinearTask Int8LinearTask::blocks(const Kernels& kernels, Int8Weight weight, const BlockSplit& split, int rank,
                                      Tensor x, Tensor result) {
  Int8LinearTask task = make(kernels, weight, x, result);
  task.plan(leaves_of(split, rank), split.range_of(rank).begin);
  return task;
}

Int8LinearTask::Stretch Int8LinearTask::stretch_of(Range groups) const {
  const Int8Packing& packing = weight.packing;
  return {.first_step = packing.steps_before(groups.begin),
          .first_group = groups.begin,
          .groups = groups.size(),
          .last_steps = groups.size() > 0 ? packing.steps_of(groups.end - 1) : 0};
}

void Int8LinearTask::plan(const std::vector<TreeLeaf>& leaves, int64_t first) {
  const Int8Groups& cut = weight.packing.groups;
  const int64_t at_once = std::max<int64_t>(1, slab_steps() * kInt8Columns / cut.width);  // groups of a slab
  for (const TreeLeaf& leaf : leaves) {
    const int64_t own = leaf.number - first;
    const Range groups{own * cut.per_leaf(), std::min((own + 1) * cut.per_leaf(), cut.count())};
    Stretch whole = stretch_of(groups);
    leaves_.push_back({whole, leaf.level, leaf.merges, leaf.root});
    const bool is_alike =
        !few_.empty() && few_.back().groups == whole.groups && few_.back().last_steps == whole.last_steps;
    if (is_alike) {
      ++few_.back().leaves;
    } else {
      few_.push_back(whole);
    }
    int64_t begin = groups.begin;
    do {
      const int64_t end = std::min(begin + at_once, groups.end);
      segments_.push_back({.stretch = stretch_of({begin, end}), .level = leaf.level});
      segments_.back().stretch.opens = begin == groups.begin;
      begin = end;
    } while (begin < groups.end);
    segments_.back().merges = leaf.merges;
    segments_.back().root = leaf.root;
    levels_ = std::max(levels_, leaf.level + 1);
  }
  cut_into_slabs();
}

void Int8LinearTask::cut_into_slabs() {
  slabs_ = {0};
  for (size_t i = 1; i < segments_.size(); ++i) {
    const Stretch& last = segments_[i].stretch;
    const int64_t end = weight.packing.steps_before(last.first_group + last.groups);
    if (end - segments_[slabs_.back()].stretch.first_step > slab_steps()) slabs_.push_back(static_cast<int64_t>(i));
  }
  slabs_.push_back(static_cast<int64_t>(segments_.size()));
}

int64_t Int8LinearTask::private_bytes() const {
  const int64_t for_few = static_cast<int64_t>(leaves_.size());
  const int64_t for_many = x.rows > kInt8TileRows ? levels_ * tile_count(x.rows) : 0;
  return std::max(for_few * kFewFloats, for_many * tile_floats()) * static_cast<int64_t>(sizeof(float));
}

void Int8LinearTask::arrange_rows(std::byte* arranged, Part part) const {
  // Stretches of a row, so that a single row has work for all; each has whole lines of the caches to itself.
  constexpr int64_t kGroupsAtOnce = 16;
  const Int8Packing& packing = weight.packing;
  const int64_t groups = packing.groups.count();
  const int64_t stretches = (groups + kGroupsAtOnce - 1) / kGroupsAtOnce;
  const Share share = share_of(x.used_rows() * stretches, part);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t row = i / stretches, first = i % stretches * kGroupsAtOnce;
    arrange_int8(*kernels, packing, x.const_row(row), {first, std::min(first + kGroupsAtOnce, groups)},
                 arranged + row * arranged_stride());
  }
}

void Int8LinearTask::arrange_made(ConstRow row, std::byte* to) const {
  arrange_int8(*kernels, weight.packing, row, {0, weight.packing.groups.count()}, to);
}

std::span<const std::byte> Int8LinearTask::first_weights(Part part) const {
  const Int8Packing& packing = weight.packing;
  return first_of_share(share(part), {weight.data, static_cast<size_t>(packing.bytes())}, packing.panel_offset(1));
}

void Int8LinearTask::run(const std::byte* arranged, std::byte* private_scratch, Strips strips) const {
  if (leaves_.empty()) return;
  const bool has_few = x.used_rows() <= kInt8TileRows;
  auto* const sums = reinterpret_cast<float*>(private_scratch);
  for_halves(weight.packing.strips(), has_halves, strips, [&](Strips of_half) {
    for_panels(of_half, [&](int64_t panel, Strips of_panel) {
      has_few ? run_few(panel, of_panel, arranged, sums) : run_many(panel, of_panel, arranged, sums);
    });
  });
}

Int8Product Int8LinearTask::product_of(int64_t panel, Strips strips) const {
  const Int8Packing& packing = weight.packing;
  Int8Product product;
  product.weights = weight.data + packing.panel_offset(panel) + strips.begin * kInt8StripStep;
  product.step_stride = packing.step_stride(panel);
  product.x_stride = arranged_stride();
  product.group_steps = packing.groups.width / kInt8Columns;
  product.sums_stride = kPanel;
  product.leaf_stride = kFewFloats;
  product.strips = static_cast<int>(strips.size());
  return product;
}

void Int8LinearTask::multiply(const Stretch& stretch, Int8Product product, float* sums) const {
  product.weights += (stretch.first_step + stretch.first_group) * product.step_stride;
  product.x_scales = reinterpret_cast<const float*>(product.x + scales_offset_) + stretch.first_group;
  product.x_offsets = reinterpret_cast<const int32_t*>(product.x + offsets_offset_) + stretch.first_group;
  product.x += stretch.first_step * kInt8Columns;
  product.leaves = stretch.leaves;
  product.groups = stretch.groups;
  product.last_steps = stretch.last_steps;
  product.opens = stretch.opens;
  product.sums = sums;
  const bool is_tiled = int8_->tiled_product != nullptr && product.rows > kInt8TileRows;
  is_tiled ? int8_->tiled_product(product) : int8_->product(product);
}

void Int8LinearTask::run_few(int64_t panel, Strips strips, const std::byte* arranged, float* sums) const {
  Int8Product product = product_of(panel, strips);
  product.rows = static_cast<int>(x.used_rows());
  if (product.rows == 0) return;
  product.x = arranged;
  float* leaf = sums;
  for (const Stretch& stretch : few_) {
    multiply(stretch, product, leaf);
    leaf += stretch.leaves * kFewFloats;
  }
  // The stack of the tree grows over leaves that are merged already.
  leaf = sums;
  for (const Segment8& of_tree : leaves_) {
    float* const top = sums + of_tree.level * kFewFloats;
    if (top != leaf) std::copy_n(leaf, product.rows * kPanel, top);
    leaf += kFewFloats;
    merge(of_tree, top, kFewFloats, product.rows);
    finish(of_tree.root, top - of_tree.merges * kFewFloats, {0, product.rows}, panel, strips);
  }
}

void Int8LinearTask::run_many(int64_t panel, Strips strips, const std::byte* arranged, float* sums) const {
  const int64_t rows = x.used_rows(), tiles = tile_count(rows);
  Int8Product product = product_of(panel, strips);
  for (size_t slab = 0; slab + 1 < slabs_.size(); ++slab) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const Range of = rows_of_tile(rows, tile);
      product.rows = static_cast<int>(of.size());
      product.x = arranged + of.begin * product.x_stride;
      float* const stack = sums + tile * levels_ * tile_floats();
      for (int64_t s = slabs_[slab]; s < slabs_[slab + 1]; ++s) {
        const Segment8& segment = segments_[s];
        if (int8_->tiled_product != nullptr) ask_for_next_slab(slab, segment.stretch, tile, tiles, product);
        float* const top = stack + segment.level * tile_floats();
        multiply(segment.stretch, product, top);
        merge(segment, top, tile_floats(), product.rows);
        finish(segment.root, top - segment.merges * tile_floats(), of, panel, strips);
      }
    }
  }
}

void Int8LinearTask::ask_for_next_slab(size_t slab, const Stretch& stretch, int64_t tile, int64_t tiles,
                                       Int8Product& product) const {
  const Stretch& last = segments_[slabs_[slab + 1] - 1].stretch;
  const int64_t begin = lines_before(stretch.first_group);
  const int64_t lines = lines_before(stretch.first_group + stretch.groups) - begin;
  // As far from the next slab's first line as the stretch is from this one's.
  const int64_t next =
      lines_before(last.first_group + last.groups) + begin - lines_before(segments_[slabs_[slab]].stretch.first_group);
  const int64_t times = std::max<int64_t>(lines / kTileSteps, 1) * tiles;
  const int64_t lines_of_strip = lines * product.step_stride / 64 / product.strips;
  product.next_lines = static_cast<int>((lines_of_strip + times - 1) / times);
  product.next = product.weights + next * product.step_stride + lines * product.step_stride * tile / tiles;
}

void Int8LinearTask::merge(const Segment8& segment, float* top, int64_t level_floats, int rows) const {
  for (int i = 0; i < segment.merges; ++i) {
    kernels->add_floats(top - level_floats, top, rows * kPanel);
    top -= level_floats;
  }
}

int64_t Int8LinearTask::lines_before(int64_t group) const { return weight.packing.steps_before(group) + group; }

int64_t Int8LinearTask::slab_steps() const { return int8_->tiled_product != nullptr ? kTiledSlabSteps : kSlabSteps; }

int64_t Int8LinearTask::tile_rows() const { return int8_->tiled_product != nullptr ? kInt8TiledRows : kInt8TileRows; }

int64_t Int8LinearTask::tile_floats() const { return tile_rows() * kPanel; }

int64_t Int8LinearTask::tile_count(int64_t rows) const { return (rows + tile_rows() - 1) / tile_rows(); }

Range Int8LinearTask::rows_of_tile(int64_t rows, int64_t tile) const {
  const int64_t tiles = tile_count(rows);
  return {rows * tile / tiles, rows * (tile + 1) / tiles};
}

void Int8LinearTask::finish(int root, const float* sums, Range rows, int64_t panel, Strips strips) const {
  if (root < 0) return;
  const int64_t column = panel * kPanel + strips.begin * kStrip;
  const int64_t columns = std::min<int64_t>(strips.size() * kStrip, weight.packing.n - column);
  const auto bias_bytes = static_cast<int64_t>(size_of(bias_type));
  kernels->finish_tile({.sums = sums,
                        .rows = static_cast<int>(rows.size()),
                        .columns = static_cast<int>(columns),
                        .bias = bias != nullptr ? bias + column * bias_bytes : nullptr,
                        .bias_type = bias_type,
                        .dst = result.at(rows.begin, column) + root * result.plane_stride(),
                        .dst_stride = result.stride,
                        .dst_type = result.dtype});
}

}  // namespace lockstep::cpu
