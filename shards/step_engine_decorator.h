// A step engine that forwards every call to another one, as a base of engines that observe or record calls.
#pragma once

#include "shards/step_engine.h"

namespace lockstep::shards {

/// Borrows the other engine.
class StepEngineDecorator : public StepEngine {
 public:
  explicit StepEngineDecorator(StepEngine& inner) : inner_(inner) {}

  int64_t slots() const final { return inner_.slots(); }
  int64_t chunk() const final { return inner_.chunk(); }
  std::vector<int64_t> chunk_sizes() const final { return inner_.chunk_sizes(); }
  int64_t capacity() const final { return inner_.capacity(); }
  int64_t tokens_per_step() const final { return inner_.tokens_per_step(); }
  int64_t score_rows() const final { return inner_.score_rows(); }
  int64_t embedding_size() const final { return inner_.embedding_size(); }
  KeptTokens kept_tokens() const final { return inner_.kept_tokens(); }
  bool rows_of_one_slot() const final { return inner_.rows_of_one_slot(); }
  int64_t long_rope_after() const final { return inner_.long_rope_after(); }
  Result<void> open_slot(SlotId slot, const SlotParameters& parameters) override {
    return inner_.open_slot(slot, parameters);
  }
  Result<void> close_slot(SlotId slot) override { return inner_.close_slot(slot); }
  Result<void> save_slot(SlotCopy copy, int64_t tokens) final { return inner_.save_slot(copy, tokens); }
  Result<void> begin_with(SlotId slot, const KeptPrefix& prefix) final { return inner_.begin_with(slot, prefix); }
  Result<StepOutput> prefill(const PrefillRows& rows, StepTag tag) override { return inner_.prefill(rows, tag); }
  Result<ScoreOutput> score(const ScoreRows& rows, StepTag tag) override { return inner_.score(rows, tag); }
  Result<StepOutput> decode(StepTag tag) override { return inner_.decode(tag); }
  Result<void> decide(Decision& decision) override { return inner_.decide(decision); }
  bool all_finished() const final { return inner_.all_finished(); }
  Result<void> confirm(StepTag tag) override { return inner_.confirm(tag); }
  void request_stop(SlotId slot) final { inner_.request_stop(slot); }
  void time_device() final { inner_.time_device(); }
  device::DeviceTime device_time() const final { return inner_.device_time(); }

 protected:
  StepEngine& inner() { return inner_; }

 private:
  StepEngine& inner_;
};

}  // namespace lockstep::shards
