// A sweep as a Slurm job array with one task per point. Pure.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/measure/sweep/grid.h"

namespace lockstep::launcher {

/// The launch of a task without a given template.
inline constexpr const char* kSlurmLaunch = "srun --mpi=pmix --ntasks={ranks}";

struct SlurmArray {
  std::string program;                   // lockstep itself
  std::vector<std::string> sweep_words;  // of the sweep without --slurm-array, as given
  std::filesystem::path working_folder;  // start of relative paths in them
  std::filesystem::path folder;          // --out, absolute
  std::vector<PointShape> points;
  std::optional<int> threads;  // of a rank
};

/// The file points.txt: a line for each point, beginning with its number.
std::string points_text(const SlurmArray& array);

/// The batch script.
std::string batch_script(const SlurmArray& array);

}  // namespace lockstep::launcher
