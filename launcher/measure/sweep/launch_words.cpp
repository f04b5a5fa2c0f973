#include "launcher/measure/sweep/launch_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "launcher/process/launcher_words.h"

namespace lockstep::launcher {
namespace {

struct Prefix {
  std::string_view text;
  bool of_slurm_job;  // stays for srun
};

/// Prefixes of variables of a job, step or task; the first match decides.
constexpr Prefix kOfJobs[] = {
    {"LOCKSTEP_RANK", false},
    {"LOCKSTEP_JOB", false},
    {"LOCKSTEP_MEETING", false},
    {"OMPI_", false},
    {"PMIX_", false},
    {"PMI_", false},
    {"PMI2_", false},
    {"MPI_LOCAL", false},
    {"HYDI_", false},
    {"SLURM_STEP", false},
    {"SLURM_PROCID", false},
    {"SLURM_LOCALID", false},
    {"SLURM_NODEID", false},
    {"SLURM_GTIDS", false},
    {"SLURM_TASK_PID", false},
    {"SLURM_SRUN_", false},
    {"SLURM_PMI", false},
    {"SLURM_LAUNCH", false},
    {"SLURM_NTASKS_PER", false},
    {"SLURM_CPU_BIND", false},
    {"SLURM_MEM_BIND", false},
    {"SLURM_DISTRIBUTION", false},
    {"SLURM_", true},
};

/// Variables that stay although a prefix of `kOfJobs` matches.
constexpr std::string_view kOfUsers[] = {"OMPI_MCA_", "PMIX_MCA_", "OMPI_ALLOW_RUN_AS_ROOT", "SLURM_CONF"};

bool stays(std::string_view name, bool for_srun) {
  if (std::ranges::any_of(kOfUsers, [&](std::string_view prefix) { return name.starts_with(prefix); })) return true;
  const auto fits = [&](const Prefix& prefix) { return name.starts_with(prefix.text); };
  const auto* found = std::ranges::find_if(kOfJobs, fits);
  return found == std::end(kOfJobs) || (for_srun && found->of_slurm_job);
}

}  // namespace

std::string quoted(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./=:,+@%";
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

std::string LaunchTemplate::program() const {
  return words.empty() ? "" : std::filesystem::path(words.front()).filename().string();
}

Result<LaunchTemplate> parse_launch_template(std::string_view text, int most_ranks) {
  LaunchTemplate launch;
  LOCKSTEP_TRY(launch.words, split_words(text, "--launch-template"));
  for (const std::string_view own : {"threads", "processes"}) {
    if (launch.words == std::vector{std::string(own)}) return LaunchTemplate{.words = {}, .own = std::string(own)};
  }
  if (!launch.words.empty() && most_ranks > 1 && !name_ranks(launch.words)) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("[launcher/sweep] --launch-template: found \"{}\", expected {{ranks}} in it, for points of "
                    "up to {} ranks; write for example \"mpirun -n {{ranks}}\"",
                    text, most_ranks)};
  }
  return launch;
}

std::vector<std::string> words_before(const LaunchTemplate& launch, int ranks) {
  std::vector<std::string> words = with_ranks(launch.words, ranks);
  if (launch.words.empty() && launch.own.empty() && ranks > 1) words = {"mpirun", "-n", std::to_string(ranks)};
  return words;
}

std::vector<std::string> group_words(const LaunchTemplate& launch, const BenchCommandLine& bench,
                                     const PointShape& shape, const std::filesystem::path& json,
                                     std::optional<int> barrier) {
  std::vector<std::string> words = words_before(launch, shape.tp);
  words.insert(words.end(), {bench.program, "bench"});
  words.insert(words.end(), bench.model.begin(), bench.model.end());
  words.insert(words.end(), {"--tp", std::to_string(shape.tp), "--batch-size",
                             std::to_string(shape.batch / shape.replicas), "--prompt-tokens",
                             std::to_string(shape.prompt_tokens), "--new-tokens", std::to_string(shape.new_tokens)});
  words.insert(words.end(), bench.options.begin(), bench.options.end());
  if (!launch.own.empty()) words.insert(words.end(), {"--launch", launch.own});
  if (barrier) words.insert(words.end(), {"--barrier", std::to_string(*barrier)});
  words.insert(words.end(), {"--json", json.string()});
  return words;
}

Result<void> check_launch_of_replicas(const LaunchTemplate& launch, int most_replicas) {
  if (most_replicas == 1 || !launch.own.empty()) return ok();
  return Error{ErrorKind::kUnsupported,
               fmt::format("[launcher/sweep] --replicas: found --launch-template \"{}\", expected ranks that lockstep "
                           "starts, each group on its own cores; use --launch-template processes, or threads",
                           quoted(launch.words))};
}

process::EnvironmentMap scrubbed(const process::EnvironmentMap& own, const LaunchTemplate& launch) {
  process::EnvironmentMap clean;
  for (const auto& [name, value] : own) {
    if (stays(name, launch.program() == "srun")) clean.emplace(name, value);
  }
  return clean;
}

}  // namespace lockstep::launcher
