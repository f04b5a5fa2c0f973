// Runs the programs of a measurement in turn (A B A B …), each with a deadline, and collects what they report.
#pragma once

#include <functional>
#include <vector>

#include "launcher/measure/bench/suite/figures.h"
#include "runtime/process/child_process.h"

namespace lockstep::launcher::suite {

/// One start of one side.
struct Turn {
  int round = 0;
  size_t side = 0;

  friend bool operator==(const Turn&, const Turn&) = default;
};

/// Every side of every round, in the order in which they run. Pure.
std::vector<Turn> turns_of(const Measurement& measurement);

struct MeasureOptions {
  std::filesystem::path folder;         // where results lie while a program runs
  process::EnvironmentMap environment;  // that programs see
  int threads = 1;                      // that read files, where a measurement is about them
  const process::ChildStop* stop = nullptr;
};

/// Takes a line without its end.
using Progress = std::function<void(const std::string&)>;

/// What became of the programs; after the first one that does not work none is started, as the next ones would take as
/// long to fail. Fails with `kCancelled` once the stop is raised. @blocking
Result<std::vector<ChildRecord>> measure(const Measurement& measurement, const MeasureOptions& options,
                                         const Progress& progress);

}  // namespace lockstep::launcher::suite
