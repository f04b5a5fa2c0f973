#include "launcher/rows/shared_rows.h"

#include <utility>

namespace lockstep::launcher {
namespace {

std::vector<size_t> rows_to_do(const RowResults& results, size_t rows) {
  std::vector<size_t> left;  // results are written from the first row on
  for (size_t row = 0; row < rows; ++row) {
    if (!results.is_done(row)) left.push_back(row);
  }
  return left;
}

}  // namespace

SharedRows::SharedRows(RowResults& results, size_t rows, size_t unrecorded,
                       std::function<void(const Error&)> on_failure, std::function<void(uint64_t)> on_recorded)
    : unrecorded_(unrecorded),
      recorder_(
          results,
          [this, on_failure = std::move(on_failure)](const Error& error) {
            stop();
            on_failure(error);
          },
          std::move(on_recorded)),
      pool_(rows_to_do(results, rows)) {}

std::optional<size_t> SharedRows::next(size_t group, size_t most, std::optional<Duration> limit) {
  std::optional<TimePoint> end;
  if (limit) end = SteadyClock().now() + *limit;
  if (!recorder_.wait_for_room(unrecorded_, end)) return std::nullopt;
  std::optional<size_t> row;
  {
    std::unique_lock lock(mutex_);
    const auto may_go_on = [&] { return is_stopped_ || pool_.is_settled() || may_take(group, most); };
    end ? void(changed_.wait_until(lock, *end, may_go_on)) : changed_.wait(lock, may_go_on);
    if (!is_stopped_ && may_take(group, most)) row = pool_.take(group);
  }
  if (!row) recorder_.release();
  changed_.notify_all();
  return row;
}

bool SharedRows::may_take(size_t group, size_t most) const { return pool_.has_waiting() && pool_.taken(group) < most; }

void SharedRows::put(size_t group, journal::RowResult row) {
  RowPool::Was was{};
  {
    const std::lock_guard lock(mutex_);
    was = pool_.finish(row.row);
    for (const journal::RowAnswer& answer : row.answers) tokens_[group] += std::ssize(answer.tokens);
  }
  changed_.notify_all();
  if (was == RowPool::Was::kNeither) return;
  if (was == RowPool::Was::kHeld) recorder_.admit();
  recorder_.put(std::move(row));
}

void SharedRows::hold(size_t row) {
  {
    const std::lock_guard lock(mutex_);
    pool_.hold(row);
  }
  changed_.notify_all();
  recorder_.release();
}

void SharedRows::lose(size_t group) {
  size_t worked_on = 0;
  {
    const std::lock_guard lock(mutex_);
    worked_on = pool_.lose(group);
  }
  changed_.notify_all();
  for (size_t i = 0; i < worked_on; ++i) recorder_.release();
}

int64_t SharedRows::tokens() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [group, tokens] : tokens_) sum += tokens;
  return sum;
}

int64_t SharedRows::tokens(size_t group) const {
  const std::lock_guard lock(mutex_);
  const auto at = tokens_.find(group);
  return at == tokens_.end() ? 0 : at->second;
}

bool SharedRows::is_open() const {
  const std::lock_guard lock(mutex_);
  return !is_stopped_ && !pool_.is_settled();
}

void SharedRows::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  recorder_.stop();
}

}  // namespace lockstep::launcher
