// Runs a sweep's points in order and records each outcome in the journal.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/measure/sweep/group_shares.h"
#include "launcher/measure/sweep/journal.h"
#include "launcher/measure/sweep/launch_words.h"
#include "runtime/process/child_process.h"

namespace lockstep::launcher {

/// One point to run.
struct PlannedPoint {
  PointShape shape;
  std::string key;
  std::optional<Error> impossible;  // why the model, the batch or the cores cannot be divided this way
  std::vector<GroupShare> shares;   // of its groups, unless it is impossible
};

/// The settings that all points share.
struct SweepRun {
  std::filesystem::path folder;
  LaunchTemplate launch;
  BenchCommandLine bench;
  SweepVariant variant;
  Machine machine;
  process::EnvironmentMap environment;  // environment of the points
  std::optional<Duration> point_deadline;
};

/// Receives progress lines for the user, without newlines.
using Progress = std::function<void(const std::string&)>;

/// The name of the file in `SweepRun::folder` for the whole output of `point` if it fails. Pure.
std::string output_name(const PlannedPoint& point);

/// The journal's record of a point that has ended. `document` is its bench --json, or the list of those of its
/// replicas, if all have written one. Pure.
PointRecord record_of(const PlannedPoint& point, const SweepRun& run, const process::ChildOutcome& outcome,
                      std::optional<std::string> document);

/// The error of a failed program: its last line that begins with "lockstep: ", or else its last lines. Pure.
std::string reason_of(std::string_view errors);

/// "41.2 tokens/s, first after 35 ms", or the reason of the failure and the file with the rest. Pure.
std::string outcome_in_words(const PointRecord& record);

/// Runs `points` in their order and returns the records. A failed point is recorded, with a file of its whole output,
/// and the next one runs. Fails with `kCancelled` once `stop` is raised (the running point is not recorded), and if the
/// journal cannot be written. @blocking
Result<std::vector<PointRecord>> run_points(const std::vector<PlannedPoint>& points, const SweepRun& run,
                                            Journal& journal, const process::ChildStop& stop, const Progress& progress);

}  // namespace lockstep::launcher
