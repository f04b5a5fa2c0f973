#include "shards/speculative_engine.h"

#include <algorithm>

#include "runtime/core/check.h"

namespace lockstep::shards {

SpeculativeEngine::SpeculativeEngine(std::unique_ptr<Shard> target, std::unique_ptr<Drafter> drafter)
    : target_(std::move(target)),
      drafter_(std::move(drafter)),
      drafted_(static_cast<size_t>(target_->slots() * target_->options().drafts)),
      prefill_tokens_(static_cast<size_t>(target_->slots() * (1 + target_->options().drafts))),
      runs_(static_cast<size_t>(target_->slots())) {
  LOCKSTEP_CHECK(target_->graphs().verify.has_value());
}

Result<void> SpeculativeEngine::open_slot(SlotId slot, const SlotParameters& parameters) {
  LOCKSTEP_TRY_VOID(target_->open_slot(slot, parameters));
  return drafter_->open_slot(slot, parameters);
}

Result<void> SpeculativeEngine::close_slot(SlotId slot) {
  LOCKSTEP_TRY_VOID(target_->close_slot(slot));
  return drafter_->close_slot(slot);
}

Result<StepOutput> SpeculativeEngine::prefill(const PrefillRows& rows, StepTag tag) {
  LOCKSTEP_TRY(StepOutput output, target_->prefill(rows, tag));
  LOCKSTEP_TRY_VOID(drafter_->prefill(rows, tag, *target_, output));
  std::ranges::fill(prefill_tokens_, -1);
  for (size_t slot = 0; slot < output.tokens.size(); ++slot) {
    prefill_tokens_[slot * static_cast<size_t>(tokens_per_step())] = output.tokens[slot];
  }
  output.tokens = prefill_tokens_;
  return output;
}

Result<StepOutput> SpeculativeEngine::decode(StepTag tag) {
  for (int32_t slot = 0; slot < slots(); ++slot) {
    LOCKSTEP_TRY(const SlotProgress progress, target_->progress(SlotId(slot)));
    runs_[static_cast<size_t>(slot)] = progress.runs() ? 1 : 0;
  }
  LOCKSTEP_TRY_VOID(drafter_->propose(*target_, tag, drafted_));
  LOCKSTEP_TRY(const StepOutput output, target_->verify(drafted_, tag));
  count(output);
  LOCKSTEP_TRY_VOID(drafter_->follow(*target_, output));
  return output;
}

void SpeculativeEngine::count(const StepOutput& output) {
  const int64_t width = tokens_per_step(), drafts = width - 1;
  for (int64_t slot = 0; slot < slots(); ++slot) {
    const auto tokens = output.tokens.subspan(static_cast<size_t>(slot * width), static_cast<size_t>(width));
    const auto drafted = std::span(drafted_).subspan(static_cast<size_t>(slot * drafts), static_cast<size_t>(drafts));
    const auto taken = std::ranges::find(tokens, -1) - tokens.begin();
    if (runs_[static_cast<size_t>(slot)] == 0 || taken == 0) continue;
    ++statistics_.steps;
    statistics_.drafted += std::ranges::find(drafted, -1) - drafted.begin();
    statistics_.accepted += taken - 1;
  }
}

Result<void> SpeculativeEngine::decide(Decision&) {
  return Error{ErrorKind::kUnsupported,
               "[shards] cannot speculate: found a request whose tokens the host chooses, expected plain greedy or "
               "sampled ones; leave out the draft model or prompt lookup"};
}

}  // namespace lockstep::shards
