// Hugging Face's greedy tokens and logits for random tiny Llama models, at several tensor-parallel degrees, chunk sizes
// and batch shapes. Goldens: tests/model/goldens, written by tools/make_llama_goldens.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/model/hashed_weights.h"
#include "tests/model/model_group.h"

namespace lockstep::model {
namespace {

using nlohmann::json;

constexpr double kLogitTolerance = 1e-4;     // of the scale, against Hugging Face
constexpr double kChunkingTolerance = 1e-5;  // of the scale, between chunk sizes
constexpr const char* kModels[] = {"grouped_default", "nine_heads_llama3_tied", "one_kv_head_biases_linear",
                                   "four_heads_yarn"};

struct Golden {
  std::filesystem::path model;
  std::vector<std::vector<int32_t>> prompts, tokens;
  double scale = 1.0;
  std::vector<size_t> logit_steps;
  std::vector<std::vector<std::vector<float>>> logits;  // [row][kept step][vocabulary]
};

/// Reads a golden and writes the model that it is of.
Golden load(const std::string& name, HashedModelLayout layout = {}) {
  std::ifstream file(std::filesystem::path(LOCKSTEP_GOLDENS_DIR) / (name + ".json"));
  const json golden = json::parse(file);
  Golden loaded;
  std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::replace(test.begin(), test.end(), '/', '_');
  loaded.model = std::filesystem::path(::testing::TempDir()) / fmt::format("lockstep_{}_{}", name, test);
  const json& weights = golden["weights"];
  const WeightRecipe recipe{weights["seed"], weights["bias"], weights["embedding"], weights["head"], weights["matrix"]};
  std::filesystem::remove_all(loaded.model);
  std::filesystem::create_directories(loaded.model.parent_path());
  EXPECT_TRUE(write_hashed_model(loaded.model, golden["config"].dump(), recipe, layout).has_value());
  loaded.prompts = golden["prompts"];
  loaded.tokens = golden["tokens"];
  loaded.scale = golden["scale"];
  loaded.logit_steps = golden["logit_steps"].get<std::vector<size_t>>();
  loaded.logits = golden["logits"];
  return loaded;
}

std::vector<Row> rows_of(const Golden& golden) {
  std::vector<Row> rows;
  for (const auto& prompt : golden.prompts) {
    rows.push_back({prompt, {.max_new_tokens = static_cast<int32_t>(golden.tokens.front().size())}});
  }
  return rows;
}

double largest_difference(const float* a, const float* b, size_t count) {
  double largest = 0.0;
  for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  return largest;
}

void expect_golden(const Golden& golden, const std::vector<RowAnswer>& answers) {
  ASSERT_EQ(answers.size(), golden.prompts.size());
  for (size_t row = 0; row < answers.size(); ++row) {
    EXPECT_EQ(answers[row].tokens, golden.tokens[row]) << "row " << row;
    EXPECT_EQ(answers[row].reason, generation::FinishReason::kLength);
    if (answers[row].logits.empty() || answers[row].tokens != golden.tokens[row]) continue;
    const size_t vocabulary = golden.logits[row].front().size();
    for (size_t kept = 0; kept < golden.logit_steps.size(); ++kept) {
      const float* ours = answers[row].logits.data() + golden.logit_steps[kept] * vocabulary;
      EXPECT_LE(largest_difference(ours, golden.logits[row][kept].data(), vocabulary), kLogitTolerance * golden.scale)
          << "row " << row << " step " << golden.logit_steps[kept];
    }
  }
}

using Case = std::tuple<const char*, int>;  // model, ranks

class LlamaMatrix : public ::testing::TestWithParam<Case> {};

TEST_P(LlamaMatrix, GivesHuggingFacesTokensAndLogitsAtEveryChunkSizeAndBatchShape) {
  const auto& [name, ranks] = GetParam();
  const Golden golden = load(name);
  for (const int64_t chunk : {4, 16, 64}) {
    for (const int64_t slots : {1, 3, 5}) {  // fewer slots than prompts: the others queue and refill
      SCOPED_TRACE(::testing::Message() << "chunk " << chunk << ", slots " << slots);
      const auto answers =
          run_rows(golden.model,
                   {.ranks = ranks, .slots = slots, .chunk = chunk, .capacity = 64, .logits = actors::Logits::kWanted},
                   rows_of(golden));
      ASSERT_TRUE(answers.has_value()) << answers.error().message;
      expect_golden(golden, answers.value());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllModels, LlamaMatrix,
                         ::testing::Combine(::testing::ValuesIn(kModels), ::testing::Values(1, 2, 3, 4)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param)) + "_tp" +
                                  std::to_string(std::get<1>(tested.param));
                         });

TEST(LlamaModel, RunsAtEveryDegreeUpToItsQueryHeads) {
  const Golden golden = load("nine_heads_llama3_tied");
  for (int ranks = 1; ranks <= 9; ++ranks) {
    SCOPED_TRACE(ranks);
    const auto answers = run_rows(golden.model, {.ranks = ranks, .slots = 5, .capacity = 64}, rows_of(golden));
    ASSERT_TRUE(answers.has_value()) << answers.error().message;
    expect_golden(golden, answers.value());
  }
}

TEST(LlamaModel, GivesTheSameOnTheReferenceBackend) {
  for (const char* name : kModels) {
    const Golden golden = load(name);
    for (const int ranks : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << name << " tp " << ranks);
      const auto answers = run_rows(
          golden.model,
          {.backend = "reference", .ranks = ranks, .slots = 5, .capacity = 64, .logits = actors::Logits::kWanted},
          rows_of(golden));
      ASSERT_TRUE(answers.has_value()) << answers.error().message;
      expect_golden(golden, answers.value());
    }
  }
}

TEST(LlamaModel, GivesTheSameFromShardedFiles) {
  const Golden golden = load("grouped_default", {.files = 3});
  const auto answers = run_rows(golden.model, {.ranks = 2, .slots = 5, .capacity = 64}, rows_of(golden));
  ASSERT_TRUE(answers.has_value()) << answers.error().message;
  expect_golden(golden, answers.value());
}

TEST(LlamaModel, GivesTheSameBitsHoweverItIsCut) {
  // DESIGN rule 9: degree, chunk, batch mates and threads change nothing.
  const Golden golden = load("nine_heads_llama3_tied");
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    std::vector<RowAnswer> first;
    for (const auto& [ranks, chunk, slots, threads] : {std::tuple{1, 64, 5, 1},
                                                       {1, 4, 1, 1},
                                                       {2, 16, 5, 1},
                                                       {3, 4, 3, 1},
                                                       {5, 64, 2, 1},
                                                       {9, 7, 5, 1},
                                                       {1, 16, 5, 2}}) {
      SCOPED_TRACE(::testing::Message() << to_string(dtype) << " ranks " << ranks << " chunk " << chunk << " slots "
                                        << slots << " threads " << threads);
      auto answers = run_rows(golden.model,
                              {.ranks = ranks,
                               .threads = threads,
                               .slots = slots,
                               .chunk = chunk,
                               .capacity = 64,
                               .dtype = dtype,
                               .logits = actors::Logits::kWanted},
                              rows_of(golden));
      ASSERT_TRUE(answers.has_value()) << answers.error().message;
      if (first.empty()) first = answers.value();
      for (size_t row = 0; row < first.size(); ++row) {
        EXPECT_EQ(answers.value()[row].tokens, first[row].tokens) << "row " << row;
        EXPECT_TRUE(answers.value()[row].logits == first[row].logits) << "row " << row;
      }
    }
  }
}

