// What a served repetition asked of the engine, kept to be asked again by a bare loop on the executor's thread: the
// same executables and the same steps without coordinator, schedules, streaming and sessions. The one over the other is
// what being served costs.
//
//   served   coordinator ─► shard actor ─► executor ─► CallRecorder ─► shard       tokens ─► sink
//   replay                               replay(calls) ──────────────► shard
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "runtime/core/hash.h"
#include "shards/step_engine.h"

namespace lockstep::launcher {

struct OpenCall {
  SlotId slot;
  shards::SlotParameters parameters;
};
struct CloseCall {
  SlotId slot;
};
struct PrefillCall {
  shards::PrefillRows rows;
  shards::StepTag tag;
};
struct DecodeCall {
  shards::StepTag tag;
};

/// The calls of a session in order, without those that only the control plane needs (`confirm`), and what came of them.
struct EngineCalls {
  std::vector<std::variant<OpenCall, CloseCall, PrefillCall, DecodeCall>> calls;
  uint64_t tokens = 0;  // a digest of all tokens of all steps
};

/// Makes the calls again. Fails with what the engine fails with, and with `kInternal` when other tokens come out.
/// @collective @blocking
Result<void> replay(const EngineCalls& recorded, shards::StepEngine& engine);

/// Passes everything on; between `start` and `stop` it keeps the calls. Used by one thread.
class CallRecorder final : public shards::StepEngine {
 public:
  explicit CallRecorder(shards::StepEngine& inner) : inner_(inner) {}

  void start();
  EngineCalls stop();

  int64_t slots() const override { return inner_.slots(); }
  int64_t chunk() const override { return inner_.chunk(); }
  int64_t capacity() const override { return inner_.capacity(); }
  int64_t tokens_per_step() const override { return inner_.tokens_per_step(); }
  bool rows_of_one_slot() const override { return inner_.rows_of_one_slot(); }
  int64_t long_rope_after() const override { return inner_.long_rope_after(); }
  Result<void> open_slot(SlotId slot, const shards::SlotParameters& parameters) override;
  Result<void> close_slot(SlotId slot) override;
  Result<shards::StepOutput> prefill(const shards::PrefillRows& rows, shards::StepTag tag) override;
  Result<shards::StepOutput> decode(shards::StepTag tag) override;
  Result<void> decide(shards::Decision& decision) override { return inner_.decide(decision); }
  bool all_finished() const override { return inner_.all_finished(); }
  Result<void> confirm(shards::StepTag tag) override { return inner_.confirm(tag); }
  void request_stop(SlotId slot) override { inner_.request_stop(slot); }

 private:
  Result<shards::StepOutput> noted(Result<shards::StepOutput> output);

  shards::StepEngine& inner_;
  bool is_recording_ = false;
  EngineCalls recorded_;
  Fingerprint tokens_;
};

}  // namespace lockstep::launcher
