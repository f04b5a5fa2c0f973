// Proposes tokens that a target model then verifies, many in one step. A drafter follows the target slot by slot; how
// good its proposals are decides the speed, never the answer.
#pragma once

#include <cstdint>
#include <span>

#include "shards/shard.h"
#include "shards/step_engine.h"

namespace lockstep::shards {

/// Every rank runs its own drafter in the same way. Used by the engine's thread.
class Drafter {
 public:
  virtual ~Drafter() = default;

  virtual Result<void> open_slot(SlotId slot, const SlotParameters& parameters) = 0;
  virtual Result<void> close_slot(SlotId slot) = 0;

  /// What the drafter's own slots keep; a drafter without caches keeps all.
  virtual KeptTokens kept_tokens() const = 0;
  /// The target has done the same. @collective @blocking
  virtual Result<void> save_slot(SlotCopy copy, int64_t tokens) = 0;
  virtual Result<void> begin_with(SlotId slot, const KeptPrefix& prefix) = 0;

  /// The target has taken these rows, and has made `output` of them.
  /// @collective @blocking
  virtual Result<void> prefill(const PrefillRows& rows, StepTag tag, const Shard& target, const StepOutput& output) = 0;

  /// Fills `drafted` i32 [slots, drafts] with what may follow each running slot's last token; −1: nothing more.
  /// @collective @blocking
  virtual Result<void> propose(const Shard& target, StepTag tag, std::span<int32_t> drafted) = 0;

  /// The target has verified and gone on; `output`'s tokens are [slots, 1 + drafts].
  virtual Result<void> follow(const Shard& target, const StepOutput& output) = 0;
};

}  // namespace lockstep::shards
