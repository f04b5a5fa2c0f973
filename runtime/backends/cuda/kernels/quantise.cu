// Rows in 8 bits: integers and scales of groups, and roundings to codes times their scale.
#include "runtime/backends/cuda/kernels/codes.h"
#include "runtime/backends/cuda/kernels/magnitudes.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {
namespace {

/// The number of the warp among all.
LOCKSTEP_DEVICE int64_t warp_of_grid() {
  return static_cast<int64_t>(block_index()) * (kQuantiseThreads / kWarpLanes) + thread_index() / kWarpLanes;
}

template <typename Rows>
LOCKSTEP_DEVICE void quantise(const QuantiseParameters& p) {
  using Element = typename Rows::Element;
  follow_previous();
  const int64_t unit = warp_of_grid();
  const int64_t row = unit / p.cut.count;
  if (row >= static_cast<int64_t>(used(p.rows)) * p.rows_of_one) return;  // the same on all lanes
  const int lane = thread_index() % kWarpLanes;
  const Columns columns = columns_of(p.cut, static_cast<int>(unit % p.cut.count));
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
  const float most = largest_magnitude<Rows>(x, columns.begin, columns.end);
  const bool is_zero = !(most >= kLeastMagnitude);  // or a NaN
  const float inverse = is_zero ? 0.0f : divide(127.0f, most);
  uint32_t* integers = p.integers + unit * p.cut.words;
  int32_t sum = 0;
  for (int word = lane; word < p.cut.words; word += kWarpLanes) {
    uint32_t packed = 0;
    for (int byte = 0; byte < 4; ++byte) {
      const int i = columns.begin + word * 4 + byte;
      if (i >= columns.end || is_zero) continue;
      const int32_t whole = whole_of(times(Rows::read(x[i]), inverse));
      packed |= (static_cast<uint32_t>(whole) & 0xffu) << (8 * byte);
    }
    integers[word] = packed;
    sum = dot_bytes(packed, 0x01010101u, sum);
  }
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (lane != 0) return;
  p.sums[unit] = sum;
  p.scales[unit] = most == most ? (is_zero ? 0.0f : divide(most, 127.0f)) : not_a_number();
}

/// The nearest number e4m3 of a value from −448 to 448.
LOCKSTEP_DEVICE float rounded_to_e4m3(float value) { return e4m3_value(e4m3_of(value)); }

template <typename Rows>
LOCKSTEP_DEVICE void fake_quantise(const FakeQuantiseParameters& p) {
  using Element = typename Rows::Element;
  follow_previous();
  const int64_t groups = (p.columns + p.group - 1) / p.group;
  const int64_t row = warp_of_grid() / groups;
  if (row >= static_cast<int64_t>(used(p.rows)) * p.rows_of_one) return;  // the same on all lanes
  const int begin = static_cast<int>(warp_of_grid() % groups) * p.group;
  const Columns columns{begin, p.group < p.columns - begin ? begin + p.group : p.columns};
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
  const float most_code = p.is_e4m3 != 0 ? 448.0f : 127.0f;
  float scale = 0.0f;
  if (p.scale != nullptr) {
    scale = *p.scale;
  } else {
    const float most = largest_magnitude<Rows>(x, columns.begin, columns.end);
    scale = most < kLeastMagnitude ? 0.0f : divide(most, most_code);
  }
  for (int i = columns.begin + thread_index() % kWarpLanes; i < columns.end; i += kWarpLanes) {
    const float code = divide(Rows::read(x[i]), scale);
    float value = code;  // of a NaN
    if (code == code) {
      const float bounded = smaller(most_code, larger(-most_code, code));
      value = p.is_e4m3 != 0 ? rounded_to_e4m3(bounded) : round_to_whole(bounded);
    }
    p.y[row * p.y_stride + i] = scale == 0.0f ? 0.0f : times(value, scale);
  }
}

}  // namespace

LOCKSTEP_KERNEL(quantise_f32, QuantiseParameters, kQuantiseThreads) { quantise<F32Rows>(p); }
LOCKSTEP_KERNEL(quantise_bf16, QuantiseParameters, kQuantiseThreads) { quantise<Bf16Rows>(p); }
LOCKSTEP_KERNEL(quantise_f16, QuantiseParameters, kQuantiseThreads) { quantise<F16Rows>(p); }
LOCKSTEP_KERNEL(fake_quantise_f32, FakeQuantiseParameters, kQuantiseThreads) { fake_quantise<F32Rows>(p); }
LOCKSTEP_KERNEL(fake_quantise_bf16, FakeQuantiseParameters, kQuantiseThreads) { fake_quantise<Bf16Rows>(p); }
LOCKSTEP_KERNEL(fake_quantise_f16, FakeQuantiseParameters, kQuantiseThreads) { fake_quantise<F16Rows>(p); }

}  // namespace lockstep::cuda
