// This process's ranks: its own place in the group of an mpirun, or all ranks as threads; with exit records, Ctrl-C and
// the watchdogs around MPI.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "launcher/cli/command_line.h"
#include "launcher/ranks/rank_setup.h"

namespace lockstep::launcher {

/// The work of one rank.
using RankWork = std::function<Result<void>(RankContext context, RankMonitor& monitor)>;

/// Runs `work` once per rank of this process; `tp` says how many ranks there are when they are threads. The weights of
/// the folder `model` are read ahead meanwhile, where all ranks are on this host: together they need all of them.
/// Empty: nothing is. @blocking
Result<void> run_ranks(const RunOptions& run, std::optional<int> tp, const std::filesystem::path& model,
                       const RankWork& work);

}  // namespace lockstep::launcher
