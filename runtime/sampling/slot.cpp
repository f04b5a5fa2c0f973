#include "runtime/sampling/slot.h"

#include <algorithm>

#include "runtime/core/check.h"

namespace lockstep::sampling {
namespace {

Parameters parameters_of(const SlotView& slot) {
  const auto word = [&](int i) { return uint64_t{static_cast<uint32_t>(slot.seed[i])}; };
  return {.do_sample = slot.integers[kDoSample] != 0,
          .temperature = slot.numbers[kTemperature],
          .top_k = slot.integers[kTopK],
          .top_p = slot.numbers[kTopP],
          .min_p = slot.numbers[kMinP],
          .repetition_penalty = slot.numbers[kRepetitionPenalty],
          .seed = word(1) << 32 | word(0),
          .typical_p = slot.numbers[kTypicalP],
          .epsilon_cutoff = slot.numbers[kEpsilonCutoff],
          .eta_cutoff = slot.numbers[kEtaCutoff]};
}

void mark(std::span<uint8_t> seen, int32_t id) {
  if (id >= 0 && static_cast<size_t>(id) < seen.size()) seen[static_cast<size_t>(id)] = 1;
}

}  // namespace

PackedRule pack(const SlotRule& rule) {
  const Parameters& parameters = rule.parameters;
  PackedRule packed;
  packed.numbers[kTemperature] = parameters.temperature;
  packed.numbers[kTopP] = parameters.top_p;
  packed.numbers[kMinP] = parameters.min_p;
  packed.numbers[kTypicalP] = parameters.typical_p;
  packed.numbers[kEpsilonCutoff] = parameters.epsilon_cutoff;
  packed.numbers[kEtaCutoff] = parameters.eta_cutoff;
  packed.numbers[kRepetitionPenalty] = parameters.repetition_penalty;
  packed.integers[kTopK] = parameters.top_k;
  packed.integers[kDoSample] = parameters.do_sample ? 1 : 0;
  packed.integers[kMinNewTokens] = rule.min_new_tokens;
  packed.integers[kMaxNewTokens] = rule.max_new_tokens;
  packed.integers[kPadId] = rule.pad_id;
  packed.seed = {static_cast<int32_t>(static_cast<uint32_t>(parameters.seed)),
                 static_cast<int32_t>(static_cast<uint32_t>(parameters.seed >> 32))};
  packed.eos = rule.eos;
  return packed;
}

int32_t take_next(const SlotView& slot, std::span<const float> logits, std::span<const uint8_t> seen,
                  Scratch& scratch) {
  const std::span<const int32_t> eos(slot.eos, static_cast<size_t>(slot.eos_ids));
  const bool may_end = *slot.output_index >= slot.integers[kMinNewTokens];
  const int32_t token = choose(logits, seen, parameters_of(slot), static_cast<uint32_t>(*slot.output_index), scratch,
                               may_end ? std::span<const int32_t>() : eos);
  *slot.last_id = token;
  ++*slot.output_index;
  const bool is_end = std::find(eos.begin(), eos.end(), token) != eos.end();
  *slot.finished = is_end || *slot.output_index >= slot.integers[kMaxNewTokens] ? 1 : 0;
  return token;
}

int32_t take_drafted(const SlotView& slot, std::span<const int32_t> drafted, std::span<const float> logits,
                     std::span<uint8_t> seen, std::span<int32_t> tokens, Scratch& scratch) {
  const size_t rows = 1 + drafted.size();
  LOCKSTEP_CHECK(tokens.size() == rows && logits.size() == rows * seen.size(), tokens.size(), logits.size(), rows,
                 seen.size());
  std::fill(tokens.begin(), tokens.end(), -1);
  size_t taken = 0;
  do {
    mark(seen, *slot.last_id);  // it was an input: the last token before the step, or a draft
    tokens[taken] = take_next(slot, logits.subspan(taken * seen.size(), seen.size()), seen, scratch);
    ++taken;
  } while (taken < rows && *slot.finished == 0 && tokens[taken - 1] == drafted[taken - 1]);
  return static_cast<int32_t>(taken);
}

}  // namespace lockstep::sampling
