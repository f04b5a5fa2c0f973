// The conclusions of a study as sentences. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/measure/sweep/results.h"

namespace lockstep::launcher {

/// Sentences, most important first: the fastest degree of each series and its lead, where slower degrees spend their
/// time, failed points with reasons, and reasons to doubt numbers (more threads than cores, bad probes, several
/// machines).
std::vector<std::string> verdicts_of(const Study& study);

}  // namespace lockstep::launcher
