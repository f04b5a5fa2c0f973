// The rows of one batch job, shared by the groups of ranks that answer them, and recorded.
//
//   group 0, 1 … ── next ─► RowPool                 a lost group's rows go to the others
//                ── put ──► RowRecorder ─► journal
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "launcher/rows/row_pool.h"
#include "launcher/rows/row_recorder.h"
#include "launcher/rows/row_source.h"
#include "runtime/core/clock.h"

namespace lockstep::launcher {

/// Thread-safe.
class SharedRows {
 public:
  /// The rows of `rows` that `results` lacks. `unrecorded`: the most rows that are handed out and not recorded. The
  /// functions are RowRecorder's.
  SharedRows(RowResults& results, size_t rows, size_t unrecorded, std::function<void(const Error&)> on_failure,
             std::function<void(uint64_t)> on_recorded);

  /// As RowSource::next, for a group that works on fewer than `most` rows. Also none when `limit` has passed: then
  /// `is_open`. @blocking
  std::optional<size_t> next(size_t group, size_t most, std::optional<Duration> limit = {});
  void put(size_t group, journal::RowResult row);
  void hold(size_t row);
  /// The group is lost.
  void lose(size_t group);

  /// Tokens of the answers that were put, in all and by `group`.
  int64_t tokens() const;
  int64_t tokens(size_t group) const;
  /// Whether a group may still get rows.
  bool is_open() const;
  /// No more rows are handed out.
  void stop();
  /// Records the remaining rows; returns the first error of recording. @blocking
  Result<void> finish() { return recorder_.finish(); }

 private:
  bool may_take(size_t group, size_t most) const;

  const size_t unrecorded_;
  RowRecorder recorder_;
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  RowPool pool_;
  std::map<size_t, int64_t> tokens_;  // by group
  bool is_stopped_ = false;
};

/// All rows for one group, this process's.
class WholeJob final : public RowSource {
 public:
  /// `rows` is borrowed.
  WholeJob(SharedRows& rows, size_t group, size_t most) : rows_(rows), group_(group), most_(most) {}

  std::optional<size_t> next() override { return rows_.next(group_, most_); }
  void put(journal::RowResult row) override { rows_.put(group_, std::move(row)); }
  void hold(size_t row) override { rows_.hold(row); }

 private:
  SharedRows& rows_;
  const size_t group_, most_;
};

}  // namespace lockstep::launcher
