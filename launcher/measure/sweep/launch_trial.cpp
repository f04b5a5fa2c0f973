#include "launcher/measure/sweep/launch_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace lockstep::launcher {
namespace {

constexpr auto kTrialDeadline = std::chrono::seconds(30);

/// The text of Open MPI's refusals: fewer slots than ranks; fewer cores than ranks to bind.
constexpr std::string_view kRefusals[] = {"not enough slots", "result in binding more"};

bool counts_slots(const std::string& word) {
  const std::string name = std::filesystem::path(word).filename().string();
  return name.starts_with("mpirun") || name.starts_with("mpiexec");
}

}  // namespace

std::vector<std::string> trial_words(const LaunchTemplate& launch, int ranks) {
  std::vector<std::string> words = words_before(launch, ranks);
  if (ranks < 2 || std::ranges::none_of(words, counts_slots)) return {};
  words.emplace_back("true");
  return words;
}

Result<void> judge_trial(const LaunchTemplate& launch, int ranks, const Machine& machine, std::string_view output) {
  const auto is_there = [&](std::string_view refusal) { return output.find(refusal) != std::string_view::npos; };
  if (std::ranges::none_of(kRefusals, is_there)) return ok();
  const std::string_view allow = launch.words.empty()
                                     ? "start them with --launch-template \"mpirun --oversubscribe --bind-to none -n "
                                       "{ranks}\""
                                     : "add --oversubscribe --bind-to none to --launch-template";
  return Error{ErrorKind::kFailedPrecondition,
               fmt::format("[launcher/sweep] cannot start points of {} ranks: mpirun refuses more ranks than it counts "
                           "slots: found {} cores that the sweep may use, expected one for each rank; omit the larger "
                           "degrees from --tp, or let ranks share cores: {}",
                           ranks, machine.cores, allow)};
}

Result<void> try_launch(const LaunchTemplate& launch, int ranks, const Machine& machine,
                        const process::EnvironmentMap& environment, const process::ChildStop& stop) {
  const process::ChildCommand command{.words = trial_words(launch, ranks),
                                      .environment = environment,
                                      .output = process::ChildStream::kDiscard,
                                      .errors = process::ChildStream::kCapture};
  if (command.words.empty()) return ok();
  const auto outcome = process::run_child(command, {.deadline = kTrialDeadline}, &stop);
  if (!outcome.has_value() || outcome.value().succeeded()) return ok();
  return judge_trial(launch, ranks, machine, outcome.value().errors);
}

}  // namespace lockstep::launcher
