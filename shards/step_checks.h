// Whether the rows of a step and decisions fit a shard. Pure.
#pragma once

#include <cstdint>

#include "runtime/core/ids.h"
#include "runtime/core/result.h"
#include "shards/step_engine.h"

namespace lockstep::shards {

struct StepBounds {
  int64_t slots = 0;
  int64_t chunk = 0;       // rows of a prefill step
  int64_t score_rows = 0;  // of a score step
  int64_t capacity = 0;    // tokens of a slot
  int64_t vocabulary = 0;
  int64_t embedding_size = 0;  // 0: no step takes embeddings
};

/// All fail with `kInvalidArgument`. `operation` names what is done to the slot.
Result<void> check_slot(SlotId slot, int64_t slots, const char* operation);
Result<void> check_prefill(const PrefillRows& rows, const StepBounds& bounds);
Result<void> check_score(const ScoreRows& rows, const StepBounds& bounds);
Result<void> check_decision(const Decision& decision, const StepBounds& bounds);

}  // namespace lockstep::shards
