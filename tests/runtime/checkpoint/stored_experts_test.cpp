#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/checkpoint/stored_tensors.h"
#include "tests/runtime/checkpoint/counting_tensor.h"
#include "tests/runtime/checkpoint/stored_testing.h"
#include "tests/temporary_directory.h"

namespace lockstep::checkpoint {
namespace {

using model::StoredTensor;
using ::testing::HasSubstr;

TEST(StoredTensors, OfMixtralAreExpertsOneByOneOrStacked) {
  const std::string stored = "model.layers.0.block_sparse_moe.", layer = "model.layers.0.mlp.";
  const auto from = [](float first) {
    return [first](int64_t row, int64_t column) { return first + static_cast<float>(row * kHidden + column); };
  };
  const TemporaryDirectory directory;
  const auto single = open_with(directory, "mixtral",
                                {counting(stored + "experts.1.w1.weight", {4, kHidden}, 100),
                                 counting(stored + "experts.1.w2.weight", {kHidden, 4}, 200),
                                 counting(stored + "experts.1.w3.weight", {4, kHidden}, 300),
                                 counting(stored + "gate.weight", {kExperts, kHidden}, 400)})
                          .value();
  expect_matrix(*single, layer + "experts.1.gate_proj.weight", {4, kHidden}, from(100));
  expect_matrix(*single, layer + "experts.1.down_proj.weight", {kHidden, 4},
                [](int64_t row, int64_t column) { return 200 + static_cast<float>(row * 4 + column); });
  expect_matrix(*single, layer + "experts.1.up_proj.weight", {4, kHidden}, from(300));
  expect_matrix(*single, layer + "router.weight", {kExperts, kHidden}, from(400));
  EXPECT_FALSE(single->contains(layer + "experts.0.gate_proj.weight"));
  const auto stacked = open_with(directory, "mixtral",
                                 {counting(layer + "experts.gate_up_proj", {kExperts, 8, kHidden}),
                                  counting(layer + "experts.down_proj", {kExperts, kHidden, 4}),
                                  counting(layer + "gate.weight", {kExperts, kHidden})})
                           .value();
  expect_matrix(*stacked, layer + "experts.1.gate_proj.weight", {4, kHidden}, from(8 * kHidden));
  expect_matrix(*stacked, layer + "experts.1.up_proj.weight", {4, kHidden}, from(12 * kHidden));
  expect_matrix(*stacked, layer + "experts.1.down_proj.weight", {kHidden, 4},
                [](int64_t row, int64_t column) { return static_cast<float>((kHidden + row) * 4 + column); });
  EXPECT_TRUE(stacked->contains(layer + "router.weight"));
}

TEST(StoredTensors, OfGptOssHaveGateAndUpInTurnAndTheInputFirst) {
  const TemporaryDirectory directory;
  const std::string layer = "model.layers.0.mlp.";
  const auto checkpoint = open_with(directory, "gpt_oss",
                                    {counting(layer + "experts.gate_up_proj", {kExperts, kHidden, 8}),
                                     counting(layer + "experts.gate_up_proj_bias", {kExperts, 8}),
                                     counting(layer + "experts.down_proj", {kExperts, 4, kHidden}),
                                     counting(layer + "experts.down_proj_bias", {kExperts, kHidden}),
                                     counting(layer + "router.bias", {kExperts}),
                                     counting("model.layers.0.self_attn.sinks", {kQueryHeads})})
                              .value();
  for (const int64_t expert : {0, 1}) {
    const std::string stack = layer + "experts." + std::to_string(expert);
    for (const int64_t part : {0, 1}) {
      const std::string name = stack + (part == 0 ? ".gate_proj" : ".up_proj");
      expect_matrix(*checkpoint, name + ".weight", {4, kHidden}, [=](int64_t out, int64_t in) {
        return static_cast<float>((expert * kHidden + in) * 8 + 2 * out + part);
      });
      const auto first = static_cast<float>(expert * 8 + part);
      expect_vector(*checkpoint, name + ".bias", {first, first + 2, first + 4, first + 6});
    }
    expect_matrix(*checkpoint, stack + ".down_proj.weight", {kHidden, 4},
                  [=](int64_t out, int64_t in) { return static_cast<float>((expert * 4 + in) * kHidden + out); });
    EXPECT_TRUE(checkpoint->contains(stack + ".down_proj.bias"));
  }
  expect_vector(*checkpoint, "model.layers.0.self_attn.sinks", {0, 1, 2});
  expect_vector(*checkpoint, layer + "router.bias", {0, 1});
}

/// Nibbles and exponents that differ from one to the next.
std::vector<std::byte> varied_bytes(size_t count, unsigned first, unsigned step, unsigned bound) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>((first + i * step) % bound));
  return bytes;
}

