// Storage of a batch job's finished rows, in a journal or in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "runtime/core/result.h"
#include "runtime/journal/journal.h"

namespace lockstep::launcher {

/// Used by one thread at a time.
class RowResults {
 public:
  virtual ~RowResults() = default;

  virtual uint64_t done() const = 0;
  virtual bool is_done(uint64_t row) const = 0;
  /// Adds at least one row, none of them present; the rows are durable when it returns, if they can be. @blocking
  virtual Result<void> append(std::span<const journal::RowResult> rows) = 0;
  /// Reads a finished row.
  virtual Result<journal::RowResult> read(uint64_t row) const = 0;
};

/// Uses a journal that was already started.
std::unique_ptr<RowResults> keep_in_journal(std::unique_ptr<journal::Journal> journal);

/// Lost when the process ends.
std::unique_ptr<RowResults> keep_in_memory();

}  // namespace lockstep::launcher
