#include "launcher/measure/bench/suite/selection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::launcher::suite {
namespace {

bool names(const std::string& id, const Goal& goal) { return goal.id == id || goal.id.starts_with(id + "-"); }

}  // namespace

Result<Suite> only(const Suite& suite, const std::vector<std::string>& ids) {
  Suite chosen;
  for (const std::string& id : ids) {
    if (std::ranges::any_of(suite.goals, [&](const Goal& goal) { return names(id, goal); })) continue;
    std::vector<std::string> known;
    for (const Goal& goal : suite.goals) known.push_back(goal.id);
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("[launcher/bench] --only: found {}, expected one of {}, or what several of them begin with", id,
                    fmt::join(known, ", "))};
  }
  for (const Goal& goal : suite.goals) {
    if (std::ranges::any_of(ids, [&](const std::string& id) { return names(id, goal); })) chosen.goals.push_back(goal);
  }
  for (const Measurement& measurement : suite.measurements) {
    const auto needs = [&](const Goal& goal) { return goal.measurement == measurement.id; };
    if (std::ranges::any_of(chosen.goals, needs)) chosen.measurements.push_back(measurement);
  }
  return chosen;
}

}  // namespace lockstep::launcher::suite
