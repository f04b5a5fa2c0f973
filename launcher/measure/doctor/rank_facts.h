// One rank's facts about its host, its program and its limits.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"
#include "transport/launch_environment.h"

namespace lockstep::launcher {

/// Facts of one rank. −1: unlimited or unknown.
struct RankFacts {
  std::string program;  // version, compiler and build id, a line each
  std::string machine;  // "2 packages, 2 NUMA nodes, 64 cores of 2 hardware threads"; or why that is unknown
  int64_t memory_bytes = -1, available_bytes = -1;
  std::optional<int64_t> memory_limit;  // of a container or job, in bytes
  std::optional<double> core_limit;     // of a container or job, in cores
  std::optional<double> core_pressure;  // share of the last 10 s in which work of the host waited for a core
  int64_t open_files = -1;              // ulimit -n
  int64_t locked_bytes = -1;            // ulimit -l
  bool has_infiniband = false;
  int64_t shm_bytes = 0, shm_free = 0;                      // of /dev/shm; 0: missing
  std::map<std::string, std::string> visible;               // variables that select this process's devices
  std::map<std::string, int> installed;                     // numbers of devices in the system, by backend
  std::map<std::string, std::vector<std::string>> devices;  // what their drivers say, a line each, by backend
  std::map<std::string, std::string> device_errors;         // of drivers that do not work, by backend

  friend bool operator==(const RankFacts&, const RankFacts&) = default;
};

/// Reads this rank's facts from the system. @blocking
RankFacts own_facts(const transport::EnvironmentLookup& lookup);

/// One line for `parse_facts`; a program of another build may omit some facts.
std::string to_text(const RankFacts& facts);
/// Fails with `kFailedPrecondition` for any other text.
Result<RankFacts> parse_facts(const std::string& text, int rank);

/// "max 100000" → none; "150000 100000" → 1.5 cores: the file cpu.max of a control group.
std::optional<double> parse_cpu_max(std::string_view text);
/// "max" → none; "1073741824": the file memory.max.
std::optional<int64_t> parse_memory_max(std::string_view text);

}  // namespace lockstep::launcher
