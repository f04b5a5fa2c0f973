// Operations on the state of the slots: who runs, what was seen, how long, which token next.
#include <algorithm>

#include "runtime/backends/reference/kernels.h"

namespace lockstep::reference {
namespace {

/// The operands of `sample`, in order.
enum SampleOperand : size_t {
  kLogits,
  kRows,
  kLastId,
  kOutputIndex,
  kFinished,
  kSeen,
  kTemperature,
  kTopP,
  kMinP,
  kRepetitionPenalty,
  kTopK,
  kDoSample,
  kMaxNewTokens,
  kPadId,
  kSeed,
  kEos,
};

sampling::Parameters parameters_of(const std::vector<Tensor>& operands, int64_t slot) {
  const int32_t* seed = operands[kSeed].ints() + 2 * slot;  // low word, high word
  return {.do_sample = operands[kDoSample].ints()[slot] != 0,
          .temperature = operands[kTemperature].floats()[slot],
          .top_k = operands[kTopK].ints()[slot],
          .top_p = operands[kTopP].floats()[slot],
          .min_p = operands[kMinP].floats()[slot],
          .repetition_penalty = operands[kRepetitionPenalty].floats()[slot],
          .seed = static_cast<uint64_t>(static_cast<uint32_t>(seed[1])) << 32 | static_cast<uint32_t>(seed[0])};
}

bool is_eos(const Tensor& eos, int64_t slot, int32_t token) {
  const int32_t* first = eos.ints() + slot * eos.columns();
  return std::find(first, first + eos.columns(), token) != first + eos.columns();
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

Result<void> mark_seen(const Call& call, const Environment&) {
  const Tensor& seen = call.operands[0];
  const int32_t* ids = call.operands[1].ints();
  const int32_t* slot = call.operands[2].ints();
  for (int64_t t = 0; t < call.operands[1].elements(); ++t) {
    if (slot[t] < 0) continue;
    LOCKSTEP_CHECK(slot[t] < seen.type.shape[0] && 0 <= ids[t] && ids[t] < seen.columns(), slot[t], ids[t]);
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
  const std::vector<Tensor>& in = call.operands;
  const int64_t vocabulary = in[kLogits].columns();
  int32_t* output_index = in[kOutputIndex].ints();
  int32_t* finished = in[kFinished].ints();
  for (int64_t s = 0; s < call.result->elements(); ++s) {
    int32_t& token = call.result->ints()[s];
    token = finished[s] != 0 ? in[kPadId].ints()[s] : -1;
    if (in[kRows].ints()[s] < 0 || finished[s] != 0) continue;
    const auto width = static_cast<size_t>(vocabulary);
    token =
        sampling::choose({in[kLogits].floats() + s * vocabulary, width}, {in[kSeen].bytes() + s * vocabulary, width},
                         parameters_of(in, s), static_cast<uint32_t>(output_index[s]), *environment.scratch);
    in[kLastId].ints()[s] = token;
    ++output_index[s];
    finished[s] = is_eos(in[kEos], s, token) || output_index[s] >= in[kMaxNewTokens].ints()[s] ? 1 : 0;
  }
  return ok();
}

}  // namespace lockstep::reference
