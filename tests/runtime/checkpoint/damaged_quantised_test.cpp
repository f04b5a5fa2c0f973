// Damaged files of quantised checkpoints are refused with a sentence that names the tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/checkpoint/quantised_case.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;

/// A change to a case, and the message when the model is opened or the matrix is read.
struct Damage {
  std::string name;
  std::function<void(QuantisedCase&)> change;
  ErrorKind kind;
  std::string message;
};

void expect_refused(const std::vector<Damage>& damages) {
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.message);
    QuantisedCase golden = quantised_case(damage.name);
    damage.change(golden);
    const TemporaryDirectory directory;
    const auto checkpoint = open_case(directory, golden);
    Result<void> read = checkpoint.has_value() ? Result<void>(ok()) : checkpoint.error();
    if (checkpoint.has_value()) {
      std::vector<float> values(static_cast<size_t>(golden.shape.elements()));
      const std::vector<Range> all = {{0, golden.shape[0]}, {0, golden.shape[1]}};
      read = checkpoint.value()->read(kQuery, golden.shape, all, DType::kFloat32,
                                      std::as_writable_bytes(std::span(values)));
    }
    ASSERT_FALSE(read.has_value()) << damage.name;
    EXPECT_EQ(read.error().kind, damage.kind) << read.error().message;
    EXPECT_THAT(read.error().message, HasSubstr(damage.message)) << damage.name;
  }
}

auto without(const std::string& part) {
  return [part](QuantisedCase& golden) { golden.tensors.erase(part); };
}

auto with_shape(const std::string& part, std::vector<int64_t> shape) {
  return [part, shape](QuantisedCase& golden) {
    RawTensor& tensor = golden[part];
    int64_t before = 1, after = 1;
    for (const int64_t size : tensor.shape) before *= size;
    for (const int64_t size : shape) after *= size;
    tensor.bytes.resize(tensor.bytes.size() / static_cast<size_t>(before) * static_cast<size_t>(after));
    tensor.shape = shape;
  };
}

TEST(QuantisedTensors, RefuseMissingParts) {
  constexpr auto kMissing = ErrorKind::kNotFound;
  expect_refused(
      {{"w4a16", without("weight_scale"), kMissing, "q_proj.weight_scale of"},
       {"w4a16", without("weight_scale"), kMissing, "expected it beside model.layers.0.self_attn.q_proj.weight_packed"},
       {"w4a16 asymmetric", without("weight_zero_point"), kMissing, "q_proj.weight_zero_point"},
       {"w8a8", without("weight_scale"), kMissing, "q_proj.weight_scale"},
       {"nvfp4", without("weight_global_scale"), kMissing, "q_proj.weight_global_scale"},
       {"gptq", without("scales"), kMissing, "q_proj.scales"},
       {"gptq", without("qzeros"), kMissing, "q_proj.qzeros"},
       {"gptq", without("qweight"), kMissing, "found no tensor model.layers.0.self_attn.q_proj.weight"},
       {"awq", without("qzeros"), kMissing, "q_proj.qzeros"},
       {"fp8 of DeepSeek", without("weight_scale_inv"), kMissing, "q_proj.weight_scale"}});
}

TEST(QuantisedTensors, RefuseShapesThatDoNotFitBitsAndGroups) {
  constexpr auto kInvalid = ErrorKind::kInvalidArgument;
  const auto bits = [](int count) { return [count](QuantisedCase& golden) { golden.config["bits"] = count; }; };
  const auto group = [](int columns) {
    return [columns](QuantisedCase& golden) { golden.config["group_size"] = columns; };
  };
  expect_refused(
      {{"w4a16", with_shape("weight_scale", {13, 2}), kInvalid, "weight_scale of"},
       {"w4a16", with_shape("weight_scale", {13, 2}), kInvalid, "found shape [13,2], expected [13,3]"},
       {"w4a16", with_shape("weight_packed", {13, 6, 1}), kInvalid, "found shape [13,6,1], expected a dense matrix"},
       {"w4a16", with_shape("weight_packed", {13, 5}), kInvalid, "weight_shape of"},
       {"w4a16 asymmetric", with_shape("weight_zero_point", {1, 3}), kInvalid, "found shape [1,3], expected [2,3]"},
       {"gptq", with_shape("qweight", {8, 31}), kInvalid, "found shape [8,31], expected [8,32]"},
       {"gptq", with_shape("scales", {3, 32}), kInvalid, "found shape [3,32], expected [4,32]"},
       {"gptq", with_shape("qzeros", {4, 3}), kInvalid, "found shape [4,3], expected [4,4]"},
       {"gptq", with_shape("g_idx", {63}), kInvalid, "found shape [63,1], expected [64,1]"},
       {"gptq", bits(8), kInvalid, "scales of"},
       {"gptq v2 in 8 bits", bits(4), kInvalid, "found shape [2,32], expected [4,32]"},
       {"gptq", group(32), kInvalid, "found shape [4,32], expected [2,32]"},
       {"awq", group(32), kInvalid, "found shape [3,32], expected [2,32]"},
       {"awq", with_shape("qweight", {60, 3}), kInvalid, "found shape [60,3], expected [60,4]"},
       {"fp8 rows", with_shape("weight_scale", {12, 1}), kInvalid, "found shape [12,1], expected [13,1]"},
       {"fp8 blocks", with_shape("weight_scale", {1, 2}), kInvalid, "found shape [1,2], expected [2,2]"},
       {"nvfp4", with_shape("weight_scale", {13, 4}), kInvalid, "found shape [13,4], expected [13,3]"},
       {"nvfp4", with_shape("weight_global_scale", {2}), kInvalid, "found shape [2,1], expected [1,1]"}});
}

