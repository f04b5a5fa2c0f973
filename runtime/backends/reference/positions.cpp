// Rotary positions.
#include <algorithm>
#include <cmath>

#include "runtime/backends/reference/kernels.h"

namespace lockstep::reference {
namespace {

/// The operands of `rope`, in order; the last three are present together or not at all.
enum RopeOperand : size_t { kX, kPosition, kFrequencies, kLongFrequencies, kIsLong, kSlot };

/// The frequencies of row `row`.
const float* frequencies_of(const std::vector<Tensor>& in, int64_t row) {
  if (in.size() <= kLongFrequencies) return in[kFrequencies].floats();
  const int32_t slot = in[kSlot].ints()[row];
  const bool is_long = slot >= 0 && in[kIsLong].ints()[slot] != 0;
  return in[is_long ? kLongFrequencies : kFrequencies].floats();
}

}  // namespace

Result<void> rope(const Call& call, const Environment&) {
  const std::vector<Tensor>& in = call.operands;
  const Tensor& x = in[kX];
  const int64_t half = in[kFrequencies].elements();
  const int64_t heads = call.node.integer("heads");
  const int64_t head_dim = x.columns() / heads;
  const auto scale = static_cast<float>(call.node.number("scale"));
  const bool neighbours = call.node.has("pairs", "neighbours");
  const int64_t step = neighbours ? 2 : 1;                       // between pairs
  const int64_t distance = neighbours ? 1 : half;                // within a pair
  std::copy_n(x.floats(), x.elements(), call.result->floats());  // elements beyond the rotated part are copied
  for (int64_t row = 0; row < x.rows() * heads; ++row) {
    const float* frequencies = frequencies_of(in, row / heads);
    const auto position = static_cast<float>(in[kPosition].ints()[row / heads]);
    const float* src = x.floats() + row * head_dim;
    float* dst = call.result->floats() + row * head_dim;
    for (int64_t i = 0; i < half; ++i) {
      const float angle = position * frequencies[i];
      const float cosine = std::cos(angle) * scale;
      const float sine = std::sin(angle) * scale;
      const int64_t first = i * step, second = first + distance;
      dst[first] = src[first] * cosine - src[second] * sine;
      dst[second] = src[second] * cosine + src[first] * sine;
    }
  }
  return ok();
}

Result<void> clamp_positions(const Call& call, const Environment&) {
  const auto most = static_cast<int32_t>(call.node.integer("most"));
  const int32_t* position = call.operands[0].ints();
  std::transform(position, position + call.result->elements(), call.result->ints(),
                 [=](int32_t p) { return std::min(p, most); });
  return ok();
}

}  // namespace lockstep::reference
