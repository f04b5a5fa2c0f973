#include "runtime/backends/cpu/experts.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep::cpu {
namespace {

constexpr int64_t kFloat = sizeof(float);
/// Size of the totals of leaves that are summed together: an eighth of a second-level cache.
constexpr int64_t kTotalFloats = 32768;

/// The cost of a panel of an expert, in rows: reading its weights takes as long as multiplying about eight.
int64_t cost_of(int64_t rows) { return 8 + rows; }

/// Rows [rows, kPanel] of sums, each times its factor.
void scale_rows(float* sums, const float* factors, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < kPanel; ++i) sums[row * kPanel + i] *= factors[row];
  }
}

/// The columns of a tile that exist in the matrix.
int columns_of(const ExpertMatrix& matrix, const ExpertTile& tile) {
  return static_cast<int>(std::min(tile.strips.size() * kStrip, matrix.n() - tile.column()));
}

}  // namespace

std::vector<ExpertLeaf> ExpertLeaf::whole(const ExpertMatrix& down, const BlockSplit& split, int rank) {
  std::vector<ExpertLeaf> leaves;
  for (const TreeLeaf& leaf : leaves_of(split, rank)) {
    const int64_t expert = leaf.number - split.range_of(rank).begin;
    leaves.push_back({leaf, expert, down.range(), /*has_bias=*/true});
  }
  return leaves;
}

std::vector<ExpertLeaf> ExpertLeaf::blocks(const ExpertMatrix& down, const BlockSplit& split, int rank, int64_t block) {
  std::vector<ExpertLeaf> leaves;
  for (const TreeLeaf& leaf : leaves_of(split, rank)) {
    const Range range = down.range_of_leaf(leaf.number - split.range_of(rank).begin, block);
    leaves.push_back({leaf, std::nullopt, range, /*has_bias=*/leaf.number == 0});
  }
  return leaves;
}

ExpertTask::ExpertTask(const Kernels& kernels, ExpertOperands operands, std::vector<ExpertLeaf> leaves)
    : kernels_(kernels),
      operands_(std::move(operands)),
      leaves_(std::move(leaves)),
      experts_(operands_.gate.experts()),
      entries_(operands_.x.rows * operands_.most_per_row),
      has_other_layout_(operands_.down.needs_arranging(operands_.x.dtype)),
      arranges_inner_(has_other_layout_ || operands_.rounding),
      inner_stride_(operands_.down.k() * operands_.x.element_size()),
      down_stride_(has_other_layout_ ? operands_.down.arranged_bytes() : inner_stride_) {
  for (const ExpertLeaf& leaf : leaves_) levels_ = std::max(levels_, leaf.tree.level + 1);
  const auto place = [this](int64_t bytes) {
    const int64_t at = shared_bytes_;
    shared_bytes_ += (bytes + 63) / 64 * 64;
    return at;
  };
  place((experts_ + 1) * static_cast<int64_t>(sizeof(int32_t)));
  active_at_ = place((experts_ + 1) * static_cast<int64_t>(sizeof(int32_t)));
  rows_at_ = place(entries_ * static_cast<int64_t>(sizeof(int32_t)));
  routes_at_ = place(entries_ * kFloat);
  input_routes_at_ = place(operands_.routes_on_inputs ? entries_ * kFloat : 0);
  x_at_ = place(entries_ * operands_.gate.arranged_bytes());
  inner_at_ = place(entries_ * inner_stride_);
  arranged_at_ = place(has_other_layout_ ? entries_ * down_stride_ : 0);
}

ExpertTask::Lists ExpertTask::lists_in(std::byte* shared) const {
  return {.first = reinterpret_cast<int32_t*>(shared),
          .active = reinterpret_cast<int32_t*>(shared + active_at_),
          .rows = reinterpret_cast<int32_t*>(shared + rows_at_),
          .routes = reinterpret_cast<float*>(shared + routes_at_),
          .input_routes = operands_.routes_on_inputs ? reinterpret_cast<float*>(shared + input_routes_at_) : nullptr,
          .x = shared + x_at_,
          .inner = shared + inner_at_,
          .arranged = shared + arranged_at_};
}

int64_t ExpertTask::private_bytes() const {
  const int64_t rows = operands_.x.rows;
  const int64_t total_floats = std::max(kTotalFloats, rows * kPanel);
  const int64_t steps =
      std::max({operands_.gate.scratch_bytes(), operands_.up.scratch_bytes(), operands_.down.scratch_bytes()});
  return steps + sums_size() + std::max(sums_size(), (total_floats + levels_ * rows * kPanel) * kFloat);
}