TEST(QuantisedTensors, RefuseOtherTypes) {
  const auto as = [](const std::string& part, const std::string& dtype) {
    return [part, dtype](QuantisedCase& golden) { golden[part].dtype = dtype; };
  };
  constexpr auto kInvalid = ErrorKind::kInvalidArgument;
  expect_refused({{"w4a16", as("weight_packed", "U32"), kInvalid, "found U32, expected I32"},
                  {"w8a8", as("weight", "U8"), kInvalid, "found U8, expected I8"},
                  {"fp8 rows", as("weight", "F8_E5M2"), kInvalid, "found F8_E5M2, expected F8_E4M3"},
                  {"gptq", as("scales", "I16"), kInvalid, "found I16, expected F16, BF16, F32"},
                  {"nvfp4", as("weight_scale", "U8"), kInvalid, "found U8, expected F8_E4M3"}});
}

TEST(QuantisedTensors, RefuseScalesThatAreNoNumbers) {
  constexpr auto kInvalid = ErrorKind::kInvalidArgument;
  constexpr uint16_t kNanF16 = 0x7e00, kInfinityF16 = 0x7c00, kNanBF16 = 0x7fc0;
  const auto number = [](const std::string& part, size_t index, auto value) {
    return [=](QuantisedCase& golden) { golden[part].set(index, value); };
  };
  expect_refused(
      {{"w4a16", number("weight_scale", 7, kNanBF16), kInvalid,
        "found the scale nan at [2, 1], expected finite scales"},
       {"gptq", number("scales", 33, kInfinityF16), kInvalid, "found the scale inf at [1, 1]"},
       {"awq", number("scales", 0, kNanF16), kInvalid, "q_proj.scales of"},
       {"fp8 of DeepSeek", number("weight_scale_inv", 1, std::nanf("")), kInvalid, "at [0, 1]"},
       {"nvfp4", number("weight_scale", 2, uint8_t{0x7f}), kInvalid, "found the scale nan at [0, 2]"},
       {"nvfp4", number("weight_global_scale", 0, 0.0f), kInvalid, "found the scale 0, expected another"},
       {"nvfp4", number("weight_global_scale", 0, 1e-38f), kInvalid, "a product of scales that is not finite"},
       {"mxfp4", number("weight_scale", 3, uint8_t{255}), kInvalid, "found the scale nan at [1, 1]"}});
}

TEST(QuantisedTensors, RefuseZerosAndOrdersThatContradictTheConfig) {
  constexpr auto kInvalid = ErrorKind::kInvalidArgument;
  const auto key = [](const std::string& name, bool value) {
    return [name, value](QuantisedCase& golden) { golden.config[name] = value; };
  };
  const auto order = [](int32_t group) { return [group](QuantisedCase& golden) { golden["g_idx"].set(5, group); }; };
  expect_refused(
      {{"gptq asymmetric", key("sym", true), kInvalid, "expected 8 everywhere, because the config says"},
       {"gptq asymmetric", key("sym", true), kInvalid, "q_proj.qzeros of"},
       {"awq", key("zero_point", false), kInvalid, "found the zero"},
       {"gptq in another order", key("desc_act", false), kInvalid, "because the config says that columns"},
       {"gptq in another order", order(4), kInvalid, "found group 4 for column 5, expected groups from 0 to 3"},
       {"gptq in another order", order(-1), kInvalid, "found group -1 for column 5"},
       {"w8a16 asymmetric rows", [](QuantisedCase& golden) { golden["weight_shape"].set(1, int64_t{40}); }, kInvalid,
        "found [11, 40], expected [11, 44] or up to 3 columns less"}});
}

TEST(QuantisedTensors, RefuseScalesOfActivations) {
  QuantisedCase golden = quantised_case("awq");
  golden.tensors["act.scales"] = {"F32", {1}, std::string(4, '\0')};
  const TemporaryDirectory directory;
  const auto checkpoint = open_case(directory, golden);
  ASSERT_FALSE(checkpoint.has_value());
  EXPECT_EQ(checkpoint.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(checkpoint.error().message, HasSubstr("q_proj.act.scales, expected activations without scales"));
}

}  // namespace
}  // namespace lockstep::checkpoint
