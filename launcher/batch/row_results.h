// Where the finished rows of a batch job are kept until the result file is written: in a journal, or in memory.
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
  /// Adds rows that are not there yet, at least one; when it returns they are as safe as they will be. @blocking
  virtual Result<void> append(std::span<const journal::RowResult> rows) = 0;
  /// A row that is done.
  virtual Result<journal::RowResult> read(uint64_t row) const = 0;
};

/// Takes over a journal that has begun.
std::unique_ptr<RowResults> keep_in_journal(std::unique_ptr<journal::Journal> journal);

/// Gone with the process.
std::unique_ptr<RowResults> keep_in_memory();

}  // namespace lockstep::launcher
