// The options of `plan` about the machine.
#pragma once

#include <filesystem>
#include <optional>

#include "runtime/core/ids.h"

namespace lockstep::launcher {

/// Missing values come from `measure` or `probe`, or are assumed.
struct MachineOptions {
  std::optional<double> bandwidth, flops;            // of a rank: GB/s, GFLOP/s
  std::optional<double> host_bandwidth, host_flops;  // shared by the ranks of a host
  std::optional<int> ranks_per_host;                 // default: all on one
  std::optional<int> rank_cores;                     // default: the probed cores divided by the ranks
  std::optional<double> link_latency_us, link_bandwidth;
  std::optional<double> host_link_latency_us, host_link_bandwidth;  // between hosts; default: as between ranks
  double of_bandwidth = 1.0, of_peak = 1.0;                         // share of the limits that kernels reach
  std::optional<std::filesystem::path> probe;
  bool measure = false;
  std::optional<Bytes> probe_bytes;  // of each thread's buffer, for the measurement
};

}  // namespace lockstep::launcher
