// Replay of a served repetition's engine calls by a bare loop on the executor's thread. It runs the same executables
// and steps without coordinator, schedules, streaming and sessions. The ratio of the two times is the cost of serving.
//
//   served   coordinator ─► shard actor ─► executor ─► CallRecorder ─► shard       tokens ─► sink
//   replay                               replay(calls) ──────────────► shard
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "runtime/core/hash.h"
#include "shards/step_engine_decorator.h"

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

/// The calls of a session in order, except those that only the control plane needs (`confirm`), and their results.
struct EngineCalls {
  std::vector<std::variant<OpenCall, CloseCall, PrefillCall, DecodeCall>> calls;
  uint64_t tokens = 0;  // a digest of all tokens of all steps
};

/// Makes the calls again. Fails with the engine's error, and with `kInternal` if the tokens differ.
/// @collective @blocking
Result<void> replay(const EngineCalls& recorded, shards::StepEngine& engine);

/// Forwards every call, and records the calls between `start` and `stop`. Used by one thread.
class CallRecorder final : public shards::StepEngineDecorator {
 public:
  using StepEngineDecorator::StepEngineDecorator;

  void start();
  EngineCalls stop();

  Result<void> open_slot(SlotId slot, const shards::SlotParameters& parameters) override;
  Result<void> close_slot(SlotId slot) override;
  Result<shards::StepOutput> prefill(const shards::PrefillRows& rows, shards::StepTag tag) override;
  Result<shards::StepOutput> decode(shards::StepTag tag) override;

 private:
  Result<shards::StepOutput> noted(Result<shards::StepOutput> output);

  bool is_recording_ = false;
  EngineCalls recorded_;
  Fingerprint tokens_;
};

}  // namespace lockstep::launcher
