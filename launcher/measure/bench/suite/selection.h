// Which rows of a suite are measured.
#pragma once

#include <string>
#include <vector>

#include "launcher/measure/bench/suite/goals.h"
#include "runtime/core/result.h"

namespace lockstep::launcher::suite {

/// `suite` with only the goals whose ids are `ids` or begin with one of them and a dash, and what they need. Fails with
/// `kInvalidArgument` for an id that names nothing.
Result<Suite> only(const Suite& suite, const std::vector<std::string>& ids);

}  // namespace lockstep::launcher::suite
