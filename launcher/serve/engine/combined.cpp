#include "launcher/serve/engine/combined.h"

#include <algorithm>
#include <functional>

namespace lockstep::serve {

EngineStatus combined(std::span<const EngineStatus> engines) {
  EngineStatus all;
  for (const EngineStatus& one : engines) {
    all.running += one.running;
    all.queued += one.queued;
    all.submitted += one.submitted;
    all.finished += one.finished;
    all.prompt_tokens += one.prompt_tokens;
    all.new_tokens += one.new_tokens;
    all.reused_tokens += one.reused_tokens;
    all.steps += one.steps;
    if (one.step_age_s) all.step_age_s = std::min(all.step_age_s.value_or(*one.step_age_s), *one.step_age_s);
    all.ranks.insert(all.ranks.end(), one.ranks.begin(), one.ranks.end());
    all.presence.insert(all.presence.end(), one.presence.begin(), one.presence.end());
  }
  return all;
}

EngineActivity combined(std::span<const EngineActivity> engines) {
  EngineActivity all;
  for (size_t replica = 0; replica < engines.size(); ++replica) {
    const EngineActivity& one = engines[replica];
    all.slots.insert(all.slots.end(), one.slots.begin(), one.slots.end());
    all.steps.insert(all.steps.end(), one.steps.begin(), one.steps.end());
    for (EngineActivity::Rank rank : one.ranks) {
      rank.replica = replica;
      all.ranks.push_back(std::move(rank));
    }
  }
  std::ranges::stable_sort(all.steps, std::greater(), &EngineActivity::Step::age_s);
  return all;
}

}  // namespace lockstep::serve
