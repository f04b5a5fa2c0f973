// The findings of `lockstep doctor` as values, as readable lines and as JSON.
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

/// The result of one check.
struct Check {
  std::string name;  // "shared memory"
  CheckStatus status = CheckStatus::kOk;
  double seconds = 0.0;
  std::string found;
  std::string expected;  // set unless the check is ok
  std::string fix;       // the command or change that corrects it; set unless the check is ok
  std::string table;     // lines to print below; may be empty

  friend bool operator==(const Check&, const Check&) = default;
};

/// Converts a message "[component] what: found …, expected …; what to do" to a failed check.
Check failed_check(const Error& error);

/// The time of one collective with one communicator at one size.
struct CollectiveFigure {
  std::string communicator, operation;
  int64_t bytes = 0;  // of the result
  double median_us = 0.0;
  double p99_us = 0.0;  // 99th percentile

  double bytes_per_s() const { return median_us > 0 ? static_cast<double>(bytes) / (median_us * 1e-6) : 0.0; }
};

/// One host, with the resources that its ranks may use.
struct HostLine {
  std::string name;
  std::vector<int> ranks;
  int cores = 0;
  int64_t memory_bytes = 0, available_bytes = 0;
  std::optional<int64_t> memory_limit;  // of a container or job
  std::optional<double> core_limit;     // of a container or job, in cores
  std::optional<double> core_pressure;  // share of the last 10 s in which work waited for a core
  int64_t shm_bytes = 0, shm_free = 0;  // of /dev/shm
};

struct RankLine {
  std::string host;
  std::string device;
  std::vector<int> cores;
  int threads = 1;
  std::optional<double> read_bytes_per_s, flops_per_s;  // measured alone
  double stolen_share = 0.0;                            // of the host's cores' time, by a hypervisor
};

/// The machine's limits, all ranks together.
struct LimitsLine {
  double read_bytes_per_s = 0.0;
  double flops_per_s = 0.0;
  std::string precision;
};

/// The whole report.
struct DoctorReport {
  int world_size = 1;
  std::string launcher;  // "mpirun -n 4", for the next command; empty: threads or one rank
  bool threads = false;
  std::vector<Check> checks;
  std::vector<CollectiveFigure> collectives;
  std::vector<HostLine> hosts;
  std::vector<RankLine> ranks;
  std::optional<LimitsLine> limits;

  /// The worst status of all checks, except skipped ones.
  CheckStatus verdict() const;
};

/// "ok       MPI start   0.31 s  Open MPI 4.1.4": the lines of a finished check, with fix and table.
std::string to_lines(const Check& check);

/// The lines of several checks; adjacent checks that are skipped for one reason share a line.
std::string to_lines(std::span<const Check> checks);

/// The last lines: a summary, and the next command or change.
std::string closing_words(const DoctorReport& report);

/// The document of `doctor --json`; `lockstep plan --probe` reads its "probe".
std::string to_json(const DoctorReport& report);

}  // namespace lockstep::launcher
