// What ranks tell each other, so that a difference or a failure is a message and not a hang or a wrong token.
#pragma once

#include <string>

#include "runtime/core/result.h"
#include "transport/bootstrap.h"

namespace lockstep::group {

/// What every rank has done by itself: fails on every rank with the error of the first rank that failed (a failed rank
/// keeps its own). @collective @blocking
Result<void> all_succeeded(transport::Bootstrap& bootstrap, const Result<void>& mine);

/// The program itself, one fact a line: compared before anything else is exchanged.
std::string statement_of_program();

/// The lines `name value` of `own` whose name every rank has. @collective @blocking
Result<std::string> common_lines(transport::Bootstrap& bootstrap, const std::string& own);

/// Rank 0's text, on every rank. @collective @blocking
Result<std::string> told_by_rank_0(transport::Bootstrap& bootstrap, const std::string& mine);

}  // namespace lockstep::group
