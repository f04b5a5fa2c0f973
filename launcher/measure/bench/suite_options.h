// The options of `bench --suite`, as values.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launcher {

struct SuiteOptions {
  std::string name;  // "cpu"; empty: no suite is asked for
  std::filesystem::path out = "suite";
  bool quick = false;
  std::optional<int> pairs;             // default: 5, 2 when it is to be quick
  std::vector<std::string> only;        // rows, or what their names begin with
  std::vector<std::string> rivals;      // NAME=PATH
  std::filesystem::path rival_scripts;  // empty: tools/compare beside tools/suite
  std::optional<std::filesystem::path> checkpoint;
  std::string launch_template;
  double child_deadline_s = 300.0;
};

}  // namespace lockstep::launcher
