// The set of graphs affects the cost of a step, never its result: batch sizes, length buckets, fused weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/golden.h"

namespace lockstep::model {
namespace {

class StaticShapes : public ::testing::TestWithParam<const char*> {
 protected:
  GroupAnswer run(GroupOptions options) const {
    options.capacity = 64;
    if (options.slots == 1) options.slots = 5;
    options.logits = actors::Logits::kWanted;
    std::vector<Row> rows = golden_.rows();
    for (size_t row = 0; row < rows.size(); ++row) {  // so that slots end one after the other
      rows[row].parameters.max_new_tokens = static_cast<int32_t>(2 + 3 * (rows.size() - row));
    }
    auto answer = run_rows(model_.path(), options, rows);
    EXPECT_TRUE(answer.has_value()) << answer.error().message;
    return answer.has_value() ? std::move(answer).value() : GroupAnswer{std::vector<RowAnswer>(rows.size())};
  }

  void expect_same(const GroupOptions& options, const GroupAnswer& expected) const {
    const GroupAnswer found = run(options);
    for (size_t row = 0; row < expected.rows.size(); ++row) {
      EXPECT_EQ(found.rows[row].tokens, expected.rows[row].tokens) << "row " << row;
      EXPECT_TRUE(same_bits(found.rows[row].logits, expected.rows[row].logits)) << "row " << row;
    }
  }

  const Golden golden_ = read_golden(LOCKSTEP_GOLDENS_DIR, GetParam());
  const GoldenModel model_{golden_, {}};
};

INSTANTIATE_TEST_SUITE_P(Kinds, StaticShapes,
                         ::testing::Values("llama_nine_heads_llama3_tied",  // heads that do not divide
                                           "gpt2_scaled_by_layer",          // learned positions, biases
                                           "gemma3_every_sixth_full",       // rings, norms of heads
                                           "phi3_longrope"),                // an additional state
                         [](const auto& test) { return std::string(test.param); });

TEST_P(StaticShapes, GiveTheSameBitsWithAListOfBatchSizes) {
  const GroupAnswer alone = run({});
  EXPECT_EQ(alone.graphs, 2);
  expect_same({.batch_sizes = {1, 2, 5}}, alone);
}

TEST_P(StaticShapes, GiveTheSameTokensOnTheReferenceBackendWhoseSumsDependOnTheRows) {
  const GroupAnswer alone = run({.backend = "reference"});
  const GroupAnswer lists = run({.backend = "reference", .batch_sizes = {1, 2, 5}});
  for (size_t row = 0; row < alone.rows.size(); ++row) {
    const RowAnswer &a = alone.rows[row], &b = lists.rows[row];
    EXPECT_EQ(a.tokens, b.tokens) << "row " << row;
    ASSERT_EQ(a.logits.size(), b.logits.size());
    EXPECT_LT(largest_difference(a.logits.data(), b.logits.data(), a.logits.size()), 1e-5 * golden_.scale);
  }
}

TEST_P(StaticShapes, GiveTheSameBitsOnTwoRanksWithListsOfEverything) {
  const GroupOptions lists{
      .ranks = 2, .chunk = 16, .batch_sizes = {1, 3, 5}, .context_buckets = {4, 16}, .token_buckets = {16, 32, 64}};
  expect_same(lists, run({.threads = 2}));
  EXPECT_EQ(run(lists).graphs, 2 + 3 * 3);
}

TEST_P(StaticShapes, GiveTheSameBitsWhereRanksHoldTheCachesOfSomeSlots) {
  expect_same({.ranks = 2, .slots = 4, .gqa = partition::GqaMode::kBatch, .batch_sizes = {1, 2, 4}},
              run({.ranks = 2, .slots = 4, .gqa = partition::GqaMode::kBatch}));
}

TEST_P(StaticShapes, GiveTheSameBitsWhetherQueriesKeysAndValuesAreOneProductOrThree) {
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    expect_same({.ranks = ranks, .passes = Passes::kNone}, run({.ranks = ranks}));
  }
}

}  // namespace
}  // namespace lockstep::model
