// The command `lockstep sweep`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/measure/bench/bench.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

enum class SweepMode { kRun, kReport, kSlurmArray };
enum class FailedPoints { kKeep, kRetry };

/// A scaling study: `bench` over a grid of degrees, batch sizes and prompt lengths.
struct SweepCommand {
  BenchCommand bench;                       // shared by all points, as bench reads it
  std::vector<std::string> shared_options;  // of bench, as given: "--repeats", "2"
  std::string tp = "1", replicas = "1", batch_sizes = "1", prompt_tokens = "512";  // lists with commas
  std::filesystem::path out;
  std::string launch_template;  // empty: mpirun for several ranks, and processes of lockstep with several replicas
  std::optional<double> point_deadline_s;
  FailedPoints failed_points = FailedPoints::kKeep;
  SweepMode mode = SweepMode::kRun;
  std::optional<int> only_point;   // of the grid; a task of a Slurm array
  std::vector<std::string> words;  // the words after "sweep", as given
};

/// Runs `bench` over a grid of degrees, replicas, batch sizes and prompt lengths, and writes a report. @blocking
Result<void> sweep(const SweepCommand& command);

}  // namespace lockstep::launcher
