// What ranks say to each other before the data plane stands: short texts, and whether all of them succeeded.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::device {

/// What every rank passed, by rank. @collective @blocking
using Exchange = std::function<Result<std::vector<std::string>>(std::string_view)>;

/// Ends work that every rank does on its own: fails on every rank, a rank that failed with its own error, the others
/// with that of the first rank that failed, its origin kept. @collective @blocking
Result<void> all_succeeded(const Exchange& exchange, const Result<void>& mine);

}  // namespace lockstep::device
