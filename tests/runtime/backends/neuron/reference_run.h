// The expected results of a case: its run on the reference backend, with ranks as threads.
#pragma once

#include <vector>

#include "tests/runtime/backends/neuron/oracle_case.h"

namespace lockstep::neuron {

/// The results of one rank's run.
struct RankRecord {
  std::vector<conformance::Contents> outputs;  // by step of the script
  conformance::Contents states;                // after the last
};

/// Runs the script of `c` from `contents` (weights and states by rank). Failures are failed checks.
std::vector<RankRecord> run_reference(const OracleCase& c, const std::vector<conformance::Contents>& contents);

}  // namespace lockstep::neuron
