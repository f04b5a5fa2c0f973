// `lockstep bench --suite cpu`: the table of goals of this machine, each figure beside its floor and its aim.
//
//   options ─► setting (cores, ranks, shapes) ─► suite (goals.h) ─► each measurement in turn ─► rows ─► report
#pragma once

#include "launcher/cli/command_line.h"
#include "runtime/core/result.h"

namespace lockstep::launcher::suite {

/// How `cores` are shared out where a row is about several ranks.
struct RankShape {
  int ranks = 1, threads = 1;

  friend bool operator==(const RankShape&, const RankShape&) = default;
};

/// `ranks` ranks where that is given, otherwise two; as many threads for each as there are cores. One core: one rank.
RankShape rank_shape(int cores, std::optional<int> ranks);

/// Runs the suite, prints its table and writes suite.json, suite.svg and suite.html. Rows that do not work are printed
/// with their reason; the first of them decides the error once all others are there. @blocking
Result<void> run(const BenchCommand& command);

}  // namespace lockstep::launcher::suite
