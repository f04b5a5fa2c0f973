#include "launcher/rows/row_pool.h"

#include <algorithm>

namespace lockstep::launcher {

std::optional<size_t> RowPool::take(size_t group) {
  if (waiting_.empty()) return std::nullopt;
  const size_t row = waiting_.front();
  waiting_.pop_front();
  out_[row] = {.group = group};
  return row;
}

void RowPool::hold(size_t row) {
  if (const auto at = out_.find(row); at != out_.end()) at->second.is_held = true;
}

RowPool::Was RowPool::finish(size_t row) {
  const auto at = out_.find(row);
  if (at == out_.end()) return Was::kNeither;
  const bool was_held = at->second.is_held;
  out_.erase(at);
  return was_held ? Was::kHeld : Was::kOut;
}

size_t RowPool::lose(size_t group) {
  const size_t worked_on = taken(group);
  std::vector<size_t> rows;
  for (const auto& [row, out] : out_) {
    if (out.group == group) rows.push_back(row);
  }
  for (const size_t row : rows) out_.erase(row);
  waiting_.insert(waiting_.begin(), rows.begin(), rows.end());
  return worked_on;
}

size_t RowPool::taken(size_t group) const {
  return static_cast<size_t>(std::ranges::count_if(
      out_, [&](const auto& entry) { return entry.second.group == group && !entry.second.is_held; }));
}

bool RowPool::is_settled() const {
  const bool are_held = std::ranges::all_of(out_, [](const auto& entry) { return entry.second.is_held; });
  return waiting_.empty() && are_held;
}

}  // namespace lockstep::launcher
