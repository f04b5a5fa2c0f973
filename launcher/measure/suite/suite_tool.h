// `lockstep bench --suite`: starts the score card in the source tree's tools/suite.
//
//   build/release/bin/lockstep bench --suite cpu --quick ──► python3 tools/suite/suite.py --program=… --quick …
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/measure/bench/bench.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// The path of tools/suite/suite.py in the nearest folder above `program` that has one.
std::optional<std::filesystem::path> find_suite_tool(const std::filesystem::path& program);

/// The command line of `tool` for `command`. Pure.
std::vector<std::string> suite_words(const BenchCommand& command, const std::filesystem::path& program,
                                     const std::filesystem::path& tool);

/// Replaces this process by the tool, which prints, writes and ends with the exit codes of lockstep. It returns only
/// errors: `kFailedPrecondition` in a rank of a launcher, `kInvalidArgument` for an invalid launch template, and
/// `kUnavailable`, with the command to run, if python3 or the tool is missing.
Result<void> exec_suite_tool(const BenchCommand& command);

}  // namespace lockstep::launcher
