// Operations on the state of the slots: running, seen, length, sampling.
#include <algorithm>

#include "runtime/backends/reference/kernels.h"
#include "runtime/sampling/scoring.h"
#include "runtime/sampling/slot.h"

namespace lockstep::reference {
namespace {

/// The sampling states of `sample` and `accept`; `first` is the operand "seen".
struct DrawingStates {
  DrawingStates(const std::vector<Tensor>& in, size_t first)
      : seen(in[first]), numbers(in[first + 1]), integers(in[first + 2]), seed(in[first + 3]), eos(in[first + 4]) {
    LOCKSTEP_CHECK(numbers.columns() == sampling::kNumbers && integers.columns() == sampling::kIntegers,
                   numbers.columns(), integers.columns());
  }

  sampling::SlotView slot(int64_t s, const Tensor& last_id, const Tensor& output_index, const Tensor& finished) const {
    return {.numbers = numbers.floats() + s * numbers.columns(),
            .integers = integers.ints() + s * integers.columns(),
            .seed = seed.ints() + s * seed.columns(),
            .eos = eos.ints() + s * eos.columns(),
            .eos_ids = eos.columns(),
            .last_id = last_id.ints() + s,
            .output_index = output_index.ints() + s,
            .finished = finished.ints() + s};
  }
  std::span<uint8_t> seen_of(int64_t s) const {
    return {seen.bytes() + s * seen.columns(), static_cast<size_t>(seen.columns())};
  }
  int32_t pad_id(int64_t s) const { return integers.ints()[s * integers.columns() + sampling::kPadId]; }

  const Tensor& seen;
  const Tensor& numbers;
  const Tensor& integers;
  const Tensor& seed;
  const Tensor& eos;
};

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
  const DrawingStates states(in, kSeen);
  const int64_t vocabulary = in[kLogits].columns();
  for (int64_t s = 0; s < call.result->elements(); ++s) {
    int32_t& token = call.result->ints()[s];
    if (in[kFinished].ints()[s] != 0) {
      token = states.pad_id(s);
    } else if (in[kRows].ints()[s] < 0) {
      token = -1;
    } else {
      token = sampling::take_next(states.slot(s, in[kLastId], in[kOutputIndex], in[kFinished]),
                                  {in[kLogits].floats() + s * vocabulary, static_cast<size_t>(vocabulary)},
                                  states.seen_of(s), *environment.scratch);
    }
  }
  return ok();
}

Result<void> accept(const Call& call, const Environment& environment) {
  using namespace accept_operand;
  const std::vector<Tensor>& in = call.operands;
  const DrawingStates states(in, kSeen);
  const int64_t vocabulary = in[kLogits].columns();
  const int64_t slots = in[kLength].elements();
  const int64_t most = in[kSlot].elements() / slots;  // rows per slot
  std::fill_n(call.result->ints(), call.result->elements(), -1);
  for (int64_t s = 0; s < slots; ++s) {
    const int64_t first = s * most;
    const int32_t* slot = in[kSlot].ints() + first;
    int32_t* tokens = call.result->ints() + first;
    if (slot[0] < 0) {
      tokens[0] = in[kFinished].ints()[s] != 0 ? states.pad_id(s) : -1;
      continue;
    }
    const auto rows = static_cast<size_t>(std::find(slot, slot + most, -1) - slot);  // −1: padding, no draft
    in[kLength].ints()[s] += sampling::take_drafted(
        states.slot(s, in[kLastId], in[kOutputIndex], in[kFinished]), {in[kIds].ints() + first + 1, rows - 1},
        {in[kLogits].floats() + first * vocabulary, rows * static_cast<size_t>(vocabulary)}, states.seen_of(s),
        {tokens, rows}, *environment.scratch);
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