TEST(LlamaModel, KeepsLogitsWithinTheChunkingToleranceOnTheReferenceBackend) {
  const Golden golden = load("grouped_default");
  std::vector<RowAnswer> whole;
  for (const int64_t chunk : {64, 1, 3, 16}) {
    auto answers = run_rows(
        golden.model,
        {.backend = "reference", .slots = 5, .chunk = chunk, .capacity = 64, .logits = actors::Logits::kWanted},
        rows_of(golden));
    ASSERT_TRUE(answers.has_value()) << answers.error().message;
    if (whole.empty()) whole = answers.value();
    for (size_t row = 0; row < whole.size(); ++row) {
      EXPECT_EQ(answers.value()[row].tokens, whole[row].tokens);
      EXPECT_LE(
          largest_difference(answers.value()[row].logits.data(), whole[row].logits.data(), whole[row].logits.size()),
          kChunkingTolerance * golden.scale)
          << "chunk " << chunk << " row " << row;
    }
  }
}

TEST(LlamaModel, EndsARowAtItsEndTokenAndGoesOnWithTheOthers) {
  const Golden golden = load("grouped_default");
  std::vector<Row> rows = rows_of(golden);
  rows[1].parameters.eos_ids = {golden.tokens[1][4]};  // the fifth token of row 1
  const auto answers = run_rows(golden.model, {.ranks = 2, .slots = 5, .capacity = 64}, rows);
  ASSERT_TRUE(answers.has_value()) << answers.error().message;
  const auto first = std::find(golden.tokens[1].begin(), golden.tokens[1].end(), golden.tokens[1][4]);
  EXPECT_EQ(answers.value()[1].tokens, std::vector<int32_t>(golden.tokens[1].begin(), first + 1));
  EXPECT_EQ(answers.value()[1].reason, generation::FinishReason::kEos);
  EXPECT_EQ(answers.value()[4].tokens, golden.tokens[4]);
}

TEST(LlamaModel, DrawsTheSameTokensAtEveryDegreeChunkAndBatchMix) {
  const Golden golden = load("one_kv_head_biases_linear");
  std::vector<Row> rows = rows_of(golden);
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
    const auto answers = run_rows(golden.model, {.ranks = ranks, .slots = slots, .chunk = chunk, .capacity = 64}, rows);
    ASSERT_TRUE(answers.has_value()) << answers.error().message;
    if (first.empty()) first = answers.value();
    for (size_t row = 0; row < rows.size(); ++row) EXPECT_EQ(answers.value()[row].tokens, first[row].tokens) << row;
  }
  EXPECT_NE(first[0].tokens, golden.tokens[0]);  // it did draw
}

}  // namespace
}  // namespace lockstep::model