int64_t ExpertTask::sums_size() const {
  constexpr auto kFew = static_cast<int64_t>(ExpertMatrix::kMostRanges) * kFewRowsFloats * kFloat;
  return std::max(sums_bytes(operands_.x.rows), operands_.down.coded() != nullptr ? kFew : 0);
}

void ExpertTask::group(std::byte* shared) const {
  const Lists lists = lists_in(shared);
  const int64_t rows = operands_.x.used_rows();
  int32_t count = 0;
  int32_t* active = lists.active;
  for (int64_t expert = 0; expert < experts_; ++expert) {
    lists.first[expert] = count;
    for (int64_t row = 0; row < rows; ++row) {
      const bool is_padding = operands_.slot != nullptr && operands_.slot[row] < 0;
      const float route = *reinterpret_cast<const float*>(operands_.route.at(row, operands_.first_expert + expert));
      // If a row has NaN logits, all its routes are NaN. Only its first experts are taken, because a row must not
      // overflow into the entries of its neighbours.
      const bool is_too_many = route != route && expert >= operands_.most_per_row;
      if (is_padding || route == 0.0f || is_too_many || count == entries_) continue;
      lists.rows[count] = static_cast<int32_t>(row);
      lists.routes[count] = operands_.routes_on_inputs ? 1.0f : route;
      if (operands_.routes_on_inputs) lists.input_routes[count] = route;
      ++count;
    }
    if (count > lists.first[expert]) *active++ = static_cast<int32_t>(expert);
  }
  *active = -1;
  lists.first[experts_] = count;
}

void ExpertTask::gather(std::byte* shared, Part part) const {
  const Lists lists = lists_in(shared);
  const ExpertMatrix& gate = operands_.gate;
  const Share share = share_of(lists.first[experts_], part);
  for (int64_t i = share.begin; i < share.end; ++i) {
    gate.arrange(kernels_, operands_.x.const_row(lists.rows[i]), lists.x + i * gate.arranged_bytes());
  }
}

void ExpertTask::run_inner(std::byte* shared, std::byte* private_scratch, Part part) const {
  const Lists lists = lists_in(shared);
  const ExpertMatrix& gate = operands_.gate;
  int64_t active = 0, cost = 0;
  for (const int32_t* expert = lists.active; *expert >= 0; ++expert) {
    ++active;
    cost += cost_of(lists.entries_of(*expert).size());
  }
  const bool whole = active * gate.panels() >= 8 * part.workers;  // as in share_of_strips
  const int64_t units = whole ? gate.panels() : gate.strips();
  const int64_t strips_of_unit = whole ? kPanelStrips : 1;
  const Share share = share_of(units * cost, part);
  const int64_t steps = std::max(gate.scratch_bytes(), operands_.up.scratch_bytes());
  int64_t begin = 0;
  for (const int32_t* expert = lists.active; *expert >= 0; ++expert) {
    const int64_t expert_cost = cost_of(lists.entries_of(*expert).size());
    // The units whose cost starts inside the share.
    const auto strip_at = [&](int64_t at) {
      const int64_t unit = std::clamp<int64_t>((at - begin + expert_cost - 1) / expert_cost, 0, units);
      return std::min(unit * strips_of_unit, gate.strips());
    };
    for_panels({strip_at(share.begin), strip_at(share.end)}, [&](int64_t panel, Strips strips) {
      run_inner_tile(lists, {*expert, panel, strips}, reinterpret_cast<float*>(private_scratch + steps),
                     private_scratch);
    });
    begin += units * expert_cost;
  }
}

