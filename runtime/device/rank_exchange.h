// Exchange of short texts and errors between ranks, before the data plane exists.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::device {

/// Returns the texts passed by all ranks, in rank order. @collective @blocking
using Exchange = std::function<Result<std::vector<std::string>>(std::string_view)>;

/// Ends work that every rank did independently. If any rank failed, all ranks fail: a failed rank with its own error,
/// the others with the error and origin of the first failed rank. @collective @blocking
Result<void> all_succeeded(const Exchange& exchange, const Result<void>& mine);

}  // namespace lockstep::device
