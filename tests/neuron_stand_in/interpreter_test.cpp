// Tests of the interpreter's choices where HLO leaves one, and of its failures. oracle_test.cpp covers the numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/backends/neuron/hlo/builder.h"
#include "tests/neuron_stand_in/interpreter/program.h"

namespace lockstep::stand_in {
namespace {

using hlo::Builder;
using hlo::Direction;
using hlo::Element;
using hlo::Opcode;
using hlo::Type;
using hlo::Value;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int32_t kLowest = std::numeric_limits<int32_t>::min(), kHighest = std::numeric_limits<int32_t>::max();

Type vector_of(Element element, size_t count) { return {element, {static_cast<int64_t>(count)}, {}}; }

/// Runs the module that `build` makes of one parameter per vector; its one output.
template <typename Out, typename In, typename Build>
std::vector<Out> run(Element element, const std::vector<std::vector<In>>& inputs, Build build) {
  Builder b("test");
  std::vector<Value> parameters;
  for (const auto& input : inputs) {
    parameters.push_back(b.parameter("p" + std::to_string(parameters.size()), vector_of(element, input.size())));
  }
  const Value result = build(b, parameters);
  std::vector<Out> output(static_cast<size_t>(b.type_of(result).elements()));
  const auto program = Program::compile(std::move(b).finish({result}).module, 0).value();
  std::vector<std::byte*> in, out{reinterpret_cast<std::byte*>(output.data())};
  std::vector<std::vector<In>> copies = inputs;
  for (auto& copy : copies) in.push_back(reinterpret_cast<std::byte*>(copy.data()));
  const Outcome fault = program->run(in, out, nullptr, NanCheck::kOff);
  EXPECT_FALSE(fault.has_value()) << fault->message;
  return output;
}

template <typename In>
auto binary(Element element, Opcode opcode, const std::vector<In>& x, const std::vector<In>& y) {
  return run<In, In>(element, {x, y}, [&](Builder& b, auto& p) { return b.binary(opcode, p[0], p[1]); });
}

template <typename Out, typename In>
auto converted(Element from, Element to, const std::vector<In>& x) {
  return run<Out, In>(from, {x}, [&](Builder& b, auto& p) { return b.convert(p[0], to); });
}

TEST(Integers, WrapAndDivideAsOnXla) {
  EXPECT_THAT(binary<int32_t>(Element::kS32, Opcode::kAdd, {kHighest}, {1}), ElementsAre(kLowest));
  EXPECT_THAT(binary<int32_t>(Element::kS32, Opcode::kDivide, {-7, 7, 5, kLowest}, {2, -2, 0, -1}),
              ElementsAre(-3, -3, -1, kLowest));
  EXPECT_THAT(binary<uint32_t>(Element::kU32, Opcode::kMultiply, {0x80000001u}, {3u}), ElementsAre(0x80000003u));
  EXPECT_THAT(binary<uint32_t>(Element::kU32, Opcode::kDivide, {9u, 9u}, {4u, 0u}), ElementsAre(2u, ~0u));
}

TEST(Floats, PassNansOnThroughMaximumAndMinimum) {
  for (const Opcode opcode : {Opcode::kMaximum, Opcode::kMinimum}) {
    EXPECT_TRUE(std::isnan(binary<float>(Element::kF32, opcode, {kNan}, {1.0f})[0]));
    EXPECT_TRUE(std::isnan(binary<float>(Element::kF32, opcode, {1.0f}, {kNan})[0]));
  }
  EXPECT_THAT(binary<float>(Element::kF32, Opcode::kMaximum, {1.0f, -kInfinity}, {2.0f, -3.0f}),
              ElementsAre(2.0f, -3.0f));
}

TEST(Floats, OfSixteenBitsAreRoundedAfterEveryOperation) {
  const auto bits = [](float x) { return to_bfloat16(x).bits; };
  const std::vector<uint16_t> one{bits(1.0f)}, tiny{bits(0.00390625f)};  // 2⁻⁸: half a unit of 1
  const auto twice = run<uint16_t, uint16_t>(Element::kBF16, {one, tiny},
                                             [](Builder& b, auto& p) { return b.add(b.add(p[0], p[1]), p[1]); });
  EXPECT_EQ(twice[0], bits(1.0f));  // in f32 it would be the next number
}

TEST(Conversions, SaturateAndTakeNanAsZero) {
  EXPECT_THAT((converted<int32_t, float>(Element::kF32, Element::kS32, {2.9f, -2.9f, 3e9f, -kInfinity, kNan})),
              ElementsAre(2, -2, kHighest, kLowest, 0));
  EXPECT_THAT((converted<uint8_t, float>(Element::kF32, Element::kU8, {-1.0f, 254.7f, 300.0f})),
              ElementsAre(0, 254, 255));
  EXPECT_THAT((converted<uint16_t, float>(Element::kF32, Element::kF16, {1e6f, -1e6f})), ElementsAre(0x7c00, 0xfc00));
  EXPECT_THAT((converted<float, int32_t>(Element::kS32, Element::kF32, {16777217})), ElementsAre(16777216.0f));
}

TEST(Comparisons, WithNanAreFalseButForNotEqual) {
  const auto compare = [](Direction direction) {
    return run<uint8_t, float>(Element::kF32, {{kNan}, {1.0f}},
                               [&](Builder& b, auto& p) { return b.compare(direction, p[0], p[1]); })[0];
  };
  EXPECT_EQ(compare(Direction::kEq) + compare(Direction::kLt) + compare(Direction::kGe), 0);
  EXPECT_EQ(compare(Direction::kNe), 1);
}

TEST(Shapes, AreMovedElementByElement) {
  const std::vector<int32_t> x{0, 1, 2, 3, 4, 5};
  const auto moved = run<int32_t, int32_t>(Element::kS32, {x}, [](Builder& b, auto& p) {
    const Value turned = b.transpose(b.reshape(p[0], {2, 3}), {1, 0});        // 0 3 | 1 4 | 2 5
    const Value cut = b.slice(turned, {1, 0}, {3, 2});                        // 1 4 | 2 5
    const Value padded = b.pad(cut, b.constant(int32_t{9}), {0, 1}, {0, 0});  // 9 1 4 | 9 2 5
    return b.concatenate({padded, b.broadcast(b.constant(int32_t{7}), {2, 1}, {})}, 1);
  });
  EXPECT_THAT(moved, ElementsAre(9, 1, 4, 7, 9, 2, 5, 7));
}

TEST(Products, TakeBatchesFromAnyDimension) {
  const std::vector<float> x{1, 2, 3, 4}, y{1, 0, 0, 1};
  const auto product = run<float, float>(Element::kF32, {x, y}, [](Builder& b, auto& p) {
    const Value lhs = b.reshape(p[0], {2, 2}), rhs = b.reshape(p[1], {2, 2});  // [k, batch], [batch, k]
    return b.dot(lhs, rhs, {.lhs_contracting = {0}, .rhs_contracting = {1}, .lhs_batch = {1}, .rhs_batch = {0}},
                 Element::kF32);
  });
  EXPECT_THAT(product, ElementsAre(1, 4));
}

TEST(Sorting, KeepsTheOrderOfEqualKeys) {
  const auto order = run<int32_t, float>(Element::kF32, {{2, 1, 2, 1}}, [](Builder& b, auto& p) {
    const Value keys = b.reshape(p[0], {1, 4});
    return b.sort_rows(keys, b.iota({Element::kS32, {1, 4}, {}}, 1)).companions;
  });
  EXPECT_THAT(order, ElementsAre(1, 3, 0, 2));
}

/// A state of four rows; a step writes one of them in place, with the row's number as input.
hlo::Module cache_module() {
  Builder b("cache");
  const Value cache = b.parameter("cache", {Element::kF32, {4, 2}, {}});
  const Value row = b.parameter("row", vector_of(Element::kS32, 1));
  const Value written = b.put_rows(cache, row, b.broadcast(b.constant(5.0f), {1, 2}, {}));
  Builder::Finished finished = std::move(b).finish({b.take_rows(written, row), written});
  finished.module.aliases = {{1, 0}};
  return std::move(finished.module);
}

struct CacheRun {
  std::vector<float> cache = std::vector<float>(8, 1.0f), taken = std::vector<float>(2);
  Outcome fault;
};

CacheRun run_cache(int32_t row) {
  CacheRun ran;
  const auto program = Program::compile(cache_module(), 0).value();
  const auto at = [](auto& values) { return reinterpret_cast<std::byte*>(values.data()); };
  std::vector<int32_t> rows{row};
  std::vector<std::byte*> in{at(ran.cache), at(rows)}, out{at(ran.taken), at(ran.cache)};
  ran.fault = program->run(in, out, nullptr);
  return ran;
}

TEST(States, AreWrittenInPlace) {
  const CacheRun ran = run_cache(2);
  EXPECT_FALSE(ran.fault.has_value());
  EXPECT_THAT(ran.cache, ElementsAre(1, 1, 1, 1, 5, 5, 1, 1));
  EXPECT_THAT(ran.taken, ElementsAre(5, 5));
  EXPECT_LT(Program::compile(cache_module(), 0).value()->workspace_bytes(), 8 * sizeof(float));
}

TEST(Indices, OutsideAreFaults) {
  for (const int32_t row : {-1, 4}) {
    const CacheRun ran = run_cache(row);
    ASSERT_TRUE(ran.fault.has_value());
    EXPECT_EQ(ran.fault->kind, Fault::Kind::kOutOfRange);
    EXPECT_THAT(ran.fault->message, HasSubstr("found index " + std::to_string(row) + ", expected 0 to 3"));
  }
}

TEST(Outputs, WithANanAreFaults) {
  Builder b("nan");
  const Value x = b.parameter("x", vector_of(Element::kF32, 2));
  const auto program = Program::compile(std::move(b).finish({b.unary(Opcode::kSqrt, x)}).module, 0).value();
  std::vector<float> values{4.0f, -1.0f}, roots(2);
  std::vector<std::byte*> in{reinterpret_cast<std::byte*>(values.data())};
  std::vector<std::byte*> out{reinterpret_cast<std::byte*>(roots.data())};
  const Outcome fault = program->run(in, out, nullptr);
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->kind, Fault::Kind::kNotANumber);
  EXPECT_THAT(fault->message, HasSubstr("output 0: element 1"));
}

TEST(Modules, ThatDoNotHoldTogetherAreRefused) {
  hlo::Module module = cache_module();
  module.aliases = {{0, 0}};
  auto refused = Program::compile(module, 0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("aliased to a parameter of another type"));

  module = cache_module();
  for (hlo::Instruction& instruction : module.computations.back().instructions) {
    if (instruction.opcode == Opcode::kScatter) instruction.called = -1;
  }
  refused = Program::compile(module, 0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("without the computation that it calls"));
}

TEST(Modules, WithAUseOfAnOpcodeThatTheLoweringDoesNotMakeNameIt) {
  Builder b("sum");
  const Value x = b.parameter("x", vector_of(Element::kF32, 4));
  hlo::Module module = std::move(b).finish({b.reduce_add(x, {0})}).module;
  module.computations.front().instructions.back().opcode = Opcode::kMultiply;  // the reducer
  const auto refused = Program::compile(module, 0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("this reducer of reduce"));
}

}  // namespace
}  // namespace lockstep::stand_in
