#include "launcher/measure/bench/replay.h"

#include <utility>

namespace lockstep::launcher {
namespace {

std::span<const std::byte> bytes_of(const shards::StepOutput& output) { return std::as_bytes(output.tokens); }

/// Makes one call; adds the tokens of a step to `tokens`.
struct Caller {
  shards::StepEngine& engine;
  Fingerprint& tokens;

  Result<void> operator()(const OpenCall& call) { return engine.open_slot(call.slot, call.parameters); }
  Result<void> operator()(const CloseCall& call) { return engine.close_slot(call.slot); }
  Result<void> operator()(const PrefillCall& call) { return add(engine.prefill(call.rows, call.tag)); }
  Result<void> operator()(const DecodeCall& call) { return add(engine.decode(call.tag)); }

  Result<void> add(const Result<shards::StepOutput>& output) {
    if (!output.has_value()) return output.error();
    tokens.add_bytes(bytes_of(output.value()));
    return ok();
  }
};

}  // namespace

Result<void> replay(const EngineCalls& recorded, shards::StepEngine& engine) {
  Fingerprint tokens;
  Caller caller{engine, tokens};
  for (const auto& call : recorded.calls) LOCKSTEP_TRY_VOID(std::visit(caller, call));
  if (tokens.value() == recorded.tokens) return ok();
  return Error{ErrorKind::kInternal,
               "[launcher] --replay: found other tokens than the served repetition made, expected the same; report it"};
}

void CallRecorder::start() {
  recorded_ = {};
  tokens_ = {};
  is_recording_ = true;
}

EngineCalls CallRecorder::stop() {
  is_recording_ = false;
  recorded_.tokens = tokens_.value();
  return std::exchange(recorded_, {});
}

Result<void> CallRecorder::open_slot(SlotId slot, const shards::SlotParameters& parameters) {
  if (is_recording_) recorded_.calls.emplace_back(OpenCall{slot, parameters});
  return inner().open_slot(slot, parameters);
}

Result<void> CallRecorder::close_slot(SlotId slot) {
  if (is_recording_) recorded_.calls.emplace_back(CloseCall{slot});
  return inner().close_slot(slot);
}

Result<shards::StepOutput> CallRecorder::prefill(const shards::PrefillRows& rows, shards::StepTag tag) {
  if (!is_recording_) return inner().prefill(rows, tag);
  recorded_.calls.emplace_back(PrefillCall{rows, tag});
  return noted(inner().prefill(rows, tag));
}

Result<shards::StepOutput> CallRecorder::decode(shards::StepTag tag) {
  if (!is_recording_) return inner().decode(tag);
  recorded_.calls.emplace_back(DecodeCall{tag});
  return noted(inner().decode(tag));
}

Result<shards::StepOutput> CallRecorder::noted(Result<shards::StepOutput> output) {
  if (output.has_value()) tokens_.add_bytes(bytes_of(output.value()));
  return output;
}

}  // namespace lockstep::launcher
