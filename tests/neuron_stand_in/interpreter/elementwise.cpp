// Operations on one element of each operand at a time. Where HLO leaves a choice, XLA's CPU client is followed:
// integers wrap, division by zero gives -1 (all bits set), maximum and minimum pass a NaN on, conversions to integers
// saturate.
#include <cmath>
#include <limits>
#include <type_traits>

#include "tests/neuron_stand_in/interpreter/elements.h"
#include "tests/neuron_stand_in/interpreter/step.h"

namespace lockstep::stand_in {
namespace {

using hlo::Direction;
using hlo::Opcode;

// ---------------------------------------------------------------- arithmetic on values

/// Whether `kOp` is defined for values of type V.
template <Opcode kOp, typename V>
constexpr bool defines_unary() {
  if (kOp == Opcode::kNot) return !std::is_floating_point_v<V>;
  if (kOp == Opcode::kAbs) return std::is_signed_v<V>;
  return std::is_floating_point_v<V>;
}

template <Opcode kOp, typename V>
constexpr bool defines_binary() {
  const bool is_bitwise = kOp == Opcode::kAnd || kOp == Opcode::kOr;
  if (is_bitwise) return !std::is_floating_point_v<V>;
  return !std::is_same_v<V, bool>;
}

template <Opcode kOp, typename V>
V unary(V x) {
  if constexpr (kOp == Opcode::kNot && std::is_same_v<V, bool>) {
    return !x;
  } else if constexpr (kOp == Opcode::kNot) {
    return static_cast<V>(~static_cast<uint32_t>(x));
  } else if constexpr (kOp == Opcode::kAbs) {
    if constexpr (std::is_floating_point_v<V>) return std::fabs(x);
    return x < 0 ? static_cast<V>(0u - static_cast<uint32_t>(x)) : x;
  }
  if constexpr (kOp == Opcode::kFloor) return std::floor(x);
  if constexpr (kOp == Opcode::kExponential) return std::exp(x);
  if constexpr (kOp == Opcode::kTanh) return std::tanh(x);
  if constexpr (kOp == Opcode::kLog) return std::log(x);
  if constexpr (kOp == Opcode::kLogistic) return 1.0f / (1.0f + std::exp(-x));
  if constexpr (kOp == Opcode::kSqrt) return std::sqrt(x);
  if constexpr (kOp == Opcode::kRsqrt) return 1.0f / std::sqrt(x);
  if constexpr (kOp == Opcode::kSine) return std::sin(x);
  if constexpr (kOp == Opcode::kCosine) return std::cos(x);
}

template <typename V>
V quotient(V x, V y) {
  if constexpr (std::is_floating_point_v<V>) {
    return x / y;
  } else {
    if (y == 0) return static_cast<V>(-1);
    if (std::is_signed_v<V> && y == static_cast<V>(-1)) return static_cast<V>(0u - static_cast<uint32_t>(x));
    return static_cast<V>(x / y);
  }
}

template <bool kWantsGreater, typename V>
V extreme(V x, V y) {
  if constexpr (std::is_floating_point_v<V>) {
    if (std::isnan(x)) return x;
    if (std::isnan(y)) return y;
  }
  return (kWantsGreater ? x < y : y < x) ? y : x;
}

template <Opcode kOp, typename V>
V binary(V x, V y) {
  if constexpr (kOp == Opcode::kDivide) return quotient(x, y);
  if constexpr (kOp == Opcode::kMaximum) return extreme<true>(x, y);
  if constexpr (kOp == Opcode::kMinimum) return extreme<false>(x, y);
  if constexpr (std::is_floating_point_v<V>) {
    if constexpr (kOp == Opcode::kAdd) return x + y;
    if constexpr (kOp == Opcode::kSubtract) return x - y;
    if constexpr (kOp == Opcode::kMultiply) return x * y;
  } else {
    const auto a = static_cast<uint32_t>(x), b = static_cast<uint32_t>(y);
    if constexpr (kOp == Opcode::kAdd) return static_cast<V>(a + b);
    if constexpr (kOp == Opcode::kSubtract) return static_cast<V>(a - b);
    if constexpr (kOp == Opcode::kMultiply) return static_cast<V>(a * b);
    if constexpr (kOp == Opcode::kAnd) return static_cast<V>(a & b);
    if constexpr (kOp == Opcode::kOr) return static_cast<V>(a | b);
  }
}

template <Direction kDirection, typename V>
bool compares(V x, V y) {
  if constexpr (kDirection == Direction::kEq) return x == y;
  if constexpr (kDirection == Direction::kNe) return x != y;
  if constexpr (kDirection == Direction::kLt) return x < y;
  if constexpr (kDirection == Direction::kLe) return x <= y;
  if constexpr (kDirection == Direction::kGt) return x > y;
  return x >= y;
}

template <typename To, typename From>
To converted(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(x)) return 0;
    const auto wide = static_cast<double>(x);
    if (wide <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (wide >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(wide);
  } else {
    return static_cast<To>(x);
  }
}

// ---------------------------------------------------------------- loops

template <Opcode kOp>
Result<Run> unary_loop(const Placed& placed) {
  return with_element(placed.result().type.element, [&](auto s) -> Result<Run> {
    using S = decltype(s);
    if constexpr (defines_unary<kOp, typename S::Value>()) {
      return Run([x = placed.operands[0], y = placed.result()](const Memory& memory) -> Outcome {
        const auto* in = elements<S>(x.in(memory));
        auto* out = elements<S>(y.out(memory));
        const int64_t count = y.type.elements();
        for (int64_t i = 0; i < count; ++i) out[i] = S::store(unary<kOp>(S::load(in[i])));
        return {};
      });
    }
    return placed.unsupported("this element type");
  });
}

template <Opcode kOp>
Result<Run> binary_loop(const Placed& placed) {
  return with_element(placed.result().type.element, [&](auto s) -> Result<Run> {
    using S = decltype(s);
    if constexpr (defines_binary<kOp, typename S::Value>()) {
      return Run(
          [x = placed.operands[0], y = placed.operands[1], z = placed.result()](const Memory& memory) -> Outcome {
            const auto *lhs = elements<S>(x.in(memory)), *rhs = elements<S>(y.in(memory));
            auto* out = elements<S>(z.out(memory));
            const int64_t count = z.type.elements();
            for (int64_t i = 0; i < count; ++i) out[i] = S::store(binary<kOp>(S::load(lhs[i]), S::load(rhs[i])));
            return {};
          });
    }
    return placed.unsupported("this element type");
  });
}

template <Direction kDirection>
Result<Run> compare_loop(const Placed& placed) {
  return with_element(placed.operands[0].type.element, [&](auto s) -> Result<Run> {
    using S = decltype(s);
    return Run([x = placed.operands[0], y = placed.operands[1], z = placed.result()](const Memory& memory) -> Outcome {
      const auto *lhs = elements<S>(x.in(memory)), *rhs = elements<S>(y.in(memory));
      auto* out = elements<Pred>(z.out(memory));
      const int64_t count = z.type.elements();
      for (int64_t i = 0; i < count; ++i) out[i] = compares<kDirection>(S::load(lhs[i]), S::load(rhs[i])) ? 1 : 0;
      return {};
    });
  });
}

template <typename From>
Result<Run> convert_loop(const Placed& placed) {
  return with_element(placed.result().type.element, [&](auto s) -> Result<Run> {
    using To = decltype(s);
    return Run([x = placed.operands[0], y = placed.result()](const Memory& memory) -> Outcome {
      const auto* in = elements<From>(x.in(memory));
      auto* out = elements<To>(y.out(memory));
      const int64_t count = y.type.elements();
      for (int64_t i = 0; i < count; ++i) out[i] = To::store(converted<typename To::Value>(From::load(in[i])));
      return {};
    });
  });
}

/// Whether operands and result have the same dimensions.
bool have_same_dims(const Placed& placed) {
  for (const Operand& operand : placed.operands) {
    if (operand.type.dims != placed.result().type.dims) return false;
  }
  return true;
}

bool have_one_type(const Placed& placed) {
  for (const Operand& operand : placed.operands) {
    if (operand.type != placed.result().type) return false;
  }
  return true;
}

}  // namespace

Result<Run> make_unary(const Placed& placed) {
  if (placed.operands.size() != 1 || !have_one_type(placed)) return placed.unsupported("operands of other types");
  switch (placed.instruction.opcode) {
    case Opcode::kNot: return unary_loop<Opcode::kNot>(placed);
    case Opcode::kAbs: return unary_loop<Opcode::kAbs>(placed);
    case Opcode::kFloor: return unary_loop<Opcode::kFloor>(placed);
    case Opcode::kExponential: return unary_loop<Opcode::kExponential>(placed);
    case Opcode::kTanh: return unary_loop<Opcode::kTanh>(placed);
    case Opcode::kLog: return unary_loop<Opcode::kLog>(placed);
    case Opcode::kLogistic: return unary_loop<Opcode::kLogistic>(placed);
    case Opcode::kSqrt: return unary_loop<Opcode::kSqrt>(placed);
    case Opcode::kRsqrt: return unary_loop<Opcode::kRsqrt>(placed);
    case Opcode::kSine: return unary_loop<Opcode::kSine>(placed);
    case Opcode::kCosine: return unary_loop<Opcode::kCosine>(placed);
    default: return placed.unsupported("this opcode");
  }
}

Result<Run> make_binary(const Placed& placed) {
  if (placed.operands.size() != 2 || !have_one_type(placed)) return placed.unsupported("operands of other types");
  switch (placed.instruction.opcode) {
    case Opcode::kAdd: return binary_loop<Opcode::kAdd>(placed);
    case Opcode::kSubtract: return binary_loop<Opcode::kSubtract>(placed);
    case Opcode::kMultiply: return binary_loop<Opcode::kMultiply>(placed);
    case Opcode::kDivide: return binary_loop<Opcode::kDivide>(placed);
    case Opcode::kMaximum: return binary_loop<Opcode::kMaximum>(placed);
    case Opcode::kMinimum: return binary_loop<Opcode::kMinimum>(placed);
    case Opcode::kAnd: return binary_loop<Opcode::kAnd>(placed);
    case Opcode::kOr: return binary_loop<Opcode::kOr>(placed);
    default: return placed.unsupported("this opcode");
  }
}

Result<Run> make_compare(const Placed& placed) {
  if (placed.operands.size() != 2 || !have_same_dims(placed) || placed.operands[0].type != placed.operands[1].type ||
      placed.result().type.element != hlo::Element::kPred) {
    return placed.unsupported("operands of other types");
  }
  switch (placed.instruction.direction) {
    case Direction::kEq: return compare_loop<Direction::kEq>(placed);
    case Direction::kNe: return compare_loop<Direction::kNe>(placed);
    case Direction::kLt: return compare_loop<Direction::kLt>(placed);
    case Direction::kLe: return compare_loop<Direction::kLe>(placed);
    case Direction::kGt: return compare_loop<Direction::kGt>(placed);
    case Direction::kGe: return compare_loop<Direction::kGe>(placed);
    case Direction::kNone: break;
  }
  return placed.unsupported("no direction");
}

Result<Run> make_select(const Placed& placed) {
  if (placed.operands.size() != 3 || !have_same_dims(placed) ||
      placed.operands[0].type.element != hlo::Element::kPred || placed.operands[1].type != placed.result().type ||
      placed.operands[2].type != placed.result().type) {
    return placed.unsupported("operands of other types");
  }
  return with_element(placed.result().type.element, [&](auto s) -> Result<Run> {
    using S = decltype(s);
    return Run([c = placed.operands[0], x = placed.operands[1], y = placed.operands[2],
                z = placed.result()](const Memory& memory) -> Outcome {
      const auto* condition = elements<Pred>(c.in(memory));
      const auto *when_true = elements<S>(x.in(memory)), *when_false = elements<S>(y.in(memory));
      auto* out = elements<S>(z.out(memory));
      const int64_t count = z.type.elements();
      for (int64_t i = 0; i < count; ++i) out[i] = condition[i] != 0 ? when_true[i] : when_false[i];
      return {};
    });
  });
}

Result<Run> make_convert(const Placed& placed) {
  if (placed.operands.size() != 1 || !have_same_dims(placed)) return placed.unsupported("operands of other shapes");
  return with_element(placed.operands[0].type.element,
                      [&](auto s) -> Result<Run> { return convert_loop<decltype(s)>(placed); });
}

}  // namespace lockstep::stand_in
