// Options of `bench --suite` as values.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launcher {

struct SuiteOptions {
  std::string name;  // "cpu"; empty: no suite
  std::filesystem::path out = "suite";
  bool quick = false;
  std::optional<int> pairs;             // default: 5, or 2 with --quick
  std::vector<std::string> only;        // names of rows, or their beginnings
  std::vector<std::string> rivals;      // NAME=PATH
  std::filesystem::path rival_scripts;  // empty: tools/compare next to tools/suite
  std::optional<std::filesystem::path> checkpoint;
  std::string launch_template;
  double child_deadline_s = 300.0;
};

}  // namespace lockstep::launcher