void ExpertTask::run_inner_tile(const Lists& lists, const ExpertTile& tile, float* sums, std::byte* scratch) const {
  const ExpertMatrix& gate = operands_.gate;
  const Range entries = lists.entries_of(tile.expert);
  float* const sums_of[] = {sums, sums + sums_size() / kFloat};
  const ExpertRows x{lists.x + entries.begin * gate.arranged_bytes(), gate.arranged_bytes(), entries.size()};
  operands_.up.ask_for(tile);
  gate.sum(kernels_, tile, gate.range(), x, sums_of[0], scratch);
  operands_.up.sum(kernels_, tile, operands_.up.range(), x, sums_of[1], scratch);
  const DType type = operands_.x.dtype;
  const bool has_bias = operands_.gate_bias != nullptr;
  const int64_t bias_at = (tile.expert * gate.n() + tile.column()) * operands_.x.element_size();
  for (int64_t t = 0; t < tiles_of(entries.size()); ++t) {
    const Range rows = rows_of_tile(entries.size(), t);
    if (lists.input_routes != nullptr) {
      for (float* const sum : sums_of) {
        scale_rows(sum + t * kTileFloats, lists.input_routes + entries.begin + rows.begin, rows.size());
      }
    }
    kernels_.gate_tile(
        {.gate = sums_of[0] + t * kTileFloats,
         .up = sums_of[1] + t * kTileFloats,
         .rows = static_cast<int>(rows.size()),
         .columns = columns_of(gate, tile),
         .gate_bias = has_bias ? operands_.gate_bias + bias_at : nullptr,
         .up_bias = has_bias ? operands_.up_bias + bias_at : nullptr,
         .bias_type = type,
         .activation = operands_.activation,
         .dst = lists.inner + (entries.begin + rows.begin) * inner_stride_ + tile.column() * operands_.x.element_size(),
         .dst_stride = inner_stride_,
         .dst_type = type});
  }
}

void ExpertTask::arrange_inner(std::byte* shared, Part part) const {
  const Lists lists = lists_in(shared);
  const Share share = share_of(lists.first[experts_], part);
  for (int64_t i = share.begin; i < share.end; ++i) {
    std::byte* const row = lists.inner + i * inner_stride_;
    const ConstRow inner{row, operands_.x.dtype};
    if (operands_.rounding) {
      kernels_.fake_quantise(inner, reinterpret_cast<float*>(row), operands_.down.k(), *operands_.rounding);
    }
    if (has_other_layout_) operands_.down.arrange(kernels_, inner, lists.arranged + i * down_stride_);
  }
}

void ExpertTask::run_down(std::byte* shared, std::byte* private_scratch, Part part) const {
  if (leaves_.empty()) return;
  const Lists lists = lists_in(shared);
  for_panels(share_of_strips(operands_.down.strips(), part), [&](int64_t panel, Strips strips) {
    run_down_tile(lists, {0, panel, strips}, private_scratch);
  });
}

void ExpertTask::run_down_tile(const Lists& lists, ExpertTile tile, std::byte* scratch) const {
  const int64_t rows = operands_.x.used_rows();
  if (rows == 0) return;
  const int64_t floats = rows * kPanel;  // of one total
  auto* const sums = reinterpret_cast<float*>(scratch + operands_.down.scratch_bytes());
  float* const totals = sums + sums_size() / kFloat;
  float* const stack = totals + std::max(kTotalFloats, operands_.x.rows * kPanel);
  const auto at_a_time = static_cast<size_t>(std::max<int64_t>(kTotalFloats / floats, 1));
  std::span<const ExpertLeaf> left = leaves_;
  while (!left.empty()) {
    const std::span<const ExpertLeaf> leaves = left.first(std::min(at_a_time, left.size()));
    left = left.subspan(leaves.size());
    std::memset(totals, 0, leaves.size() * static_cast<size_t>(floats * kFloat));
    for (const int32_t* expert = lists.active; *expert >= 0; ++expert) {
      if (expert[1] >= 0) operands_.down.ask_for({expert[1], tile.panel, tile.strips});
      tile.expert = *expert;
      add_expert(lists, tile, leaves, sums, totals, scratch);
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
      const float* top = push(leaves[i].tree, totals + static_cast<int64_t>(i) * floats, stack);
      if (leaves[i].tree.root < 0) continue;
      kernels_.finish_tile({.sums = top,
                            .rows = static_cast<int>(rows),
                            .columns = columns_of(operands_.down, tile),
                            .bias = nullptr,
                            .bias_type = DType::kFloat32,
                            .dst = operands_.result.plane(leaves[i].tree.root).at(0, tile.column()),
                            .dst_stride = operands_.result.stride,
                            .dst_type = DType::kFloat32});
    }
  }
}

float* ExpertTask::push(const TreeLeaf& leaf, const float* total, float* stack) const {
  const int64_t floats = operands_.x.used_rows() * kPanel;
  float* top = stack + leaf.level * floats;
  if (leaf.merges == 0) {
    std::memcpy(top, total, static_cast<size_t>(floats * kFloat));
    return top;
  }
  for (int i = 0; i < leaf.merges; ++i) {
    kernels_.add_floats(top - floats, i == 0 ? total : top, floats);
    top -= floats;
  }
  return top;
}