/// E2M1: sign, two bits of exponent with bias 1, one of mantissa.
float mxfp4_element(uint8_t nibble, uint8_t scale) {
  const int exponent = nibble >> 1 & 3, mantissa = nibble & 1;
  const float magnitude = exponent == 0 ? 0.5f * static_cast<float>(mantissa)
                                        : std::ldexp(1.0f + 0.5f * static_cast<float>(mantissa), exponent - 1);
  return std::ldexp(nibble & 8 ? -magnitude : magnitude, scale - 127);
}

TEST(StoredTensors, InMxfp4AreDecodedExactly) {
  constexpr int64_t kOut = 6, kIn = 96, kBlocks = kIn / 32;
  const TemporaryDirectory directory;
  const std::string layer = "model.layers.0.mlp.experts.";
  const std::vector<std::byte> blocks = varied_bytes(kExperts * kOut * kBlocks * 16, 3, 37, 256);
  const std::vector<std::byte> scales = varied_bytes(kExperts * kOut * kBlocks, 0, 7, 255);
  const auto checkpoint =
      open_with(directory, "gpt_oss",
                {StoredTensor{layer + "gate_up_proj_blocks", {DType::kUInt8, {kExperts, kOut, kBlocks, 16}}, blocks},
                 StoredTensor{layer + "gate_up_proj_scales", {DType::kUInt8, {kExperts, kOut, kBlocks}}, scales},
                 StoredTensor{layer + "down_proj_blocks", {DType::kUInt8, {kExperts, kOut, kBlocks, 16}}, blocks},
                 StoredTensor{layer + "down_proj_scales", {DType::kUInt8, {kExperts, kOut, kBlocks}}, scales}})
          .value();
  const auto element = [&](int64_t row, int64_t column) {
    const auto byte = static_cast<uint8_t>(blocks[static_cast<size_t>(row * kIn / 2 + column / 2)]);
    return mxfp4_element(column % 2 == 0 ? byte & 15 : byte >> 4,
                         static_cast<uint8_t>(scales[static_cast<size_t>(row * kBlocks + column / 32)]));
  };
  for (const int64_t expert : {0, 1}) {
    const std::string name = layer + std::to_string(expert);
    for (const int64_t part : {0, 1}) {
      expect_matrix(*checkpoint, name + (part == 0 ? ".gate_proj.weight" : ".up_proj.weight"), {kOut / 2, kIn},
                    [&](int64_t row, int64_t column) { return element(expert * kOut + 2 * row + part, column); });
    }
    expect_matrix(*checkpoint, name + ".down_proj.weight", {kOut, kIn},
                  [&](int64_t row, int64_t column) { return element(expert * kOut + row, column); });
  }
  EXPECT_EQ(checkpoint->tensors().at(layer + "1.down_proj.weight").stored_dtype, "MXFP4");
  const int64_t before = checkpoint->bytes_read();
  read_part(*checkpoint, layer + "0.gate_proj.weight", {kOut / 2, kIn}, {{1, 3}, {33, 64}});
  EXPECT_EQ(checkpoint->bytes_read() - before, 2 * (16 + 1));
}

TEST(OpenModelCheckpoint, RefusesMxfp4WhoseBlocksAndScalesDiffer) {
  const TemporaryDirectory directory;
  const std::string name = "model.layers.0.mlp.experts.down_proj";
  const auto opened =
      open_with(directory, "gpt_oss",
                {StoredTensor{name + "_blocks", {DType::kUInt8, {kExperts, 1, 2, 16}}, std::vector<std::byte>(64)},
                 StoredTensor{name + "_scales", {DType::kUInt8, {kExperts, 1, 1}}, std::vector<std::byte>(2)}});
  ASSERT_FALSE(opened.has_value());
  EXPECT_THAT(opened.error().message, HasSubstr("expected U8 [experts, 1, 1, 16]"));
}

}  // namespace
}  // namespace lockstep::checkpoint
