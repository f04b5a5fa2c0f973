// Operations on the state of the slots: running, seen, length, sampling.
#include <algorithm>

#include "runtime/backends/reference/kernels.h"
#include "runtime/sampling/scoring.h"
#include "runtime/sampling/slot_states.h"

namespace lockstep::reference {
namespace {

/// The sampling states of `sample` and `accept`, from the operands `last_id` and `seen` on.
sampling::SlotStates drawing_states(const std::vector<Tensor>& in, size_t last_id, size_t seen) {
  LOCKSTEP_CHECK(in[seen + 1].columns() == sampling::kNumbers && in[seen + 2].columns() == sampling::kIntegers,
                 in[seen + 1].columns(), in[seen + 2].columns());
  return {.last_id = in[last_id].ints(),
          .output_index = in[last_id + 1].ints(),
          .finished = in[last_id + 2].ints(),
          .seen = in[seen].bytes(),
          .numbers = in[seen + 1].floats(),
          .integers = in[seen + 2].ints(),
          .seed = in[seen + 3].ints(),
          .eos = in[seen + 4].ints(),
          .eos_ids = in[seen + 4].columns(),
          .vocabulary = in[seen].columns()};
}

/// The operands of `sample`, in order, up to the sampling states.
namespace sample_operand {
enum : size_t { kLogits, kRows, kLastId, kOutputIndex, kFinished, kSeen };
}
/// The operands of `accept`, in order, up to the sampling states.
namespace accept_operand {
enum : size_t { kLogits, kIds, kSlot, kLength, kLastId, kOutputIndex, kFinished, kSeen };
}

}  // namespace

Result<void> running_slots(const Call& call, const Environment&) {
  const int32_t* active = call.operands[0].ints();
  const int32_t* finished = call.operands[1].ints();
  for (int64_t s = 0; s < call.result->elements(); ++s) {
    call.result->ints()[s] = active[s] != 0 && finished[s] == 0 ? static_cast<int32_t>(s) : -1;
  }
  return ok();
}

Result<void> own_slots(const Call& call, const Environment&) {
  const int32_t* slot = call.operands[0].ints();
  const auto first = static_cast<int32_t>(call.node.integer("first_slot"));
  const auto count = static_cast<int32_t>(call.node.integer("slots"));
  std::transform(slot, slot + call.result->elements(), call.result->ints(),
                 [=](int32_t s) { return first <= s && s < first + count ? s - first : -1; });
  return ok();
}

Result<void> mark_seen(const Call& call, const Environment&) {
  const Tensor& seen = call.operands[0];
  const int32_t* ids = call.operands[1].ints();
  const int32_t* slot = call.operands[2].ints();
  for (int64_t t = 0; t < call.operands[1].elements(); ++t) {
    if (slot[t] < 0 || ids[t] < 0) continue;
    LOCKSTEP_CHECK(slot[t] < seen.type.shape[0] && ids[t] < seen.columns(), slot[t], ids[t]);
    seen.bytes()[slot[t] * seen.columns() + ids[t]] = 1;
  }
  return ok();
}

Result<void> advance(const Call& call, const Environment&) {
  const Tensor& length = call.operands[0];
  const int32_t* slot = call.operands[1].ints();
  for (int64_t t = 0; t < call.operands[1].elements(); ++t) {
    if (slot[t] < 0) continue;
    LOCKSTEP_CHECK(slot[t] < length.elements(), slot[t], length.elements());
    ++length.ints()[slot[t]];
  }
  return ok();
}

Result<void> sample(const Call& call, const Environment& environment) {
  using namespace sample_operand;
  const std::vector<Tensor>& in = call.operands;
  const sampling::SlotStates states = drawing_states(in, kLastId, kSeen);
  for (int64_t s = 0; s < call.result->elements(); ++s) {
    call.result->ints()[s] = sampling::sample_slot(states, s, in[kRows].ints()[s],
                                                   in[kLogits].floats() + s * states.vocabulary, *environment.scratch);
  }
  return ok();
}

Result<void> accept(const Call& call, const Environment& environment) {
  using namespace accept_operand;
  const std::vector<Tensor>& in = call.operands;
  const sampling::SlotStates states = drawing_states(in, kLastId, kSeen);
  const int64_t slots = in[kLength].elements();
  const auto per_slot = static_cast<size_t>(in[kSlot].elements() / slots);
  for (int64_t s = 0; s < slots; ++s) {
    const int64_t first = s * static_cast<int64_t>(per_slot);
    sampling::accept_slot(states, s, {in[kIds].ints() + first, per_slot}, {in[kSlot].ints() + first, per_slot},
                          in[kLogits].floats() + first * states.vocabulary, in[kLength].ints(),
                          {call.result->ints() + first, per_slot}, *environment.scratch);
  }
  return ok();
}

Result<void> score(const Call& call, const Environment&) {
  const Tensor& logits = call.operands[0];
  const auto vocabulary = static_cast<size_t>(logits.columns()), width = static_cast<size_t>(call.result->columns());
  std::vector<int32_t> ids((width - 1) / 2);
  for (int64_t row = 0; row < logits.rows(); ++row) {
    sampling::score_row({logits.floats() + row * logits.columns(), vocabulary}, call.operands[1].ints()[row], ids,
                        {call.result->floats() + row * call.result->columns(), width});
  }
  return ok();
}

}  // namespace lockstep::reference
