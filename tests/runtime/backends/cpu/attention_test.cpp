#include "runtime/backends/cpu/attention.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/runtime/backends/cpu/attention_fixture.h"

namespace lockstep::cpu {
namespace {

class Attention : public OnEveryMachine {};
INSTANTIATE_TEST_SUITE_P(EveryIsa, Attention, every_isa_and_dtype(), name_of_isa_and_dtype);

TEST_P(Attention, IsTheWeightedMeanOfTheValues) {
  const AttentionFixture attention(kernels(), dtype());
  const AttentionRows rows{std::vector<int32_t>(10, 1), {0, 1, 15, 16, 63, 64, 65, 127, 128, 199}};
  const std::vector<float> found = attention.run(rows);
  for (size_t row = 0; row < 10; ++row) {
    EXPECT_LT(attention.error_of(found, rows, row), attention.tolerance()) << rows.position[row];
  }
}

TEST_P(Attention, GivesATokenTheSameBitsInEveryChunkAndBatch) {
  const AttentionFixture attention(kernels(), dtype());
  AttentionRows prompt;
  prompt.add(0, 0, 150);
  const std::vector<float> whole = attention.run(prompt);
  for (int32_t at : {0, 1, 62, 63, 64, 100, 127, 128, 149}) {
    const std::vector<float> expected = attention.row_of(whole, at);
    EXPECT_TRUE(same_bits(attention.run_alone(0, at), expected)) << "alone at " << at;
    // Beside another slot, padding, and tokens out of order.
    EXPECT_TRUE(same_bits(attention.row_of(attention.run({{1, -1, 0, 0}, {190, 0, at, 5}}), 2), expected))
        << "in a batch at " << at;
  }
  AttentionRows chunk;
  chunk.add(0, 57, 140);
  const std::vector<float> found = attention.run(chunk);
  for (int32_t at = 57; at < 140; ++at) {
    EXPECT_TRUE(same_bits(attention.row_of(found, at - 57), attention.row_of(whole, at))) << "in a chunk at " << at;
  }
}

TEST_P(Attention, GivesTheSameBitsWhateverTheWorkersAndBlocks) {
  const AttentionFixture attention(kernels(), dtype());
  AttentionRows rows;
  rows.add(1, 40, 135);
  const std::vector<float> alone = attention.run(rows);
  for (int workers : {2, 3, 5, 64}) EXPECT_TRUE(same_bits(attention.run(rows, workers), alone)) << workers;
  for (int64_t rows_per_slot : {1, 3}) {
    AttentionTask task = attention.task(95);
    task.block_for_decode(rows_per_slot);
    EXPECT_TRUE(same_bits(attention.run(task, rows, 2), alone)) << rows_per_slot;
  }
  const AttentionRows last{{1}, {134}};
  for (int workers : {4, 5, 64}) {
    AttentionTask task = attention.task(1);
    task.share_readers(1, workers);
    EXPECT_GT(task.reader_shares, 1);
    EXPECT_TRUE(same_bits(attention.run(task, last, workers), attention.row_of(alone, 94))) << workers;
  }
}

TEST_P(Attention, NeverLetsWhatLiesBehindATokenIn) {
  AttentionFixture attention(kernels(), dtype());
  AttentionRows rows;
  rows.add(0, 30, 90);
  const std::vector<float> before = attention.run(rows);
  // Values of an earlier sequence, or of a later token of this one; a NaN times a weight of zero would be a NaN.
  for (int64_t i = 90 * attention.token_size(); i < 200 * attention.token_size(); ++i) {
    attention.k[i] = std::numeric_limits<float>::quiet_NaN();
    attention.v[i] = std::numeric_limits<float>::infinity();
  }
  attention.append(0, {90, 200});
  EXPECT_TRUE(same_bits(attention.run(rows), before));
}

TEST_P(Attention, KeepsANanOfTheCacheInTheRowsThatReadIt) {
  AttentionFixture attention(kernels(), dtype());
  attention.v[70 * attention.token_size()] = std::numeric_limits<float>::quiet_NaN();  // slot 0, head 0, dimension 0
  attention.append(0, {70, 71});
  AttentionRows rows;
  rows.add(0, 60, 80);
  const std::vector<float> found = attention.run(rows);
  for (int32_t at = 60; at < 80; ++at) {
    EXPECT_EQ(std::isnan(found[(at - 60) * attention.columns()]), at >= 70) << at;
    EXPECT_FALSE(std::isnan(found[(at - 60) * attention.columns() + 1])) << at;
  }
}

TEST(AttentionScratch, DoesNotGrowWithTheContext) {
  AttentionSetup small, large;
  large.tokens = 4000;
  const Kernels& kernels = kernels_for(best_isa());
  EXPECT_EQ(AttentionFixture(kernels, DType::kBFloat16, small).task(512).private_bytes(),
            AttentionFixture(kernels, DType::kBFloat16, large).task(512).private_bytes());
}

TEST_P(Attention, NeverSeesWhatLiesBesideTheKeysOfARow) {
  // NaN in the other slot, at later positions, in memory without tokens, and in rows of the step that are another's.
  const AttentionSetup setups[] = {{}, {.window = 40, .has_sinks = true}, {.soft_cap = 2.0f, .has_slopes = true}};
  for (const AttentionSetup& setup : setups) {
    const AttentionFixture clean(kernels(), dtype(), setup);
    AttentionSetup garbage = setup;
    garbage.memory = std::byte{0xff};
    AttentionFixture poisoned(kernels(), dtype(), garbage);
    constexpr int64_t kLast = 100;  // of slot 0
    const int64_t first_nan = (kLast + 1) * poisoned.token_size();
    for (std::vector<float>* tokens : {&poisoned.k, &poisoned.v}) {
      std::fill(tokens->begin() + first_nan, tokens->end(), std::numeric_limits<float>::quiet_NaN());
    }
    poisoned.append(0, {kLast + 1, setup.tokens});
    poisoned.append(1, {0, setup.tokens});
    AttentionRows rows;
    for (const int32_t begin : {0, 15, 62, 94}) rows.add(0, begin, begin + 7);
    const auto seen = static_cast<int64_t>(rows.slot.size());
    rows.add(1, 90, 97);
    const std::vector<float> expected = clean.run(rows), found = poisoned.run(rows);
    for (int64_t row = 0; row < seen; ++row) {
      EXPECT_TRUE(same_bits(poisoned.row_of(found, row), clean.row_of(expected, row)))
          << "position " << rows.position[row];
    }
    for (int64_t i = seen * clean.columns(); i < static_cast<int64_t>(found.size()); ++i) {
      ASSERT_TRUE(std::isnan(found[i]));
    }
  }
}

}  // namespace
}  // namespace lockstep::cpu
