// The durable journal of a batch job: a file of finished rows. If the job is killed at any moment and started again,
// only the remaining rows run.
//
//   open ──► job() is empty ──► begin(job) ──► append(rows) append(rows) …         each on disk on return
//       └──► job() is set ──► check_same_job(*job(), asked) ──► append …
//                                                                 read(row), after all rows
//
// frames.h defines the file format; row_record.h defines the records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "runtime/core/result.h"
#include "runtime/journal/journal_file.h"
#include "runtime/journal/row_record.h"

namespace lockstep::journal {

/// Fails with `kUnsupported` in a build without journals; the message names the CMake option.
Result<void> available();

/// The rows of a journal and their positions.
class RowIndex {
 public:
  /// The offset of a row's record, and the row's index in it.
  struct Place {
    int64_t offset = 0;  // 0: none
    uint32_t index = 0;
  };

  /// Adds the next record of a journal; the first is the job. Fails with `kInvalidArgument` naming `offset` when the
  /// record is not valid at this place.
  Result<void> take(int64_t offset, std::span<const std::byte> payload);
  /// Adds rows that were just written at `offset`. Fails as `take` does.
  Result<void> note(int64_t offset, std::span<const RowResult> rows);

  const std::optional<JobDescription>& job() const { return job_; }
  uint64_t done() const { return places_.size(); }
  Place at(uint64_t row) const {
    const auto found = places_.find(row);
    return found == places_.end() ? Place{} : found->second;
  }

 private:
  Result<void> begin(int64_t offset, JobDescription job);

  std::optional<JobDescription> job_;
  std::unordered_map<uint64_t, Place> places_;  // by row; a map, so that a damaged row count allocates nothing
};

/// A journal opened exclusively by this process. Used by one thread at a time.
class Journal {
 public:
  /// Opens the journal of `folder`, or an empty one. An incomplete last record is dropped. Fails as `JournalFile::open`
  /// does; with `kInvalidArgument` for a file that is not a journal or is damaged (naming the offset).
  static Result<std::unique_ptr<Journal>> open(const std::filesystem::path& folder);

  /// Empty until `begin`.
  const std::optional<JobDescription>& job() const { return index_.job(); }
  /// Bytes of an incomplete last record, found when the journal was opened.
  int64_t dropped_bytes() const { return dropped_; }
  uint64_t done() const { return index_.done(); }
  bool is_done(uint64_t row) const { return index_.at(row).offset > 0; }

  /// Starts an empty journal with `job`. Fails as `append` does.
  Result<void> begin(const JobDescription& job);

  /// Adds new rows, at least one; they are on disk on return. Fails with `kUnavailable` when the system cannot write;
  /// earlier rows are kept, and nothing more can be added.
  Result<void> append(std::span<const RowResult> rows);

  /// Reads a finished row.
  Result<RowResult> read(uint64_t row) const;

 private:
  explicit Journal(std::unique_ptr<JournalFile> file) : file_(std::move(file)) {}

  Result<void> load();
  Result<int64_t> write(std::span<const std::byte> payload);

  std::unique_ptr<JournalFile> file_;
  RowIndex index_;
  int64_t end_ = 0;  // offset of the next record; 0: the magic bytes are written first
  int64_t dropped_ = 0;
  std::optional<Error> broken_;  // why no row can be added
};

/// The progress of a journal, readable while another process uses it.
struct Progress {
  uint64_t done = 0;
  uint64_t rows = 0;
};

/// The progress of the journal of `folder`; zeros if it has not begun. Fails as `Journal::open` does, except for locks.
Result<Progress> read_progress(const std::filesystem::path& folder);

}  // namespace lockstep::journal
