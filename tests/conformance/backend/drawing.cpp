#include "tests/conformance/backend/drawing.h"

namespace lockstep::conformance {

sampling::SlotRule plain_rule() {
  sampling::SlotRule rule;
  rule.max_new_tokens = 100;
  rule.pad_id = 99;
  rule.eos.fill(-1);
  return rule;
}

std::vector<graph::ValueId> add_drawing_states(CaseBuilder& b, const std::vector<sampling::SlotRule>& rules) {
  std::vector<double> numbers;
  std::vector<int32_t> integers, seed, eos;
  for (const sampling::SlotRule& rule : rules) {
    const sampling::PackedRule packed = sampling::pack(rule);
    numbers.insert(numbers.end(), packed.numbers.begin(), packed.numbers.end());
    integers.insert(integers.end(), packed.integers.begin(), packed.integers.end());
    seed.insert(seed.end(), packed.seed.begin(), packed.seed.end());
    eos.insert(eos.end(), packed.eos.begin(), packed.eos.end());
  }
  const auto slots = static_cast<int64_t>(rules.size());
  return {b.state("draw_numbers", tensor(DType::kFloat32, {slots, sampling::kNumbers}, numbers)),
          b.state("draw_integers", int_tensor({slots, sampling::kIntegers}, integers)),
          b.state("seed", int_tensor({slots, 2}, seed)),
          b.state("eos", int_tensor({slots, sampling::kMaxEosIds}, eos))};
}

}  // namespace lockstep::conformance
