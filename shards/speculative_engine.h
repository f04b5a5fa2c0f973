// Speculative decoding: a drafter proposes k tokens for every slot, and the target verifies them in one static graph
// (Leviathan et al. 2023, with common random numbers instead of rejection sampling).
//
//   drafter   t ─► a b c d                 target, one step: rows t a b c d
//   output    a b x        a and b are accepted, c is rejected, x is the target's own choice
//
// Each token is chosen from the target's logits with the random number of its output index, so the answer equals that
// of the target alone, token for token, greedy or sampled. Drafts change only the number of steps.
#pragma once

#include <memory>
#include <vector>

#include "shards/drafter.h"

namespace lockstep::shards {

/// Acceptance of drafts.
struct DraftStatistics {
  int64_t steps = 0;     // of a running slot
  int64_t drafted = 0;   // proposed tokens
  int64_t accepted = 0;  // accepted ones of them

  friend bool operator==(const DraftStatistics&, const DraftStatistics&) = default;
};

class SpeculativeEngine final : public StepEngine {
 public:
  /// `target` has a verify graph.
  SpeculativeEngine(std::unique_ptr<Shard> target, std::unique_ptr<Drafter> drafter);

  int64_t slots() const override { return target_->slots(); }
  int64_t chunk() const override { return target_->chunk(); }
  std::vector<int64_t> chunk_sizes() const override { return target_->chunk_sizes(); }
  int64_t capacity() const override { return target_->capacity(); }
  int64_t tokens_per_step() const override { return 1 + target_->options().drafts; }
  int64_t score_rows() const override { return target_->score_rows(); }
  int64_t embedding_size() const override { return target_->embedding_size(); }
  KeptTokens kept_tokens() const override;
  bool rows_of_one_slot() const override { return target_->rows_of_one_slot(); }
  int64_t long_rope_after() const override { return target_->long_rope_after(); }

  Result<void> open_slot(SlotId slot, const SlotParameters& parameters) override;
  Result<void> close_slot(SlotId slot) override;
  Result<void> save_slot(SlotCopy copy, int64_t tokens) override;
  Result<void> begin_with(SlotId slot, const KeptPrefix& prefix) override;
  Result<StepOutput> prefill(const PrefillRows& rows, StepTag tag) override;
  Result<ScoreOutput> score(const ScoreRows& rows, StepTag tag) override { return target_->score(rows, tag); }
  Result<StepOutput> decode(StepTag tag) override;
  /// Fails with `kUnsupported`, because tokens that the host chooses cannot be drafted.
  Result<void> decide(Decision& decision) override;
  bool all_finished() const override { return target_->all_finished(); }
  Result<void> confirm(StepTag tag) override { return target_->confirm(tag); }
  void request_stop(SlotId slot) override { target_->request_stop(slot); }
  void time_device() override {
    target_->time_device();
    drafter_->time_device();
  }
  device::DeviceTime device_time() const override {
    device::DeviceTime time = target_->device_time();
    time += drafter_->device_time();
    return time;
  }

  Shard& target() { return *target_; }
  const DraftStatistics& statistics() const { return statistics_; }

 private:
  Result<void> count_drafted();
  void count_accepted(const StepOutput& output);

  std::unique_ptr<Shard> target_;
  std::unique_ptr<Drafter> drafter_;
  std::vector<int32_t> drafted_;  // [slots, drafts]
  DraftStatistics statistics_;
};

}  // namespace lockstep::shards
