// The durable memory of a batch job: a file that rows are added to as they finish, so that a job which was killed at
// any moment, and is started again, does only the rest.
//
//   open ──► job() is empty ──► begin(job) ──► append(rows) append(rows) …         each on disk when it returns
//       └──► job() is there ──► check_same_job(*job(), asked) ──► append …
//                                                                 read(row), once all are done
//
// What the file is, byte by byte: frames.h; what a record says: row_record.h.
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

/// Fails with `kUnsupported` in a build without journals, which refuses to open one; the message names the option.
Result<void> available();

/// Which rows a journal holds, and where.
class RowIndex {
 public:
  /// A row's record and its index in there.
  struct Place {
    int64_t offset = 0;  // 0: there is none
    uint32_t index = 0;
  };

  /// Takes the next record of a journal; the first is the job. Fails with `kInvalidArgument` when a journal cannot have
  /// it there (naming `offset`).
  Result<void> take(int64_t offset, std::span<const std::byte> payload);
  /// Notes rows that were just written at `offset`. Fails likewise.
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
  std::unordered_map<uint64_t, Place> places_;  // by row: a damaged count of rows costs nothing
};

/// A journal that this process alone may add to. Used by one thread at a time.
class Journal {
 public:
  /// Opens the journal of `folder`, or an empty one. A record that was not written whole is dropped. Fails as
  /// `JournalFile::open`; with `kInvalidArgument` for a file that is no journal or is damaged (naming the offset).
  static Result<std::unique_ptr<Journal>> open(const std::filesystem::path& folder);

  /// Empty until `begin`.
  const std::optional<JobDescription>& job() const { return index_.job(); }
  /// Bytes of a last record that was not whole when the journal was opened.
  int64_t dropped_bytes() const { return dropped_; }
  uint64_t done() const { return index_.done(); }
  bool is_done(uint64_t row) const { return index_.at(row).offset > 0; }

  /// Makes an empty journal that of `job`. Fails as `append`.
  Result<void> begin(const JobDescription& job);

  /// Adds rows that are not there yet, at least one; they are on disk when it returns. Fails with `kUnavailable` when
  /// the system cannot write; rows before are kept, and nothing can be added any more.
  Result<void> append(std::span<const RowResult> rows);

  /// A row that is done.
  Result<RowResult> read(uint64_t row) const;

 private:
  explicit Journal(std::unique_ptr<JournalFile> file) : file_(std::move(file)) {}

  Result<void> load();
  Result<int64_t> write(std::span<const std::byte> payload);

  std::unique_ptr<JournalFile> file_;
  RowIndex index_;
  int64_t end_ = 0;  // where the next record goes; 0: the magic bytes first
  int64_t dropped_ = 0;
  std::optional<Error> broken_;  // why nothing can be added
};

/// How far a journal is, whoever uses it.
struct Progress {
  uint64_t done = 0;
  uint64_t rows = 0;
};

/// The progress of the journal of `folder`; zeros where it has not begun. Fails as `Journal::open`, except for locks.
Result<Progress> read_progress(const std::filesystem::path& folder);

}  // namespace lockstep::journal
