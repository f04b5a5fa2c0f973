// Philox4x32-10 (Salmon et al., SC 2011) on u32 vectors. The device has no 64-bit product, shift or xor for them:
// products use 16-bit halves, a shift is a division, and a xor b = (a or b) − (a and b).
#include <array>

#include "runtime/backends/neuron/lowering/arithmetic.h"
#include "runtime/backends/neuron/lowering/draw.h"

namespace lockstep::neuron {
namespace {

using hlo::Builder;
using hlo::Element;
using hlo::Opcode;
using hlo::Value;

// Section 3.3; the same as in runtime/sampling/philox.cpp.
constexpr uint32_t kMultiplier0 = 0xd2511f53u;
constexpr uint32_t kMultiplier1 = 0xcd9e8d57u;
constexpr uint32_t kWeyl0 = 0x9e3779b9u;
constexpr uint32_t kWeyl1 = 0xbb67ae85u;
constexpr int kRounds = 10;
constexpr double kHalf = 65536.0;

Value exclusive_or(Builder& b, Value x, Value y) {
  return b.subtract(b.binary(Opcode::kOr, x, y), b.binary(Opcode::kAnd, x, y));
}

Value low_half(Builder& b, Value x) { return b.binary(Opcode::kAnd, x, b.fill_like(x, kHalf - 1)); }
Value high_half(Builder& b, Value x) { return b.divide(x, b.fill_like(x, kHalf)); }

struct Wide {
  Value high, low;
};

/// x · factor in 64 bits.
Wide wide_product(Builder& b, Value x, uint32_t factor) {
  const Value x_low = low_half(b, x), x_high = high_half(b, x);
  const double f_low = factor & 0xffffu, f_high = factor >> 16;
  const Value low_low = b.multiply(x_low, f_low);
  const Value low_high = b.multiply(x_low, f_high);
  const Value high_low = b.multiply(x_high, f_low);
  const Value middle = b.add(b.add(high_half(b, low_low), low_half(b, low_high)), low_half(b, high_low));
  const Value high = b.add(b.add(b.multiply(x_high, f_high), high_half(b, low_high)),
                           b.add(high_half(b, high_low), high_half(b, middle)));
  return {high, b.multiply(x, static_cast<double>(factor))};
}

}  // namespace

Value uniform(Builder& b, Value seed, Value output_index) {
  const auto word = [&](int64_t i) { return b.convert(column_of(b, seed, i), Element::kU32); };
  Value key0 = word(0), key1 = word(1);
  std::array<Value, 4> counter{};
  counter[0] = b.convert(output_index, Element::kU32);
  counter[1] = counter[2] = counter[3] = b.fill_like(counter[0], 0.0);
  for (int round = 0; round < kRounds; ++round) {
    const Wide first = wide_product(b, counter[0], kMultiplier0);
    const Wide second = wide_product(b, counter[2], kMultiplier1);
    counter = {exclusive_or(b, exclusive_or(b, second.high, counter[1]), key0), second.low,
               exclusive_or(b, exclusive_or(b, first.high, counter[3]), key1), first.low};
    key0 = b.add(key0, static_cast<double>(kWeyl0));
    key1 = b.add(key1, static_cast<double>(kWeyl1));
  }
  const Value bits = b.divide(counter[0], b.fill_like(counter[0], 256.0));  // 24 bits: exact in f32
  return b.multiply(to_f32(b, bits), 0x1p-24);
}

}  // namespace lockstep::neuron
