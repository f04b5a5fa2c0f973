#include "shards/speculative_engine.h"

#include <algorithm>

#include "runtime/core/check.h"

namespace lockstep::shards {

SpeculativeEngine::SpeculativeEngine(std::unique_ptr<Shard> target, std::unique_ptr<Drafter> drafter)
    : target_(std::move(target)),
      drafter_(std::move(drafter)),
      drafted_(static_cast<size_t>(target_->slots() * target_->options().drafts)) {
  LOCKSTEP_CHECK(!target_->graphs().verify.empty());
}

Result<void> SpeculativeEngine::open_slot(SlotId slot, const SlotParameters& parameters) {
  LOCKSTEP_TRY_VOID(target_->open_slot(slot, parameters));
  return drafter_->open_slot(slot, parameters);
}

Result<void> SpeculativeEngine::close_slot(SlotId slot) {
  LOCKSTEP_TRY_VOID(target_->close_slot(slot));
  return drafter_->close_slot(slot);
}

/// The common part of both; a drafter runs ahead of the accepted tokens.
KeptTokens SpeculativeEngine::kept_tokens() const {
  const KeptTokens target = target_->kept_tokens(), drafter = drafter_->kept_tokens();
  const int64_t ahead = tokens_per_step();
  return {.whole = std::max<int64_t>(std::min(target.whole, drafter.whole - ahead), 0),
          .rewind = std::max<int64_t>(std::min(target.rewind, drafter.rewind - ahead), 0)};
}

Result<void> SpeculativeEngine::save_slot(SlotCopy copy, int64_t tokens) {
  LOCKSTEP_TRY_VOID(target_->save_slot(copy, tokens));
  return drafter_->save_slot(copy, tokens);
}

Result<void> SpeculativeEngine::begin_with(SlotId slot, const KeptPrefix& prefix) {
  LOCKSTEP_TRY_VOID(target_->begin_with(slot, prefix));
  return drafter_->begin_with(slot, prefix);
}

Result<StepOutput> SpeculativeEngine::prefill(const PrefillRows& rows, StepTag tag) {
  LOCKSTEP_TRY(const StepOutput output, target_->prefill(rows, tag));
  LOCKSTEP_TRY_VOID(drafter_->prefill(rows, tag, *target_, output));
  return output;
}

Result<StepOutput> SpeculativeEngine::decode(StepTag tag) {
  LOCKSTEP_TRY_VOID(drafter_->propose(*target_, tag, drafted_));
  LOCKSTEP_TRY_VOID(count_drafted());
  LOCKSTEP_TRY(const StepOutput output, target_->verify(drafted_, tag));
  count_accepted(output);
  LOCKSTEP_TRY_VOID(drafter_->follow(*target_, output));
  return output;
}

Result<void> SpeculativeEngine::count_drafted() {
  const auto drafts = static_cast<size_t>(target_->options().drafts);
  for (int32_t slot = 0; slot < slots(); ++slot) {
    LOCKSTEP_TRY(const bool runs, target_->runs(SlotId(slot)));
    if (!runs) continue;
    const auto drafted = std::span(drafted_).subspan(static_cast<size_t>(slot) * drafts, drafts);
    ++statistics_.steps;
    statistics_.drafted += std::ranges::find(drafted, -1) - drafted.begin();
  }
  return ok();
}

void SpeculativeEngine::count_accepted(const StepOutput& output) {
  const auto width = static_cast<size_t>(tokens_per_step());
  for (size_t begin = 0; begin < output.tokens.size(); begin += width) {
    const auto tokens = output.tokens.subspan(begin, width);
    const int64_t taken = std::ranges::find(tokens, -1) - tokens.begin();
    statistics_.accepted += std::max<int64_t>(taken - 1, 0);  // a finished slot has only its pad
  }
}

Result<void> SpeculativeEngine::decide(Decision&) {
  return Error{ErrorKind::kUnsupported,
               "[shards] cannot speculate: found a request whose tokens the host chooses, expected plain greedy or "
               "sampled ones; leave out the draft model or prompt lookup"};
}

}  // namespace lockstep::shards
