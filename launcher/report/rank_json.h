// JSON of ranks' time, cores and memory, for --json of `generate` and `bench`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "lockstep/engine.h"
#include "runtime/trace/rank_report.h"

namespace lockstep::launcher {

/// {"compute_s", "communication_s", "waiting_s"}.
nlohmann::ordered_json to_json(const trace::PhaseSplit& split);

/// One element per rank.
nlohmann::ordered_json to_json(const std::vector<trace::RankReport>& ranks);

/// {"seconds", "waited_for_core_s", "preemptions", "stolen_s"}.
nlohmann::ordered_json to_json(const RankCores& cores);

/// Bytes: {"weights", "states_reserved", … "peak_resident"}.
nlohmann::ordered_json to_json(const RankMemory& memory);

}  // namespace lockstep::launcher
