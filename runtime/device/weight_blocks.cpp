#include "runtime/device/weight_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>

namespace lockstep::device {
namespace {

constexpr int64_t kBlockBytes = int64_t{256} << 10;    // minimum size of a read: fits the second-level cache
constexpr int64_t kSmallBytes = int64_t{256} << 10;    // a weight without panels up to this size is read by one worker
constexpr int64_t kExpectedBytes = int64_t{16} << 20;  // announced ahead of the block being packed

/// The smallest part of a weight that can be packed separately: a panel, if all its forms have the same panels. Weights
/// without panels are divided by row; a weight with different panels in its forms is not divided.
struct Units {
  explicit Units(const WeightRows& weight) : weight_(weight) {
    for (const PanelRows& form : weight.panels) is_whole_ |= form != weight.panels.front();
  }
  int64_t count() const {
    if (is_whole_) return 1;
    return weight_.panels.empty() ? device::rows_of(*weight_.value).size() : weight_.panels.front().panels();
  }
  Range rows_of(int64_t begin, int64_t end) const {
    if (is_whole_) return device::rows_of(*weight_.value);
    if (weight_.panels.empty()) return {begin, end};
    const PanelRows& form = weight_.panels.front();
    return {form.rows_of(begin).begin, form.rows_of(end - 1).end};
  }
  int64_t rows_of_one() const {
    if (is_whole_) return std::max<int64_t>(1, device::rows_of(*weight_.value).size());
    if (weight_.panels.empty()) return 1;
    const PanelRows& form = weight_.panels.front();
    return std::clamp<int64_t>(form.rows_of_part, 1, form.rows_of_panel);
  }

 private:
  const WeightRows& weight_;
  bool is_whole_ = false;
};

}  // namespace

Range PanelRows::rows_of(int64_t panel) const {
  const int64_t part = panel / panels_of_part() * rows_of_part;
  const int64_t first = panel % panels_of_part() * rows_of_panel;
  return {part + first, part + std::min(first + rows_of_panel, rows_of_part)};
}

int64_t WeightRows::row_bytes() const {
  const int64_t count = device::rows_of(*value).size();
  return count == 0 ? 0 : value->type.bytes() / count;
}

std::vector<const graph::Value*> weights_in_file_order(const graph::Graph& graph, const WeightReader& reader) {
  std::vector<std::pair<int64_t, const graph::Value*>> by_place;  // looked up once per weight
  for (const graph::ValueId id : graph.values_of(graph::ValueKind::kWeight)) {
    by_place.emplace_back(reader.place_of(graph.value(id)), &graph.value(id));
  }
  std::ranges::stable_sort(by_place, {}, &std::pair<int64_t, const graph::Value*>::first);
  std::vector<const graph::Value*> weights;
  for (const auto& [place, weight] : by_place) weights.push_back(weight);
  return weights;
}

WeightBlocks::WeightBlocks(std::span<const WeightRows> weights, const WeightReader& reader, Part part)
    : weights_(weights), reader_(reader), part_(part) {
  open_weight();
}

void WeightBlocks::open_weight() {
  for (; weight_ < weights_.size(); ++weight_) {
    const WeightRows& weight = weights_[weight_];
    const Units units(weight);
    Share share = share_of(units.count(), part_);
    if (weight.panels.empty() && weight.value->type.bytes() <= kSmallBytes) {
      const bool is_mine = weight_ % static_cast<size_t>(part_.workers) == static_cast<size_t>(part_.worker);
      share = {0, is_mine ? units.count() : 0};
    }
    if (share.begin == share.end) continue;
    unit_ = share.begin;
    end_unit_ = share.end;
    const int64_t unit_bytes = std::max<int64_t>(1, units.rows_of_one() * weight.row_bytes());
    units_at_once_ =
        std::max({int64_t{1}, kBlockBytes / unit_bytes, reader_.rows_at_once(*weight.value) / units.rows_of_one()});
    return;
  }
}

bool WeightBlocks::next(WeightBlock& block) {
  if (weight_ >= weights_.size()) return false;
  const int64_t end = std::min(unit_ + units_at_once_, end_unit_);
  block = {weight_, Units(weights_[weight_]).rows_of(unit_, end)};
  unit_ = end;
  if (unit_ == end_unit_) {
    ++weight_;
    open_weight();
  }
  return true;
}

void WeightLoading::work(Part part, const std::function<Result<void>(const WeightBlock&)>& take) {
  try {
    if (const Result<void> done = take_share(part, take); !done.has_value()) fail(done.error());
  } catch (const std::bad_alloc&) {
    fail({ErrorKind::kResourceExhausted,
          fmt::format("[{}] cannot load weights: found no memory for a buffer; use more ranks", component_)});
  } catch (const std::exception& bug) {
    fail({ErrorKind::kInternal, fmt::format("[{}] {}", component_, bug.what())});
  }
}

Result<void> WeightLoading::take_share(Part part, const std::function<Result<void>(const WeightBlock&)>& take) {
  WeightBlocks blocks(weights_, reader_, part), later(weights_, reader_, part);
  const auto bytes_of = [&](const WeightBlock& block) {
    return block.rows.size() * weights_[block.weight].row_bytes();
  };
  WeightBlock block, coming;
  int64_t ahead = 0;  // bytes announced but not read
  bool has_more = true;
  while (blocks.next(block) && !has_failed_.load(std::memory_order_relaxed)) {
    for (; ahead < kExpectedBytes && (has_more = has_more && later.next(coming)); ahead += bytes_of(coming)) {
      reader_.expect(*weights_[coming.weight].value, coming.rows);
    }
    if (bytes_of(block) > 0) LOCKSTEP_TRY_VOID(take(block));
    ahead -= bytes_of(block);
  }
  return ok();
}

void WeightLoading::fail(Error error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  has_failed_.store(true, std::memory_order_relaxed);
}

Result<void> WeightLoading::result() const {
  if (error_) return *error_;
  return ok();
}

}  // namespace lockstep::device
