#include "launcher/serve/replicas/replica_options.h"

#include <fmt/format.h>

#include "launcher/process/launcher_words.h"

namespace lockstep::serve {

std::vector<std::string> engine_command(const ReplicaOptions& options, const Crew& crew) {
  std::vector<std::string> words = launcher::with_ranks(options.launcher, crew.ranks, crew.lost_hosts);
  words.insert(words.end(), options.engine.begin(), options.engine.end());
  if (crew.ranks > 0) words.insert(words.end(), {"--tp", std::to_string(crew.ranks)});
  return words;
}

int own_ranks(const ReplicaOptions& options, int ranks) {
  if (!options.launcher.empty()) return 0;
  return ranks > 0 ? ranks : 1;  // beside those of another launcher
}

std::filesystem::path records_of(const ReplicaOptions& options, size_t replica) {
  if (options.records.empty() || options.replicas == 1) return options.records;
  return std::filesystem::path(options.records) / fmt::format("replica-{}", replica);
}

}  // namespace lockstep::serve
