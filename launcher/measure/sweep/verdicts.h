// The conclusions of a study as sentences. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/measure/sweep/results.h"

namespace lockstep::launcher {

/// Sentences, most important first: the fastest split of each series and its lead, where slower ones spend their time;
/// of as many ranks, the best split into replicas and degrees for throughput and for latency; failed points with
/// reasons, and reasons to doubt numbers (more threads than cores, groups that did not compute together, bad probes,
/// several machines).
std::vector<std::string> verdicts_of(const Study& study);

}  // namespace lockstep::launcher
