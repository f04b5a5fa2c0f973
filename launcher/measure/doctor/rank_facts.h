// What each rank sees of its host, its program and its limits, before anything is judged.
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

/// Of one rank. −1 where a limit is unlimited or a thing is not known.
struct RankFacts {
  std::string program;  // version, compiler and build id, a line each
  int64_t memory_bytes = -1, available_bytes = -1;
  std::optional<int64_t> memory_limit;  // of a container or job, in bytes
  std::optional<double> core_limit;     // likewise, in cores
  int64_t open_files = -1;              // ulimit -n
  int64_t locked_bytes = -1;            // ulimit -l
  bool has_infiniband = false;
  int64_t shm_bytes = 0, shm_free = 0;         // of /dev/shm; 0: not there
  std::map<std::string, std::string> visible;  // variables that say which devices this process may use
  std::map<std::string, int> installed;        // devices that the system shows, by the backend that they are for

  friend bool operator==(const RankFacts&, const RankFacts&) = default;
};

/// Reads them from the system. @blocking
RankFacts own_facts(const transport::EnvironmentLookup& lookup);

/// One line that `parse_facts` reads; a program of another build may leave some out.
std::string to_text(const RankFacts& facts);
/// Fails with `kFailedPrecondition` on a text that is no such line.
Result<RankFacts> parse_facts(const std::string& text, int rank);

/// "max 100000" → none; "150000 100000" → 1.5 cores: the file cpu.max of a control group.
std::optional<double> parse_cpu_max(std::string_view text);
/// "max" → none; "1073741824": the file memory.max.
std::optional<int64_t> parse_memory_max(std::string_view text);

}  // namespace lockstep::launcher
