#include "runtime/backends/cpu/experts.h"

#include <algorithm>
#include <cstring>

namespace lockstep::cpu {
namespace {

constexpr int64_t kFloat = sizeof(float);
/// Size of the totals of leaves that are summed together: an eighth of a second-level cache.
constexpr int64_t kTotalFloats = 32768;

/// The cost of a panel of an expert, in rows: reading its weights takes as long as multiplying about eight.
int64_t cost_of(int64_t rows) { return 8 + rows; }

const std::byte* part_of(const PackedWeight& weight, int64_t expert) {
  return weight.data + expert * weight.packing.bytes_of_part();
}

/// Rows [rows, kPanel] of sums, each times its factor.
void scale_rows(float* sums, const float* factors, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < kPanel; ++i) sums[row * kPanel + i] *= factors[row];
  }
}

/// The columns of a tile that exist in the matrix.
int columns_of(const Packing& packing, int64_t column, Strips strips) {
  return static_cast<int>(std::min(strips.size() * kStrip, packing.n - column));
}

}  // namespace

std::vector<ExpertLeaf> ExpertLeaf::whole(const Packing& down, const BlockSplit& split, int rank) {
  std::vector<ExpertLeaf> leaves;
  for (const TreeLeaf& leaf : leaves_of(split, rank)) {
    const int64_t expert = leaf.number - split.range_of(rank).begin;
    leaves.push_back({leaf, expert, {0, down.steps()}, /*has_bias=*/true});
  }
  return leaves;
}

std::vector<ExpertLeaf> ExpertLeaf::blocks(const Packing& down, const BlockSplit& split, int rank, int64_t block) {
  std::vector<ExpertLeaf> leaves;
  for (const TreeLeaf& leaf : leaves_of(split, rank)) {
    const Range steps = steps_of_leaf(down, leaf.number - split.range_of(rank).begin, block);
    leaves.push_back({leaf, std::nullopt, steps, /*has_bias=*/leaf.number == 0});
  }
  return leaves;
}

ExpertTask::ExpertTask(const Kernels& kernels, ExpertOperands operands, std::vector<ExpertLeaf> leaves)
    : kernels_(kernels),
      operands_(std::move(operands)),
      leaves_(std::move(leaves)),
      experts_(operands_.gate.packing.parts),
      entries_(operands_.x.rows * operands_.most_per_row),
      arranges_inner_(needs_arranging(operands_.down.packing, operands_.x.dtype)),
      inner_stride_(operands_.down.packing.k * operands_.x.element_size()),
      down_stride_(arranges_inner_ ? arranged_bytes(operands_.down.packing) : inner_stride_),
      down_bytes_(operands_.down.packing.bytes_of_part()),
      down_product_(product_for(kernels, operands_.down.packing)) {
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
  x_at_ = place(entries_ * arranged_bytes(operands_.gate.packing));
  inner_at_ = place(entries_ * inner_stride_);
  arranged_at_ = place(arranges_inner_ ? entries_ * down_stride_ : 0);
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
  return sums_bytes(rows) + std::max(sums_bytes(rows), (total_floats + levels_ * rows * kPanel) * kFloat);
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
  const Packing& packing = operands_.gate.packing;
  const Share share = share_of(lists.first[experts_], part);
  for (int64_t i = share.begin; i < share.end; ++i) {
    arrange_row(kernels_, packing, operands_.x.const_row(lists.rows[i]), lists.x + i * arranged_bytes(packing));
  }
}

void ExpertTask::run_inner(std::byte* shared, std::byte* private_scratch, Part part) const {
  const Lists lists = lists_in(shared);
  const Packing& packing = operands_.gate.packing;
  int64_t active = 0, cost = 0;
  for (const int32_t* expert = lists.active; *expert >= 0; ++expert) {
    ++active;
    cost += cost_of(lists.entries_of(*expert).size());
  }
  const bool whole = active * packing.panels() >= 8 * part.workers;  // as in share_of_strips
  const int64_t units = whole ? packing.panels() : packing.strips();
  const int64_t strips_of_unit = whole ? kPanelStrips : 1;
  const Share share = share_of(units * cost, part);
  int64_t begin = 0;
  for (const int32_t* expert = lists.active; *expert >= 0; ++expert) {
    const int64_t expert_cost = cost_of(lists.entries_of(*expert).size());
    // The units whose cost starts inside the share.
    const auto strip_at = [&](int64_t at) {
      const int64_t unit = std::clamp<int64_t>((at - begin + expert_cost - 1) / expert_cost, 0, units);
      return std::min(unit * strips_of_unit, packing.strips());
    };
    for_panels({strip_at(share.begin), strip_at(share.end)}, [&](int64_t panel, Strips strips) {
      run_inner_tile(lists, *expert, {panel, strips}, reinterpret_cast<float*>(private_scratch));
    });
    begin += units * expert_cost;
  }
}

