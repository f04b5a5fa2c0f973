// Properties of whole models beyond Hugging Face's answers. The same bits for any partition of the work, many laps of a
// window in a closed set of graphs, rows that end early, sampling independent of the batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/model/golden.h"

namespace lockstep::model {
namespace {

constexpr double kChunkingTolerance = 1e-5;  // of the scale, between chunk sizes on the reference backend
constexpr int64_t kCapacity = 64;

Golden golden_called(const std::string& name) { return read_golden(LOCKSTEP_GOLDENS_DIR, name); }

int query_heads_of(const std::filesystem::path& model) {
  return static_cast<int>(checkpoint::read_spec(model / "config.json").value().query_heads);
}

/// One golden of each kind of architecture.
class Family : public ::testing::TestWithParam<const char*> {};

TEST_P(Family, GivesTheSameBitsHoweverItIsCut) {
  // Degree, chunk, batch mates, threads and hosts change nothing.
  const Golden golden = golden_called(GetParam());
  const GoldenModel model(golden, {});
  const int heads = query_heads_of(model.path());
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    std::vector<RowAnswer> first;
    using Hosts = std::vector<int>;  // of each rank
    for (const auto& [ranks, chunk, slots, threads, hosts] :
         std::initializer_list<std::tuple<int, int, int, int, Hosts>>{{1, 64, 5, 1, {}},
                                                                      {1, 4, 1, 1, {}},
                                                                      {2, 16, 5, 1, {}},
                                                                      {3, 4, 3, 1, {}},
                                                                      {4, 16, 5, 1, {0, 0, 1, 1}},
                                                                      {5, 64, 2, 1, {0, 1, 0, 2, 1}},
                                                                      {9, 7, 5, 1, {}},
                                                                      {1, 16, 5, 2, {}}}) {
      if (ranks > heads) continue;
      SCOPED_TRACE(::testing::Message() << to_string(dtype) << " ranks " << ranks << " chunk " << chunk << " slots "
                                        << slots << " threads " << threads << " hosts "
                                        << ::testing::PrintToString(hosts));
      auto answers = run_rows(model.path(),
                              {.ranks = ranks,
                               .threads = threads,
                               .slots = slots,
                               .chunk = chunk,
                               .capacity = kCapacity,
                               .dtype = dtype,
                               .logits = actors::Logits::kWanted,
                               .hosts = hosts},
                              golden.rows());
      ASSERT_TRUE(answers.has_value()) << answers.error().message;
      if (first.empty()) first = answers.value().rows;
      for (size_t row = 0; row < first.size(); ++row) {
        EXPECT_EQ(answers.value().rows[row].tokens, first[row].tokens) << "row " << row;
        EXPECT_TRUE(same_bits(answers.value().rows[row].logits, first[row].logits)) << "row " << row;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Family,
                         ::testing::Values("bloom_twelve_heads_residual_after_norm",  // ALiBi, fused q, k and v
                                           "gpt2_scaled_by_layer",                    // learned positions, LayerNorm
                                           "gptj_default",                            // parallel residual, pairs
                                           "gemma2_alternating_windows",              // soft caps, windows, four norms
                                           "gemma3n_three_streams",              // parallel residuals, sparse gates
                                           "gemma4_keys_are_values",             // two shapes of heads
                                           "gemma4_layer_inputs_shared_caches",  // layers without own caches
                                           "gemma4_mlp_beside_experts",          // one reduction of both
                                           "gpt_oss_mxfp4",                      // packed experts, sinks
                                           "llama_nine_heads_llama3_tied",       // uneven heads
                                           "mixtral_packed_window",              // experts, windows
                                           "phi3_longrope"),                     // rows that change their rotation
                         [](const auto& tested) { return std::string(tested.param); });

class FamilyLongRun : public ::testing::TestWithParam<std::tuple<const char*, int, int64_t>> {};

TEST_P(FamilyLongRun, TakesManyLapsOfTheWindowWithTwoGraphs) {
  const auto& [name, ranks, chunk] = GetParam();
  const Golden golden = golden_called(name);
  record(golden, {.phase = "laps", .ranks = ranks});
  ASSERT_TRUE(golden.long_run.has_value());
  const GoldenModel model(golden, {});
  const LongRun& run = *golden.long_run;
  const Row row{run.prompt, {.max_new_tokens = static_cast<int32_t>(run.tokens.size())}};
  const auto answers = run_rows(model.path(), {.ranks = ranks, .slots = 2, .chunk = chunk, .capacity = 256},
                                {row, golden.rows().front(), row});  // the third takes over a slot that was used
  ASSERT_TRUE(answers.has_value()) << answers.error().message;
  EXPECT_EQ(answers.value().rows[0].tokens, run.tokens);
  EXPECT_EQ(answers.value().rows[1].tokens, golden.tokens.front());
  EXPECT_EQ(answers.value().rows[2].tokens, run.tokens);
  EXPECT_EQ(answers.value().graphs, 2);
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyLongRun,
                         ::testing::Combine(::testing::Values("gpt_oss_plain", "ministral_mixed_windows"),
                                            ::testing::Values(1, 2, 3, 4), ::testing::Values(4, 8, 64)),
                         [](const auto& tested) {
                           return fmt::format("{}_tp{}_chunk{}", std::get<0>(tested.param), std::get<1>(tested.param),
                                              std::get<2>(tested.param));
                         });

TEST(Model, ContinuesAPromptOf32768TokensFromTwoGraphs) {
  const Golden golden = read_long_prompt(LOCKSTEP_GOLDENS_DIR);
  const GoldenModel model(golden, {});
  for (const auto& [ranks, chunk] : {std::pair{1, 1000}, {2, 512}}) {
    SCOPED_TRACE(::testing::Message() << "ranks " << ranks << " chunk " << chunk);
    const auto answers =
        run_rows(model.path(),
                 {.ranks = ranks, .slots = 1, .chunk = chunk, .capacity = 32800, .logits = actors::Logits::kWanted},
                 golden.rows());
    ASSERT_TRUE(answers.has_value()) << answers.error().message;
    expect_golden(golden, golden.rows(), answers.value().rows);
    EXPECT_EQ(answers.value().graphs, 2);
  }
}

TEST(Model, RunsAtEveryDegreeUpToItsQueryHeads) {
  const Golden golden = golden_called("llama_nine_heads_llama3_tied");
  const GoldenModel model(golden, {});
  for (int ranks = 1; ranks <= 9; ++ranks) {
    SCOPED_TRACE(ranks);
    const auto answers = run_rows(model.path(), {.ranks = ranks, .slots = 5, .capacity = kCapacity}, golden.rows());
    ASSERT_TRUE(answers.has_value()) << answers.error().message;
    expect_golden(golden, golden.rows(), answers.value().rows, Compared::kTokens);
  }
}

TEST(Model, KeepsLogitsWithinTheChunkingToleranceOnTheReferenceBackend) {
  const Golden golden = golden_called("llama_grouped");
  const GoldenModel model(golden, {});
  std::vector<RowAnswer> whole;
  for (const int64_t chunk : {64, 1, 3, 16}) {
    auto answers = run_rows(
        model.path(),
        {.backend = "reference", .slots = 5, .chunk = chunk, .capacity = kCapacity, .logits = actors::Logits::kWanted},
        golden.rows());
    ASSERT_TRUE(answers.has_value()) << answers.error().message;
    const std::vector<RowAnswer>& rows = answers.value().rows;
    if (whole.empty()) whole = rows;
    for (size_t row = 0; row < whole.size(); ++row) {
      EXPECT_EQ(rows[row].tokens, whole[row].tokens);
      ASSERT_FALSE(whole[row].logits.empty());
      ASSERT_EQ(rows[row].logits.size(), whole[row].logits.size());
      EXPECT_LE(largest_difference(rows[row].logits.data(), whole[row].logits.data(), whole[row].logits.size()),
                kChunkingTolerance * golden.scale)
          << "chunk " << chunk << " row " << row;
    }
  }
}

TEST(Model, EndsARowAtItsEndTokenAndGoesOnWithTheOthers) {
  const Golden golden = golden_called("llama_grouped");
  const GoldenModel model(golden, {});
  std::vector<Row> rows = golden.rows();
  rows[1].parameters.eos_ids = {golden.tokens[1][4]};  // the fifth token of row 1
  const auto answers = run_rows(model.path(), {.ranks = 2, .slots = 5, .capacity = kCapacity}, rows);
  ASSERT_TRUE(answers.has_value()) << answers.error().message;
  const auto first = std::find(golden.tokens[1].begin(), golden.tokens[1].end(), golden.tokens[1][4]);
  EXPECT_EQ(answers.value().rows[1].tokens, std::vector<int32_t>(golden.tokens[1].begin(), first + 1));
  EXPECT_EQ(answers.value().rows[1].reason, generation::FinishReason::kEos);
  EXPECT_EQ(answers.value().rows[4].tokens, golden.tokens[4]);
}

TEST(Model, DrawsTheSameTokensAtEveryDegreeChunkAndBatchMix) {
  const Golden golden = golden_called("llama_one_kv_head_biases_linear");
  const GoldenModel model(golden, {});
  std::vector<Row> rows = golden.rows();
  for (size_t row = 0; row < rows.size(); ++row) {
    rows[row].parameters.sampling = {.do_sample = true,
                                     .temperature = 1.5f,
                                     .top_k = row % 2 == 0 ? 20 : 0,
                                     .top_p = 0.9f,
                                     .repetition_penalty = 1.1f,
                                     .seed = sampling::row_seed(7, row)};
  }
  std::vector<RowAnswer> first;
  for (const auto& [ranks, chunk, slots] : {std::tuple{1, 64, 5}, {2, 4, 5}, {3, 16, 2}, {8, 5, 1}}) {
    const auto answers =
        run_rows(model.path(), {.ranks = ranks, .slots = slots, .chunk = chunk, .capacity = kCapacity}, rows);
    ASSERT_TRUE(answers.has_value()) << answers.error().message;
    if (first.empty()) first = answers.value().rows;
    for (size_t row = 0; row < rows.size(); ++row) {
      EXPECT_EQ(answers.value().rows[row].tokens, first[row].tokens) << row;
    }
  }
  EXPECT_NE(first[0].tokens, golden.tokens[0]);  // it did sample
}

}  // namespace
}  // namespace lockstep::model
