// What a suite found, as a table for people, as JSON and as pictures. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/measure/bench/suite/figures.h"
#include "launcher/measure/sweep/journal.h"

namespace lockstep::launcher::suite {

/// Another engine, as the scripts that run them found it.
struct Rival {
  std::string name, version;
  std::string state;   // "ran", "missing", "failed"
  std::string reason;  // how to install it, or why it failed
};

struct Report {
  std::string suite, version;
  double unix_time = 0.0;  // of its end
  Machine machine;
  int ranks = 1, threads = 1;  // of rows about several ranks
  int pairs = 1;
  std::vector<Row> rows;
  std::vector<Rival> rivals;
  std::vector<std::pair<std::string, std::vector<ChildRecord>>> children;  // by measurement
};

/// The rivals that the results of `children` name, each once; what ran in one of them ran.
std::vector<Rival> rivals_of(const std::vector<std::pair<std::string, std::vector<ChildRecord>>>& children);

/// "6 of 28 rows reach the aim, 3 more the floor, 2 are below it; 17 were not measured".
std::string summary(const Report& report);

std::string to_table(const Report& report);

/// The document suite.json; docs/benchmarks.md lists its fields.
std::string to_json(const Report& report);

/// suite.svg: a bar a row from 0 to its figure, in parts of its aim; light and dark, without references to anything.
std::string to_svg(const Report& report);

/// suite.html: the picture, and everything else as a table; without scripts or references.
std::string to_page(const Report& report);

}  // namespace lockstep::launcher::suite
