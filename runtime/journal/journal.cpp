#include "runtime/journal/journal.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/core/check.h"

namespace lockstep::journal {
namespace {

constexpr size_t kMostRowsOfRecord = 256;

Error misplaced(int64_t offset, std::string_view found, std::string_view expected) {
  return {
      ErrorKind::kInvalidArgument,
      fmt::format("[runtime/journal] the journal is damaged at byte {}: found {}, expected {}; take the file from a "
                  "backup, or begin a new journal in another folder",
                  offset, found, expected)};
}

Error no_journal() {
  return {ErrorKind::kInvalidArgument,
          "[runtime/journal] the file is not a journal: found other first bytes; name another folder"};
}

/// Whether the bytes are the rest of an interrupted first write: part of the magic bytes, or zeros of a file system.
/// Fails when zeros have replaced the first records, with a complete one after them.
Result<bool> is_unwritten(const Medium& medium) {
  std::vector<std::byte> bytes(static_cast<size_t>(std::min<int64_t>(medium.size, 4096)));
  LOCKSTEP_TRY_VOID(medium.read(0, bytes));
  if (std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; })) {
    LOCKSTEP_TRY(const std::optional<int64_t> next, find_record(medium, kMagicBytes));
    if (next) return damaged(/*offset=*/0, *next);
    return true;
  }
  return medium.size < kMagicBytes && std::ranges::equal(bytes, magic().first(bytes.size()));
}

/// Passes every complete record to `index`. An empty file has no records.
Result<Frames> load_index(const Medium& medium, RowIndex& index) {
  LOCKSTEP_TRY(const bool unwritten, is_unwritten(medium));
  if (unwritten) return Frames{.end = 0, .dropped = medium.size};
  std::vector<std::byte> first(kMagicBytes);
  if (medium.size < kMagicBytes) return no_journal();
  LOCKSTEP_TRY_VOID(medium.read(0, first));
  if (!std::ranges::equal(first, magic())) return no_journal();
  LOCKSTEP_TRY(Frames frames,
               walk_records(medium, [&](int64_t offset, auto payload) { return index.take(offset, payload); }));
  if (!index.job()) frames = {.end = 0, .dropped = medium.size};  // no complete job record
  return frames;
}

}  // namespace

Result<void> RowIndex::take(int64_t offset, std::span<const std::byte> payload) {
  auto decoded = decode(payload);
  if (!decoded.has_value()) {
    return Error{decoded.error().kind, fmt::format("{} (at byte {})", decoded.error().message, offset)};
  }
  Record record = std::move(decoded).assume_value();
  if (auto* job = std::get_if<JobDescription>(&record)) return begin(offset, std::move(*job));
  if (!job_) return misplaced(offset, "rows", "the job first");
  return note(offset, std::get<std::vector<RowResult>>(record));
}

Result<void> RowIndex::begin(int64_t offset, JobDescription job) {
  if (job_) return misplaced(offset, "a second job", "rows");
  job_ = std::move(job);
  return ok();
}

Result<void> RowIndex::note(int64_t offset, std::span<const RowResult> rows) {
  LOCKSTEP_CHECK(job_.has_value());
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint64_t row = rows[i].row;
    if (row >= job_->rows) {
      return misplaced(offset, fmt::format("row {}", row), fmt::format("rows below {}", job_->rows));
    }
    const bool is_new = places_.emplace(row, Place{offset, static_cast<uint32_t>(i)}).second;
    if (!is_new) return misplaced(offset, fmt::format("row {} again", row), "every row once");
  }
  return ok();
}

Result<void> available() { return ok(); }

Result<std::unique_ptr<Journal>> Journal::open(const std::filesystem::path& folder) {
  LOCKSTEP_TRY(std::unique_ptr<JournalFile> file, JournalFile::open(folder, JournalFile::Access::kExclusive));
  std::unique_ptr<Journal> journal(new Journal(std::move(file)));
  LOCKSTEP_TRY_VOID(journal->load());
  return journal;
}

Result<void> Journal::load() {
  LOCKSTEP_TRY(const Frames frames, load_index(file_->medium(), index_));
  end_ = frames.end;
  dropped_ = frames.dropped;
  return ok();
}

Result<void> Journal::begin(const JobDescription& job) {
  LOCKSTEP_CHECK(!index_.job() && end_ == 0, end_);
  LOCKSTEP_TRY(const int64_t offset, write(encode(job)));
  return index_.take(offset, encode(job));
}

Result<void> Journal::append(std::span<const RowResult> rows) {
  LOCKSTEP_CHECK(index_.job() && !rows.empty(), rows.size());
  for (size_t begin = 0; begin < rows.size(); begin += kMostRowsOfRecord) {
    const auto part = rows.subspan(begin, std::min(kMostRowsOfRecord, rows.size() - begin));
    LOCKSTEP_TRY(const int64_t offset, write(encode(part)));
    LOCKSTEP_TRY_VOID(index_.note(offset, part));
  }
  return ok();
}

/// Writes a record and returns its offset.
Result<int64_t> Journal::write(std::span<const std::byte> payload) {
  if (broken_) return *broken_;
  if (std::ssize(payload) > kMostPayloadBytes) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/journal] cannot record rows: found {} bytes, expected at most {} at a time; ask "
                             "for fewer log-probabilities or tokens of a row",
                             payload.size(), kMostPayloadBytes)};
  }
  const int64_t offset = end_ == 0 ? kMagicBytes : end_;
  std::vector<std::byte> bytes = frame(offset, payload);
  if (end_ == 0) bytes.insert(bytes.begin(), magic().begin(), magic().end());
  const Result<void> written = file_->write_end(end_, bytes);
  if (!written.has_value()) {
    broken_ = written.error();
    return written.error();
  }
  end_ += std::ssize(bytes);
  return offset;
}

Result<RowResult> Journal::read(uint64_t row) const {
  LOCKSTEP_CHECK(is_done(row), row);
  const RowIndex::Place place = index_.at(row);
  LOCKSTEP_TRY(const auto payload, read_record(file_->medium(), place.offset));
  if (!payload) return misplaced(place.offset, "a record that does not match its checksum", "what was read before");
  return decode_row(*payload, place.index);
}

Result<Progress> read_progress(const std::filesystem::path& folder) {
  const auto file = JournalFile::open(folder, JournalFile::Access::kReadOnly);
  if (!file.has_value()) {
    if (file.error().kind == ErrorKind::kNotFound) return Progress{};
    return file.error();
  }
  RowIndex index;
  LOCKSTEP_TRY_VOID(load_index(file.value()->medium(), index));
  return Progress{index.done(), index.job() ? index.job()->rows : 0};
}

}  // namespace lockstep::journal
