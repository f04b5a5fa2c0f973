// Exchanges between ranks for shared failures and equal facts.
#pragma once

#include <string>

#include "runtime/core/result.h"
#include "transport/bootstrap.h"

namespace lockstep::group {

/// Shares the outcome of work that each rank did separately: fails on every rank with the error of the first rank that
/// failed (a failed rank keeps its own). @collective @blocking
Result<void> all_succeeded(transport::Bootstrap& bootstrap, const Result<void>& mine);

/// Facts of the program itself, one a line; compared before any other exchange.
std::string statement_of_program();

/// Returns rank 0's text on every rank. @collective @blocking
Result<std::string> value_of_rank_0(transport::Bootstrap& bootstrap, const std::string& mine);

}  // namespace lockstep::group
