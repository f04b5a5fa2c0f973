#include "launcher/measure/sweep/slurm_array.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/measure/sweep/launch_words.h"

namespace lockstep::launcher {

std::string points_text(const SlurmArray& array) {
  std::string text;
  for (size_t i = 0; i < array.points.size(); ++i) text += fmt::format("{:<4} {}\n", i, to_string(array.points[i]));
  return text;
}

std::string batch_script(const SlurmArray& array) {
  int most_ranks = 1;
  for (const PointShape& point : array.points) most_ranks = std::max(most_ranks, point.ranks());
  std::vector<std::string> words{array.program, "sweep"};
  words.insert(words.end(), array.sweep_words.begin(), array.sweep_words.end());
  std::string script =
      "#!/bin/bash\n# One task for each line of points.txt. Add what your cluster wants: partition, "
      "account, time.\n";
  script += "#SBATCH --job-name=lockstep-sweep\n";
  script += fmt::format("#SBATCH --array=0-{}\n", array.points.size() - 1);
  script += fmt::format("#SBATCH --ntasks={}\n", most_ranks);
  const bool has_replicas = std::ranges::any_of(array.points, [](const auto& point) { return point.replicas > 1; });
  if (has_replicas) script += "#SBATCH --nodes=1\n";  // lockstep starts all groups of a point on its own machine
  if (array.threads) script += fmt::format("#SBATCH --cpus-per-task={}\n", *array.threads);
  script += fmt::format("#SBATCH --output={}\n", quoted({(array.folder / "slurm-%A_%a.txt").string()}));
  script += "set -eu\n";
  script += fmt::format("cd -- {}\n", quoted({array.working_folder.string()}));
  script += fmt::format("exec {} --only-point \"$SLURM_ARRAY_TASK_ID\"\n", quoted(words));
  return script;
}

}  // namespace lockstep::launcher
