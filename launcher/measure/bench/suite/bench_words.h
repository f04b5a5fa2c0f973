// The command lines of the runs of bench that a suite makes. Pure.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/measure/bench/suite/goals.h"

namespace lockstep::launcher::suite {

/// A run of bench; without a config it loads the setting's checkpoint.
struct Run {
  int ranks = 1, threads = 1;
  std::filesystem::path config;
  int prompt = 512, created = 64, batch = 1;
  int repeats = 1, warmup = 1;
  std::vector<std::string> more = {};
};

/// What starts `ranks` ranks: nothing for one and for ranks that are threads.
std::vector<std::string> launcher_words(const Setting& setting, int ranks);

/// The whole command, without where its result goes.
std::vector<std::string> bench_words(const Setting& setting, const Run& run);

}  // namespace lockstep::launcher::suite
