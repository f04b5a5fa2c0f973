// The memory of a rank: what its store holds, and the most that its process ever held.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/device/backend.h"

namespace lockstep::launcher {

/// What it took to load the weights of a rank.
struct LoadingCost {
  Bytes peak;   // resident in the process until the model was loaded, at most
  Bytes read;   // from the files of weights, headers included
  Bytes files;  // size of those files; zero where weights are random
  Bytes ahead;  // read by this process into the page cache before they were loaded (checkpoint::ReadAhead)
};

/// In bytes. Ranks that are threads of one process share the peaks.
struct RankMemory {
  device::MemoryReport store;
  LoadingCost loading;
  Bytes peak;  // resident in the process until now, at most
};

/// The most memory that was ever resident in this process (VmHWM of /proc/self/status, proc(5)); zero if unknown.
Bytes peak_resident();

/// Of a loaded model, now.
RankMemory memory_of(const device::Store& store, const LoadingCost& loading);

/// Seconds since the process was started (exec), to about 0.01; zero if unknown.
double process_age_s();

/// As one line of text, and back: ranks exchange them.
std::string to_text(const RankMemory& memory);
RankMemory parse_memory(const std::string& text);

/// As in the "memory" of --json.
nlohmann::ordered_json to_json(const RankMemory& memory);

}  // namespace lockstep::launcher
