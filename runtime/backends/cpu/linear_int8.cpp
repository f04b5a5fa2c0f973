#include "runtime/backends/cpu/linear_int8.h"

#include <algorithm>

namespace lockstep::cpu {
namespace {

/// Replaces `kSlabSteps` with AMX, which needs the weights in the first-level cache.
constexpr int64_t kTiledSlabSteps = 128;

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

Int8Segment Int8LinearTask::segment_of(Range groups) const {
  const Int8Packing& packing = weight.packing;
  Int8Segment segment;
  segment.first_step = packing.steps_before(groups.begin);
  segment.first_group = groups.begin;
  segment.groups = groups.size();
  segment.last_steps = groups.size() > 0 ? packing.steps_of(groups.end - 1) : 0;
  return segment;
}

void Int8LinearTask::plan(const std::vector<TreeLeaf>& leaves, int64_t first) {
  const ColumnGroups& cut = weight.packing.groups;
  const int64_t at_once = std::max<int64_t>(1, slab_steps() * kInt8Columns / cut.width);  // groups of a slab
  for (const TreeLeaf& leaf : leaves) {
    const int64_t own = leaf.number - first;
    const Range groups{own * cut.per_leaf(), std::min((own + 1) * cut.per_leaf(), cut.count())};
    const auto add = [&leaf](std::vector<Int8Segment>& to, Int8Segment segment, bool is_first, bool is_last) {
      segment.level = leaf.level;
      segment.opens = is_first;
      segment.merges = is_last ? leaf.merges : 0;
      segment.root = is_last ? leaf.root : -1;
      to.push_back(segment);
    };
    add(leaves_, segment_of(groups), true, true);
    int64_t begin = groups.begin;
    do {
      const int64_t end = std::min(begin + at_once, groups.end);
      add(segments_, segment_of({begin, end}), begin == groups.begin, end == groups.end);
      begin = end;
    } while (begin < groups.end);
    levels_ = std::max(levels_, leaf.level + 1);
  }
  cut_into_slabs();
}

void Int8LinearTask::cut_into_slabs() {
  slabs_ = {0};
  for (size_t i = 1; i < segments_.size(); ++i) {
    const Int8Segment& last = segments_[i];
    const int64_t end = weight.packing.steps_before(last.first_group + last.groups);
    if (end - segments_[slabs_.back()].first_step > slab_steps()) slabs_.push_back(static_cast<int64_t>(i));
  }
  slabs_.push_back(static_cast<int64_t>(segments_.size()));
}

int64_t Int8LinearTask::private_bytes() const {
  const int64_t for_many = x.rows > kInt8TileRows ? tile_count(x.rows) * tile_floats() : 0;
  return levels_ * std::max(kFewRowsFloats, for_many) * static_cast<int64_t>(sizeof(float));
}

void Int8LinearTask::arrange_rows(std::byte* arranged, Part part) const {
  // Parts of a row, so that a single row has work for all workers; each part has separate cache lines.
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
  if (leaves_.empty() || x.used_rows() == 0) return;
  auto* const stack = reinterpret_cast<float*>(private_scratch);
  for_halves(weight.packing.strips(), has_halves, strips, [&](Strips of_half) {
    if (x.used_rows() <= kInt8TileRows) return stream(of_half, arranged, stack);
    for_panels(of_half, [&](int64_t panel, Strips of_panel) { run_many(panel, of_panel, arranged, stack); });
  });
}

Int8Operands Int8LinearTask::operands_of(int64_t panel, Strips strips, const std::byte* arranged, Range rows) const {
  const Int8Packing& packing = weight.packing;
  arranged += rows.begin * arranged_stride();
  Int8Operands operands;
  operands.weights = weight.data + packing.panel_offset(panel) + strips.begin * kInt8StripStep;
  operands.step_stride = packing.step_stride(panel);
  operands.x = arranged;
  operands.x_scales = reinterpret_cast<const float*>(arranged + scales_offset_);
  operands.x_offsets = reinterpret_cast<const int32_t*>(arranged + offsets_offset_);
  operands.x_stride = arranged_stride();
  operands.group_steps = packing.groups.width / kInt8Columns;
  operands.rows = static_cast<int>(rows.size());
  operands.strips = static_cast<int>(strips.size());
  return operands;
}

void Int8LinearTask::stream(Strips strips, const std::byte* arranged, float* stack) const {
  for_streams(strips, [&](int64_t panel, Strips of_panel, int64_t panels) {
    Int8FewRows call;
    call.operands = operands_of(panel, of_panel, arranged, {0, x.used_rows()});
    call.begin = leaves_.data();
    call.end = call.begin + leaves_.size();
    call.stack = stack;
    call.result = result_at(0, panel * kPanel + of_panel.begin * kStrip);
    call.root_stride = result.plane_stride();
    call.panels = panels;
    call.panel_stride = weight.packing.panel_offset(1);
    int8_->few_rows(call);
  });
}

void Int8LinearTask::run_many(int64_t panel, Strips strips, const std::byte* arranged, float* sums) const {
  const int64_t rows = x.used_rows(), tiles = tile_count(rows);
  const int64_t column = panel * kPanel + strips.begin * kStrip;
  Int8Product product;
  for (size_t slab = 0; slab + 1 < slabs_.size(); ++slab) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const Range of = rows_of_tile(rows, tile);
      const Int8Operands operands = operands_of(panel, strips, arranged, of);
      float* const stack = sums + tile * levels_ * tile_floats();
      for (int64_t s = slabs_[slab]; s < slabs_[slab + 1]; ++s) {
        const Int8Segment& segment = segments_[s];
        product.operands = operands.from(segment);
        if (int8_->tiled_product != nullptr) ask_for_next_slab(slab, segment, tile, tiles, product);
        run_segment(segment, product, stack);
        if (segment.root < 0) continue;
        finish(segment.root, stack + (segment.level - segment.merges) * tile_floats(), of, column, strips.size());
      }
    }
  }
}

void Int8LinearTask::run_segment(const Int8Segment& segment, Int8Product& product, float* stack) const {
  const int rows = product.operands.rows;
  float* top = stack + segment.level * tile_floats();
  product.groups = segment.groups;
  product.last_steps = segment.last_steps;
  product.sums = top;
  product.opens = segment.opens;
  if (int8_->tiled_product != nullptr && rows > kInt8TileRows) {
    int8_->tiled_product(product);
  } else {
    int8_->product(product);
  }
  for (int i = 0; i < segment.merges; ++i, top -= tile_floats()) {
    kernels->add_floats(top - tile_floats(), top, rows * kPanel);
  }
}

void Int8LinearTask::ask_for_next_slab(size_t slab, const Int8Segment& segment, int64_t tile, int64_t tiles,
                                       Int8Product& product) const {
  const auto lines_in = [&](const Int8Segment& first, const Int8Segment& last) {
    return lines_before(last.first_group + last.groups) - lines_before(first.first_group);
  };
  const int64_t lines = lines_in(segment, segment);
  const int64_t to_next = lines_in(segments_[slabs_[slab]], segments_[slabs_[slab + 1] - 1]);
  const int64_t times = std::max<int64_t>(lines / kTileSteps, 1) * tiles;
  const int64_t stride = product.operands.step_stride, lines_of_strip = lines * stride / 64 / product.operands.strips;
  product.next_lines = static_cast<int>((lines_of_strip + times - 1) / times);
  product.next = product.operands.weights + to_next * stride + lines * stride * tile / tiles;
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

}  // namespace lockstep::cpu
