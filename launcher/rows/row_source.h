// Where the rows of a group of ranks come from, and where their results go: this process's share of a batch job.
//
//   RowSource ─► next row ─► request ─► Engine ─► answers ─► put        of the whole job: all rows are this group's
//                                                                       of one group of several: row_client.h
#pragma once

#include <cstddef>
#include <optional>

#include "runtime/core/result.h"
#include "runtime/journal/row_record.h"

namespace lockstep::launcher {

/// `next` is called by one thread, the others by any.
class RowSource {
 public:
  virtual ~RowSource() = default;

  /// The next row to answer; none: every row has its answer, or no more will be recorded. Waits while enough rows are
  /// under way. @blocking
  virtual std::optional<size_t> next() = 0;
  /// The answers of a row, or why it has none. Never waits for the record.
  virtual void put(journal::RowResult row) = 0;
  /// The row is kept back until it is known whether it, or the engine, has failed: `put` follows, or nothing.
  virtual void hold(size_t row) = 0;
};

}  // namespace lockstep::launcher
