// Attention over caches in 8 bits, on every instruction set: tiles multiplied as they are, and tiles decoded first.
#include <gtest/gtest.h>

#include <limits>

#include "tests/runtime/backends/cpu/attention_fixture.h"

namespace lockstep::cpu {
namespace {

constexpr DType kCodes[] = {DType::kInt8, DType::kUInt8};

class CodedAttention : public OnEveryMachine {};
INSTANTIATE_TEST_SUITE_P(EveryIsa, CodedAttention, every_isa_and_dtype(), name_of_isa_and_dtype);

TEST_P(CodedAttention, IsTheWeightedMeanOfWhatTheCodesStandFor) {
  for (const DType codes : kCodes) {
    for (const AttentionSetup& setup :
         {AttentionSetup{.codes = codes}, AttentionSetup{.head_dim = 64, .has_sinks = true, .codes = codes},
          AttentionSetup{.head_dim = 50, .window = 70, .soft_cap = 2.0f, .has_slopes = true, .codes = codes}}) {
      const AttentionFixture attention(kernels(), dtype(), setup);
      const AttentionRows rows{std::vector<int32_t>(10, 1), {0, 1, 15, 16, 63, 64, 65, 127, 128, 199}};
      const std::vector<float> found = attention.run(rows);
      for (size_t row = 0; row < 10; ++row) {
        EXPECT_LT(attention.error_of(found, rows, row), attention.tolerance())
            << lockstep::to_string(codes) << " " << setup.head_dim << " at " << rows.position[row];
      }
    }
  }
}

TEST_P(CodedAttention, GivesATokenTheSameBitsInEveryChunkBatchAndNumberOfWorkers) {
  for (const DType codes : kCodes) {
    const AttentionFixture attention(kernels(), dtype(), {.codes = codes});
    AttentionRows prompt;
    prompt.add(0, 0, 150);
    const std::vector<float> whole = attention.run(prompt);
    for (const int workers : {2, 5}) EXPECT_TRUE(same_bits(attention.run(prompt, workers), whole)) << workers;
    for (const int32_t at : {0, 1, 62, 63, 64, 100, 127, 128, 149}) {
      const std::vector<float> expected = attention.row_of(whole, at);
      EXPECT_TRUE(same_bits(attention.run_alone(0, at), expected)) << "alone at " << at;
      EXPECT_TRUE(same_bits(attention.row_of(attention.run({{1, -1, 0, 0}, {190, 0, at, 5}}), 2), expected))
          << "in a batch " << at;
    }
    AttentionRows chunk;
    chunk.add(0, 57, 140);
    const std::vector<float> found = attention.run(chunk);
    for (int32_t at = 57; at < 140; ++at) {
      EXPECT_TRUE(same_bits(attention.row_of(found, at - 57), attention.row_of(whole, at))) << "in a chunk at " << at;
    }
  }
}

TEST_P(CodedAttention, NeverSeesWhatLiesBesideTheKeysOfARow) {
  for (const DType codes : kCodes) {
    const AttentionSetup setup{.window = 40, .codes = codes};
    const AttentionFixture clean(kernels(), dtype(), setup);
    AttentionSetup garbage = setup;
    garbage.memory = std::byte{0xff};  // the scales are NaN
    AttentionFixture poisoned(kernels(), dtype(), garbage);
    const int64_t first_nan = 101 * poisoned.token_size();
    for (std::vector<float>* tokens : {&poisoned.k, &poisoned.v}) {
      std::fill(tokens->begin() + first_nan, tokens->end(), std::numeric_limits<float>::quiet_NaN());
    }
    poisoned.append(0, {101, setup.tokens});
    AttentionRows rows;
    for (const int32_t begin : {0, 15, 62, 94}) rows.add(0, begin, begin + 7);
    EXPECT_TRUE(same_bits(poisoned.run(rows), clean.run(rows)));
  }
}

TEST_P(CodedAttention, KeepsANanOfTheCacheInTheRowsThatReadIt) {
  for (const DType codes : kCodes) {
    for (const bool of_values : {false, true}) {
      AttentionFixture attention(kernels(), dtype(), {.codes = codes});
      const int64_t at_70 = 70 * attention.token_size();  // slot 0, head 0
      (of_values ? attention.v : attention.k)[at_70] = std::numeric_limits<float>::quiet_NaN();
      attention.append(0, {70, 71});
      AttentionRows rows;
      rows.add(0, 60, 80);
      const std::vector<float> found = attention.run(rows);
      for (int32_t at = 60; at < 80; ++at) {
        const int64_t row = (at - 60) * attention.columns();
        EXPECT_EQ(std::isnan(found[row]), at >= 70) << at;
        EXPECT_FALSE(std::isnan(found[row + 4 * attention.head_dim()])) << at;  // of cache head 1
      }
    }
  }
}

TEST_P(CodedAttention, EncodesRowsAsTheDefinitionDoes) {
  const RowEncoder encoder(kernels());
  for (const int64_t count : {1, 5, 16, 63, 576}) {
    std::vector<float> values = random_numbers(count, static_cast<uint32_t>(count));
    for (const float extra : {1.0f, 1e-5f, std::numeric_limits<float>::infinity()}) {
      values[0] = extra;
      const std::vector<std::byte> rows = encode(values, dtype());
      std::vector<float> exact(values.size());
      convert_elements(rows.data(), dtype(), reinterpret_cast<std::byte*>(exact.data()), DType::kFloat32, exact.size());
      for (const DType codes : kCodes) {
        std::vector<std::byte> found(static_cast<size_t>(count + kRowScaleBytes)), expected(found);
        encoder.encode(codes, {rows.data(), dtype()}, count, found.data());
        encode_cache_row(codes, exact.data(), count, expected.data());
        EXPECT_EQ(found, expected) << lockstep::to_string(codes) << " " << count << " " << extra;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::cpu
