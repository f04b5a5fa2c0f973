// A process's record of its own end, `<dir>/rank-R.json`. It is written before anything that may wait. mpirun kills
// survivors a second after a death, and its own exit code is a race, so scripts and tests use these files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::launcher {

/// One process's end.
struct ExitRecord {
  int code = 0;
  int rank = 0;
  std::string host;
  std::optional<int> lost_rank;    // the peer whose loss ended the job
  std::optional<int> origin_rank;  // origin of the job's end: the lost rank, or the one that failed first
  std::string phase;               // phase of the run, "decode" …
  std::string operation;           // the last exchange with the others, "all_reduce" …
  uint64_t sequence = 0;           // number of that exchange
  std::string message;             // the error; empty after success
  double unix_time = 0.0;          // seconds

  friend bool operator==(const ExitRecord&, const ExitRecord&) = default;
};

/// The record as JSON text.
std::string to_json(const ExitRecord& record);

/// The fields of such a text by which the end of a start is judged: codes, ranks and the message. None for other texts.
std::optional<ExitRecord> parse_exit_record(std::string_view text);

/// The file of `rank`'s record in `folder`.
std::filesystem::path exit_record_file(const std::filesystem::path& folder, int rank);

/// Writes `folder`/rank-R.json, whole or not at all.
Result<void> write_exit_record(const std::filesystem::path& folder, const ExitRecord& record);

/// The records in `folder`, by rank; none if there is no such folder. Skips files that are not records.
std::vector<ExitRecord> read_exit_records(const std::filesystem::path& folder);

/// Removes the records of an earlier run from `folder`, those of `first_rank` and above, as far as it can.
void remove_exit_records(const std::filesystem::path& folder, int first_rank = 0);

}  // namespace lockstep::launcher
