// Drafters: they propose tokens that a target model verifies, several in one step. A drafter follows the target slot by
// slot. The quality of its drafts affects the speed, never the answer.
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

  /// The tokens kept by the drafter's own slots; a drafter without caches keeps all.
  virtual KeptTokens kept_tokens() const = 0;
  /// Follows the same call of the target. @collective @blocking
  virtual Result<void> save_slot(SlotCopy copy, int64_t tokens) = 0;
  virtual Result<void> begin_with(SlotId slot, const KeptPrefix& prefix) = 0;

  /// Follows the target's prefill of these rows, which returned `output`.
  /// @collective @blocking
  virtual Result<void> prefill(const PrefillRows& rows, StepTag tag, const Shard& target, const StepOutput& output) = 0;

  /// Fills `drafted` i32 [slots, drafts] with proposals after each running slot's last token; −1: no more.
  /// @collective @blocking
  virtual Result<void> propose(const Shard& target, StepTag tag, std::span<int32_t> drafted) = 0;

  /// Follows the target's verify step; `output`'s tokens are [slots, 1 + drafts].
  virtual Result<void> follow(const Shard& target, const StepOutput& output) = 0;

  /// As `StepEngine`, of the drafter's own steps.
  virtual void time_device() {}
  virtual device::DeviceTime device_time() const { return {}; }
};

}  // namespace lockstep::shards