ExpertRows ExpertTask::down_rows(const Lists& lists, int64_t expert) const {
  const Range entries = lists.entries_of(expert);
  const std::byte* const rows = has_other_layout_ ? lists.arranged : lists.inner;
  return {rows + entries.begin * down_stride_, down_stride_, entries.size()};
}

void ExpertTask::add_expert(const Lists& lists, const ExpertTile& tile, std::span<const ExpertLeaf> leaves, float* sums,
                            float* totals, std::byte* scratch) const {
  const ExpertMatrix& down = operands_.down;
  const bool is_few = down.coded() != nullptr && lists.entries_of(tile.expert).size() <= kStreamedCodedRows;
  if (is_few) return add_few(lists, tile, leaves, sums, totals);
  for (const ExpertLeaf& leaf : leaves) {
    if (!leaf.expert || *leaf.expert == tile.expert) {
      const bool has_bias = leaf.has_bias && operands_.down_bias != nullptr;
      if (!has_bias && down.packed() != nullptr) {
        add_in_product(lists, tile, leaf.range, sums, totals);
      } else {
        down.sum(kernels_, tile, leaf.range, down_rows(lists, tile.expert), sums, scratch);
        add_routed(lists, tile, has_bias, sums, totals);
      }
    }
    totals += operands_.x.used_rows() * kPanel;
  }
}

void ExpertTask::add_few(const Lists& lists, const ExpertTile& tile, std::span<const ExpertLeaf> leaves, float* sums,
                         float* totals) const {
  std::array<Range, ExpertMatrix::kMostRanges> ranges;
  std::array<const ExpertLeaf*, ExpertMatrix::kMostRanges> of;
  size_t count = 0;
  const auto add = [&] {
    operands_.down.sum_few(kernels_, tile, std::span(ranges).first(count), down_rows(lists, tile.expert), sums);
    for (size_t i = 0; i < count; ++i) {
      add_routed(lists, tile, of[i]->has_bias && operands_.down_bias != nullptr,
                 sums + static_cast<int64_t>(i) * kFewRowsFloats,
                 totals + (of[i] - leaves.data()) * operands_.x.used_rows() * kPanel);
    }
    count = 0;
  };
  for (const ExpertLeaf& leaf : leaves) {
    if (leaf.expert && *leaf.expert != tile.expert) continue;
    ranges[count] = leaf.range;
    of[count++] = &leaf;
    if (count == ranges.size()) add();
  }
  if (count > 0) add();
}

void ExpertTask::add_in_product(const Lists& lists, const ExpertTile& tile, Range steps, float* sums,
                                float* totals) const {
  const PackedWeight& down = *operands_.down.packed();
  const Range entries = lists.entries_of(tile.expert);
  const ExpertRows x = down_rows(lists, tile.expert);
  Product product =
      product_of(down.packing, down.data + tile.expert * down.packing.bytes_of_part(), tile.panel, tile.strips);
  product.x = x.first;
  product.x_stride = x.stride;
  product.left = totals;
  product.places = lists.rows + entries.begin;
  product.routes = lists.routes + entries.begin;
  sum_rows(product_for(kernels_, down.packing), product, steps, entries.size(), sums);
}

void ExpertTask::add_routed(const Lists& lists, const ExpertTile& tile, bool has_bias, const float* sums,
                            float* totals) const {
  const Range entries = lists.entries_of(tile.expert);
  const int64_t bias_at = (tile.expert * operands_.down.n() + tile.column()) * operands_.x.element_size();
  for (int64_t t = 0; t < tiles_of(entries.size()); ++t) {
    const Range rows = rows_of_tile(entries.size(), t);
    kernels_.add_routed({.sums = sums + t * kTileFloats,
                         .rows = static_cast<int>(rows.size()),
                         .columns = columns_of(operands_.down, tile),
                         .bias = has_bias ? operands_.down_bias + bias_at : nullptr,
                         .bias_type = operands_.x.dtype,
                         .routes = lists.routes + entries.begin + rows.begin,
                         .places = lists.rows + entries.begin + rows.begin,
                         .totals = totals});
  }
}

}  // namespace lockstep::cpu
