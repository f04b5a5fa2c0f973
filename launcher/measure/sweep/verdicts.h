// What a study says, in words. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/measure/sweep/results.h"

namespace lockstep::launcher {

/// Sentences, most important first: which degree is the fastest in each series and by how much, where the time of
/// slower degrees goes, which points did not work and why, and what makes numbers doubtful (more threads than cores,
/// bad probes, several machines).
std::vector<std::string> verdicts_of(const Study& study);

}  // namespace lockstep::launcher