void ExpertTask::run_inner_tile(const Lists& lists, int64_t expert, Tile tile, float* sums) const {
  const Packing& packing = operands_.gate.packing;
  const Range entries = lists.entries_of(expert);
  const ProductFunction product = product_for(kernels_, packing);
  float* const sums_of[] = {sums, sums + sums_bytes(operands_.x.rows) / kFloat};
  const PackedWeight* const weights[] = {&operands_.gate, &operands_.up};
  for (int i = 0; i < 2; ++i) {
    Product task = product_of(packing, part_of(*weights[i], expert), tile.panel, tile.strips);
    task.x_stride = arranged_bytes(packing);
    task.x = lists.x + entries.begin * task.x_stride;
    sum_rows(product, task, {0, packing.steps()}, entries.size(), sums_of[i]);
  }
  const DType type = operands_.x.dtype;
  const bool has_bias = operands_.gate_bias != nullptr;
  const int64_t bias_at = (expert * packing.n + tile.column()) * operands_.x.element_size();
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
         .columns = columns_of(packing, tile.column(), tile.strips),
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
  const Packing& packing = operands_.down.packing;
  const Share share = share_of(lists.first[experts_], part);
  for (int64_t i = share.begin; i < share.end; ++i) {
    arrange_row(kernels_, packing, {lists.inner + i * inner_stride_, operands_.x.dtype},
                lists.arranged + i * down_stride_);
  }
}

void ExpertTask::run_down(std::byte* shared, std::byte* private_scratch, Part part) const {
  if (leaves_.empty()) return;
  const Lists lists = lists_in(shared);
  for_panels(share_of_strips(operands_.down.packing.strips(), part), [&](int64_t panel, Strips strips) {
    run_down_tile(lists, {panel, strips}, reinterpret_cast<float*>(private_scratch));
  });
}

void ExpertTask::run_down_tile(const Lists& lists, Tile tile, float* scratch) const {
  const int64_t rows = operands_.x.used_rows();
  if (rows == 0) return;
  const int64_t floats = rows * kPanel;  // of one total
  float* const totals = scratch + sums_bytes(operands_.x.rows) / kFloat;
  float* const stack = totals + std::max(kTotalFloats, operands_.x.rows * kPanel);
  Product product = product_of(operands_.down.packing, operands_.down.data, tile.panel, tile.strips);
  product.x_stride = down_stride_;
  const auto at_a_time = static_cast<size_t>(std::max<int64_t>(kTotalFloats / floats, 1));
  std::span<const ExpertLeaf> left = leaves_;
  while (!left.empty()) {
    const std::span<const ExpertLeaf> leaves = left.first(std::min(at_a_time, left.size()));
    left = left.subspan(leaves.size());
    std::memset(totals, 0, leaves.size() * static_cast<size_t>(floats * kFloat));
    for (const int32_t* expert = lists.active; *expert >= 0; ++expert) {
      add_expert(lists, *expert, leaves, product, tile.column(), scratch, totals);
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
      const float* top = push(leaves[i].tree, totals + static_cast<int64_t>(i) * floats, stack);
      if (leaves[i].tree.root < 0) continue;
      kernels_.finish_tile({.sums = top,
                            .rows = static_cast<int>(rows),
                            .columns = columns_of(operands_.down.packing, tile.column(), tile.strips),
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

void ExpertTask::add_expert(const Lists& lists, int64_t expert, std::span<const ExpertLeaf> leaves, Product product,
                            int64_t column, float* sums, float* totals) const {
  const Range entries = lists.entries_of(expert);
  product.weights += expert * down_bytes_;
  product.x = (arranges_inner_ ? lists.arranged : lists.inner) + entries.begin * down_stride_;
  for (const ExpertLeaf& leaf : leaves) {
    if (!leaf.expert || *leaf.expert == expert) {
      const bool has_bias = leaf.has_bias && operands_.down_bias != nullptr;
      product.left = totals;
      product.places = lists.rows + entries.begin;
      product.routes = has_bias ? nullptr : lists.routes + entries.begin;
      sum_rows(down_product_, product, leaf.steps, entries.size(), sums);
      if (has_bias) add_biased(lists, expert, product.strips, column, sums, totals);
    }
    totals += operands_.x.used_rows() * kPanel;
  }
}

void ExpertTask::add_biased(const Lists& lists, int64_t expert, int strips, int64_t column, const float* sums,
                            float* totals) const {
  const Range entries = lists.entries_of(expert);
  const int64_t n = operands_.down.packing.n;
  for (int64_t t = 0; t < tiles_of(entries.size()); ++t) {
    const Range rows = rows_of_tile(entries.size(), t);
    kernels_.add_routed({.sums = sums + t * kTileFloats,
                         .rows = static_cast<int>(rows.size()),
                         .columns = static_cast<int>(std::min<int64_t>(strips * kStrip, n - column)),
                         .bias = operands_.down_bias + (expert * n + column) * operands_.x.element_size(),
                         .bias_type = operands_.x.dtype,
                         .routes = lists.routes + entries.begin + rows.begin,
                         .places = lists.rows + entries.begin + rows.begin,
                         .totals = totals});
  }
}

}  // namespace lockstep::cpu
