// Runs the points of a sweep one after the other and writes each one's fate to the journal at once.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/measure/sweep/journal.h"
#include "launcher/measure/sweep/launch_words.h"
#include "runtime/process/child_process.h"

namespace lockstep::launcher {

/// One point that is to be run.
struct PlannedPoint {
  PointShape shape;
  std::string key;
  std::optional<Error> impossible;  // why the model cannot be cut this way
};

/// What all points share.
struct SweepRun {
  std::filesystem::path folder;
  LaunchTemplate launch;
  BenchCommandLine bench;
  SweepVariant variant;
  Machine machine;
  process::EnvironmentMap environment;  // as the points see it
  std::optional<Duration> point_deadline;
};

/// Lines for the one who waits: takes a line without its end.
using Progress = std::function<void(const std::string&)>;

/// The file of `SweepRun::folder` that keeps all that `point` printed when it failed. Pure.
std::string output_name(const PlannedPoint& point);

/// A run of bench that is over, as it goes into the journal. `document` is its --json, if it wrote one. Pure.
PointRecord record_of(const PlannedPoint& point, const SweepRun& run, const process::ChildOutcome& outcome,
                      std::optional<std::string> document);

/// What a failed program said: its last line that begins with "lockstep: ", or else its last lines. Pure.
std::string reason_of(std::string_view errors);

/// "41.2 tokens/s, first after 35 ms", or why there is none and which file has the rest. Pure.
std::string outcome_in_words(const PointRecord& record);

/// Runs `points` in their order; a point that fails is recorded, with a file of all that it printed, and the next one
/// is run. Returns the records. Fails with `kCancelled` once `stop` is raised (the point that was running is not
/// recorded), and when the journal cannot be written. @blocking
Result<std::vector<PointRecord>> run_points(const std::vector<PlannedPoint>& points, const SweepRun& run,
                                            Journal& journal, const process::ChildStop& stop, const Progress& progress);

}  // namespace lockstep::launcher
