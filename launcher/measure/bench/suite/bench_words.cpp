#include "launcher/measure/bench/suite/bench_words.h"

namespace lockstep::launcher::suite {
namespace {

std::vector<std::string> model_words(const Setting& setting, const Run& run) {
  if (run.config.empty()) return {"--model", setting.checkpoint->string()};
  return {"--random-weights", "--config", run.config.string()};
}

}  // namespace

std::vector<std::string> launcher_words(const Setting& setting, int ranks) {
  if (ranks == 1) return {};
  // Bound by core, a rank of several threads would have one core.
  std::vector<std::string> words = words_before(setting.launch, ranks);
  if (setting.launch.words.empty() && !words.empty()) words.insert(words.end(), {"--bind-to", "none"});
  return words;
}

std::vector<std::string> bench_words(const Setting& setting, const Run& run) {
  std::vector<std::string> words = launcher_words(setting, run.ranks);
  const auto add = [&](const std::vector<std::string>& more) { words.insert(words.end(), more.begin(), more.end()); };
  add({setting.program, "bench"});
  add(model_words(setting, run));
  add({"--tp", std::to_string(run.ranks), "--threads", std::to_string(run.threads)});
  add({"--prompt-tokens", std::to_string(run.prompt), "--new-tokens", std::to_string(run.created)});
  add({"--batch-size", std::to_string(run.batch), "--repeats", std::to_string(run.repeats)});
  add({"--warmup", std::to_string(run.warmup)});
  add(run.more);
  if (run.ranks == 1 || setting.launch.threads) add({"--launch", "threads"});
  add(setting.shared);
  return words;
}

}  // namespace lockstep::launcher::suite
