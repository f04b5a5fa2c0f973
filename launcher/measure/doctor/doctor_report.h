// What `lockstep doctor` finds, as values, as lines for people and as JSON.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::launcher {

enum class CheckStatus { kOk, kWarning, kFailed, kSkipped };

/// "ok", "warning", "FAILED", "skipped".
std::string_view to_string(CheckStatus status);

/// One thing that was checked.
struct Check {
  std::string name;  // "shared memory"
  CheckStatus status = CheckStatus::kOk;
  double seconds = 0.0;
  std::string found;
  std::string expected;  // of what is not ok
  std::string fix;       // of what is not ok: what to type or change
  std::string table;     // lines to print below; may be empty

  friend bool operator==(const Check&, const Check&) = default;
};

/// The parts of a message "[component] what: found …, expected …; what to do" as a failed check.
Check failed_check(const Error& error);

/// One collective of one communicator at one size.
struct CollectiveFigure {
  std::string communicator, operation;
  int64_t bytes = 0;  // of the result
  double median_us = 0.0;
  double p99_us = 0.0;  // 99 of 100 were at least as quick

  double bytes_per_s() const { return median_us > 0 ? static_cast<double>(bytes) / (median_us * 1e-6) : 0.0; }
};

/// One host, with what its ranks may use of it.
struct HostLine {
  std::string name;
  std::vector<int> ranks;
  int cores = 0;
  int64_t memory_bytes = 0, available_bytes = 0;
  std::optional<int64_t> memory_limit;  // of a container or job
  std::optional<double> core_limit;     // likewise, in cores
  int64_t shm_bytes = 0, shm_free = 0;  // of /dev/shm
};

struct RankLine {
  std::string host;
  std::string device;
  std::vector<int> cores;
  int threads = 1;
  std::optional<double> read_bytes_per_s, flops_per_s;  // alone
};

/// The machine's limits, all ranks together.
struct LimitsLine {
  double read_bytes_per_s = 0.0;
  double flops_per_s = 0.0;
  std::string precision;
};

/// Everything that is reported.
struct DoctorReport {
  int world_size = 1;
  std::string launcher;  // "mpirun -n 4", in front of the next command; empty: threads or one rank
  bool threads = false;
  std::vector<Check> checks;
  std::vector<CollectiveFigure> collectives;
  std::vector<HostLine> hosts;
  std::vector<RankLine> ranks;
  std::optional<LimitsLine> limits;

  /// The worst status of all checks; skipped ones do not count.
  CheckStatus verdict() const;
};

/// "ok       MPI start   0.31 s  Open MPI 4.1.4": a check as it is printed when it ends, with fix and table.
std::string to_lines(const Check& check);

/// The same for several; neighbours that are skipped for one reason share a line.
std::string to_lines(std::span<const Check> checks);

/// The last lines: what all of it means, and what to type or change next.
std::string closing_words(const DoctorReport& report);

/// The document of `doctor --json`; `lockstep plan --probe` reads its "probe".
std::string to_json(const DoctorReport& report);

}  // namespace lockstep::launcher
