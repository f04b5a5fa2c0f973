#include "runtime/backends/cpu/linear_coded.h"

#include <algorithm>

namespace lockstep::cpu {
namespace {

/// Replace `kSlabSteps` with AMX, and for codes: their steps should stay in the first-level cache.
constexpr int64_t kTiledSlabSteps = 128, kExpandedSlabSteps = 512;

}  // namespace

CodedLinearTask CodedLinearTask::make(const Kernels& kernels, CodedWeight weight, Tensor x, Tensor result,
                                      const CodedKernels* coded) {
  CodedLinearTask task;
  task.kernels = &kernels;
  task.coded_ = coded != nullptr ? coded : &coded_kernels_for(kernels.isa, weight.packing.dots);
  task.weight = weight;
  task.x = x;
  task.result = result;
  task.arranged_stride_ = weight.packing.arranged_bytes();
  // Rows at distances of a multiple of 4 KiB share few sets of the first-level cache.
  task.arrange = weight.packing.needs_arranging(x.dtype) || (x.rows > kStreamedCodedRows && x.stride % 1024 == 0);
  return task;
}

CodedLinearTask CodedLinearTask::plain(const Kernels& kernels, CodedWeight weight, Tensor x, Tensor result,
                                       const CodedKernels* coded) {
  CodedLinearTask task = make(kernels, weight, x, result, coded);
  task.plan({{.number = 0, .level = 0, .merges = 0, .root = 0}}, 0);
  return task;
}

CodedLinearTask CodedLinearTask::blocks(const Kernels& kernels, CodedWeight weight, const BlockSplit& split, int rank,
                                        Tensor x, Tensor result, const CodedKernels* coded) {
  CodedLinearTask task = make(kernels, weight, x, result, coded);
  task.plan(leaves_of(split, rank), split.range_of(rank).begin);
  return task;
}

CodedSegment CodedLinearTask::segment_of(Range groups) const {
  const CodedPacking& packing = weight.packing;
  CodedSegment segment;
  segment.first_line = packing.lines_before(groups.begin);
  segment.first_group = groups.begin;
  segment.groups = groups.size();
  segment.last_lines = groups.size() > 0 ? packing.lines_of(groups.end - 1) : 0;
  return segment;
}

void CodedLinearTask::plan(const std::vector<TreeLeaf>& leaves, int64_t first) {
  const CodedPacking& packing = weight.packing;
  const ColumnGroups& cut = packing.groups;
  const int64_t group_steps = packing.group_lines() * packing.steps_of_line();
  const int64_t at_once = std::max<int64_t>(1, slab_steps() / group_steps);  // groups of a slab
  for (const TreeLeaf& leaf : leaves) {
    const int64_t own = leaf.number - first;
    const Range groups{own * cut.per_leaf(), std::min((own + 1) * cut.per_leaf(), cut.count())};
    const auto add = [&leaf](std::vector<CodedSegment>& to, CodedSegment segment, bool is_first, bool is_last) {
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

void CodedLinearTask::cut_into_slabs() {
  const int64_t steps = weight.packing.steps_of_line();
  slabs_ = {0};
  for (size_t i = 1; i < segments_.size(); ++i) {
    const CodedSegment& last = segments_[i];
    const int64_t end = weight.packing.lines_before(last.first_group + last.groups);
    if ((end - segments_[slabs_.back()].first_line) * steps > slab_steps()) slabs_.push_back(static_cast<int64_t>(i));
  }
  slabs_.push_back(static_cast<int64_t>(segments_.size()));
}

int64_t CodedLinearTask::expanded_bytes() const {
  if (weight.packing.is_expanded() || x.rows <= kStreamedCodedRows) return 0;
  int64_t most = 0;
  for (size_t slab = 0; slab + 1 < slabs_.size(); ++slab) {
    CodedSegment end = segments_[slabs_[slab + 1] - 1];
    end.first_line += lines_in(end);
    end.first_group += end.groups;
    most = std::max(most, expanded_lines(segments_[slabs_[slab]], end));
  }
  return most * kPanelStrips * kLineBytes;
}

int64_t CodedLinearTask::private_bytes() const {
  const int64_t for_many = x.rows > kStreamedCodedRows ? tile_count(x.rows) * tile_floats() : 0;
  return levels_ * std::max(kFewRowsFloats, for_many) * static_cast<int64_t>(sizeof(float)) + expanded_bytes();
}

void CodedLinearTask::arrange_rows(std::byte* arranged, Part part) const {
  // Parts of a row, so that a single row has work for all workers; each part has separate cache lines.
  constexpr int64_t kGroupsAtOnce = 16;
  const CodedPacking& packing = weight.packing;
  const int64_t groups = packing.groups.count();
  const int64_t stretches = (groups + kGroupsAtOnce - 1) / kGroupsAtOnce;
  const Share share = share_of(x.used_rows() * stretches, part);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t row = i / stretches, first = i % stretches * kGroupsAtOnce;
    arrange_coded(*kernels, packing, x.const_row(row), {first, std::min(first + kGroupsAtOnce, groups)},
                  arranged + row * arranged_stride());
  }
}

void CodedLinearTask::arrange_made(ConstRow row, std::byte* to) const {
  arrange_coded(*kernels, weight.packing, row, {0, weight.packing.groups.count()}, to);
}

std::span<const std::byte> CodedLinearTask::first_weights(Part part) const {
  const CodedPacking& packing = weight.packing;
  return first_of_share(share(part), {weight.data, static_cast<size_t>(packing.bytes_of_part())},
                        packing.panel_offset(1));
}

void CodedLinearTask::run(const std::byte* arranged, std::byte* private_scratch, Strips strips) const {
  if (leaves_.empty() || x.used_rows() == 0) return;
  for_halves(weight.packing.strips(), has_halves, strips, [&](Strips of_half) {
    if (x.used_rows() <= kStreamedCodedRows) {
      return stream(of_half, arranged, reinterpret_cast<float*>(private_scratch));
    }
    for_panels(of_half, [&](int64_t panel, Strips of_panel) { run_many(panel, of_panel, arranged, private_scratch); });
  });
}

ArrangedRows CodedLinearTask::rows_of(const std::byte* arranged, Range rows) const {
  const int64_t stride = arrange ? arranged_stride() : x.stride;
  return weight.packing.arranged_rows((arrange ? arranged : x.data) + rows.begin * stride, stride, rows.size());
}

void CodedLinearTask::stream(Strips strips, const std::byte* arranged, float* stack) const {
  for_streams(strips, [&](int64_t panel, Strips of_panel, int64_t panels) {
    CodedFewRows call;
    call.weights = weight.packing.weights_of(weight.data, panel, of_panel);
    call.x = rows_of(arranged, {0, x.used_rows()});
    call.begin = leaves_.data();
    call.end = call.begin + leaves_.size();
    call.stack = stack;
    call.result = result_at(0, panel * kPanel + of_panel.begin * kStrip);
    call.root_stride = result.plane_stride();
    call.panels = panels;
    call.panel_stride = weight.packing.panel_offset(1);
    call.stream_prefetch = stream_prefetch();
    coded_->few_rows(call);
  });
}

const std::byte* CodedLinearTask::steps_of_slab(size_t slab, const CodedWeights& weights, std::byte* scratch) const {
  const CodedSegment& first = segments_[slabs_[slab]];
  if (weight.packing.is_expanded()) {
    return weights.group_at(first.first_line, first.first_group) + weights.first_strip * kLineBytes;
  }
  for (int64_t s = slabs_[slab]; s < slabs_[slab + 1]; ++s) {
    const int64_t before = expanded_lines(first, segments_[s]);
    coded_->expand({weights, segments_[s], scratch + before * weights.strips * kLineBytes});
  }
  return scratch;
}

void CodedLinearTask::run_many(int64_t panel, Strips strips, const std::byte* arranged, std::byte* scratch) const {
  const int64_t tiles = tile_count(x.used_rows());
  const CodedWeights weights = weight.packing.weights_of(weight.data, panel, strips);
  auto* const sums = reinterpret_cast<float*>(scratch + expanded_bytes());
  GroupProduct product;
  product.format = weight.packing.format;
  product.dots = weight.packing.dots;
  product.step_stride = (weight.packing.is_expanded() ? weights.panel_strips : weights.strips) * kLineBytes;
  product.group_steps = weight.packing.group_lines() * weight.packing.steps_of_line();
  product.strips = weights.strips;
  for (size_t slab = 0; slab + 1 < slabs_.size(); ++slab) {
    const std::byte* const steps = steps_of_slab(slab, weights, scratch);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      run_tile(slab, weights, steps, arranged, {tile, tiles}, panel * kPanel + strips.begin * kStrip, product,
               sums + tile * levels_ * tile_floats());
    }
  }
}

void CodedLinearTask::run_tile(size_t slab, const CodedWeights& weights, const std::byte* steps,
                               const std::byte* arranged, TileOf tile, int64_t column, GroupProduct& product,
                               float* stack) const {
  const Range of = rows_of_tile(x.used_rows(), tile.index);
  const ArrangedRows rows = rows_of(arranged, of);
  const CodedSegment& first = segments_[slabs_[slab]];
  for (int64_t s = slabs_[slab]; s < slabs_[slab + 1]; ++s) {
    const CodedSegment& segment = segments_[s];
    product.weights = steps + expanded_lines(first, segment) * product.step_stride;
    product.x = rows;
    product.x.steps += segment.first_line * weight.packing.steps_of_line() * 4;
    product.x.scales += segment.first_group;
    product.x.sums += segment.first_group;
    ask_for_next_slab(slab, weights, segment, tile, product);
    run_segment(segment, product, stack);
    if (segment.root < 0) continue;
    finish(segment.root, stack + (segment.level - segment.merges) * tile_floats(), of, column, product.strips);
  }
}

void CodedLinearTask::run_segment(const CodedSegment& segment, GroupProduct& product, float* stack) const {
  const int rows = product.x.rows;
  float* top = stack + segment.level * tile_floats();
  product.groups = segment.groups;
  product.last_steps = segment.last_lines * weight.packing.steps_of_line();
  product.sums = top;
  product.opens = segment.opens;
  if (is_tiled() && rows > kCodedTileRows) {
    coded_->tiled_product(product);
  } else {
    coded_->product(product);
  }
  for (int i = 0; i < segment.merges; ++i, top -= tile_floats()) {
    kernels->add_floats(top - tile_floats(), top, rows * kPanel);
  }
}

void CodedLinearTask::ask_for_next_slab(size_t slab, const CodedWeights& weights, const CodedSegment& segment,
                                        TileOf tile, GroupProduct& product) const {
  const CodedSegment &first = segments_[slabs_[slab]], &last = segments_[slabs_[slab + 1] - 1];
  const auto begin_of = [&](const CodedSegment& of) { return weights.group_at(of.first_line, of.first_group); };
  const auto end_of = [&](const CodedSegment& of) {
    return weights.group_at(of.first_line + lines_in(of), of.first_group + of.groups);
  };
  const int64_t bytes = end_of(segment) - begin_of(segment);
  product.next = begin_of(segment) + (end_of(last) - begin_of(first)) + bytes * tile.index / tile.count;
  const int64_t steps = std::max<int64_t>(lines_in(segment) * weight.packing.steps_of_line(), 1);
  product.next_stride = bytes / (steps * tile.count);
  const int64_t times = std::max<int64_t>(steps / kTileSteps, 1) * tile.count * weights.panel_strips;
  product.next_lines = static_cast<int>((bytes / kLineBytes + times - 1) / times);
}

int64_t CodedLinearTask::lines_in(const CodedSegment& segment) const {
  return segment.groups == 0 ? 0 : (segment.groups - 1) * weight.packing.group_lines() + segment.last_lines;
}

int64_t CodedLinearTask::expanded_lines(const CodedSegment& from, const CodedSegment& to) const {
  const int64_t ends = weight.packing.format.offset == GroupOffset::kNone ? 1 : 2;
  return (to.first_line - from.first_line) * weight.packing.steps_of_line() +
         (to.first_group - from.first_group) * ends;
}

int64_t CodedLinearTask::slab_steps() const {
  if (is_tiled()) return kTiledSlabSteps;
  return weight.packing.is_expanded() ? kSlabSteps : kExpandedSlabSteps;
}

int64_t CodedLinearTask::tile_rows() const {
  return is_tiled() ? kTiledCodedRows : kCodedTileRows / digits_of(weight.packing.dots);
}

int64_t CodedLinearTask::tile_floats() const { return tile_rows() * kPanel; }

int64_t CodedLinearTask::tile_count(int64_t rows) const { return (rows + tile_rows() - 1) / tile_rows(); }

Range CodedLinearTask::rows_of_tile(int64_t rows, int64_t tile) const {
  const int64_t tiles = tile_count(rows);
  return {rows * tile / tiles, rows * (tile + 1) / tiles};
}

}  // namespace lockstep::cpu
