// Scores of texts: Hugging Face's log-probabilities for every family, and the same bits for any partition of the work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "lockstep/engine.h"
#include "tests/model/golden.h"

namespace lockstep::model {
namespace {

using nlohmann::json;

constexpr double kTolerance = 1e-4;  // of the scale of the logits
constexpr int64_t kTop = 3;

/// A text and transformers' scores: element i belongs to token i + 1. Written by tools/make_score_goldens.py.
struct ScoredText {
  std::vector<int32_t> ids;
  std::vector<double> logprobs;
  std::vector<std::vector<int32_t>> top_ids;
  std::vector<std::vector<double>> top_logprobs;
};

std::vector<ScoredText> texts_of(const std::string& golden) {
  static const json kAll = json::parse(std::ifstream(std::filesystem::path(LOCKSTEP_GOLDENS_DIR) / "scores.json"));
  std::vector<ScoredText> texts;
  for (const json& text : kAll["models"].at(golden)["texts"]) {
    texts.push_back({text["ids"], text["logprobs"], text["top_ids"], text["top_logprobs"]});
  }
  return texts;
}

/// How an engine is cut.
struct Cut {
  int ranks = 1, threads = 1;
  int64_t slots = 1, chunk = 64;
  const char* backend = "cpu";
};

using Scores = std::vector<std::vector<TokenScore>>;

Scores scores_of(const std::filesystem::path& directory, const Cut& cut, const std::vector<std::vector<int32_t>>& texts,
                 int64_t top = kTop) {
  const auto group = Group::threads(cut.ranks).value();
  const Model model = Model::open(directory, {.dtype = DType::kFloat32}).value();
  const auto engine = Engine::open(*group, model,
                                   {.slots = cut.slots,
                                    .capacity = 64,
                                    .prefill_chunk = cut.chunk,
                                    .backend = cut.backend,
                                    .threads = cut.threads,
                                    .choosers = Choosers::kNone,
                                    .scoring = Scoring::kOn,
                                    .scored_top = kTop})
                          .value();
  Scores scores = engine->score(texts, top).value();
  EXPECT_TRUE(engine->close().has_value());
  EXPECT_EQ(engine->facts().graphs.size(), 3u);
  EXPECT_TRUE(engine->facts().graphs_after_start.empty());
  return scores;
}

void expect_scores(const std::vector<TokenScore>& scores, const ScoredText& text, double tolerance) {
  ASSERT_EQ(scores.size(), text.ids.size());
  EXPECT_EQ(scores[0].id, text.ids[0]);
  EXPECT_FALSE(scores[0].logprob.has_value());
  EXPECT_TRUE(scores[0].top.empty());
  for (size_t i = 1; i < scores.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "token " << i);
    EXPECT_EQ(scores[i].id, text.ids[i]);
    EXPECT_NEAR(*scores[i].logprob, text.logprobs[i - 1], tolerance);
    ASSERT_EQ(scores[i].top.size(), static_cast<size_t>(kTop));
    for (size_t k = 0; k < static_cast<size_t>(kTop); ++k) {
      EXPECT_NEAR(scores[i].top[k].logprob, text.top_logprobs[i - 1][k], tolerance);
    }
    const bool is_clear = text.top_logprobs[i - 1][0] - text.top_logprobs[i - 1][1] > 2 * tolerance;
    EXPECT_TRUE(!is_clear || scores[i].top[0].id == text.top_ids[i - 1][0]) << scores[i].top[0].id;
  }
}

std::vector<std::vector<int32_t>> ids_of(const std::vector<ScoredText>& texts) {
  std::vector<std::vector<int32_t>> ids;
  for (const ScoredText& text : texts) ids.push_back(text.ids);
  return ids;
}

void expect_same_bits(const Scores& a, const Scores& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t text = 0; text < a.size(); ++text) {
    ASSERT_EQ(a[text].size(), b[text].size());
    for (size_t i = 0; i < a[text].size(); ++i) {
      EXPECT_EQ(a[text][i].logprob, b[text][i].logprob) << "text " << text << " token " << i;
      for (size_t k = 0; k < a[text][i].top.size(); ++k) {
        EXPECT_EQ(a[text][i].top[k].id, b[text][i].top[k].id);
        EXPECT_EQ(a[text][i].top[k].logprob, b[text][i].top[k].logprob);
      }
    }
  }
}

class Scored : public ::testing::TestWithParam<std::string> {
 protected:
  const Golden golden_ = read_golden(LOCKSTEP_GOLDENS_DIR, GetParam());
  const GoldenModel model_{golden_, {}};
  const std::vector<ScoredText> texts_ = texts_of(GetParam());
  const double tolerance_ = 2 * kTolerance * golden_.scale;  // of a logit and of the sum
};

constexpr Cut kCuts[] = {{.ranks = 2, .slots = 2, .chunk = 16},
                         {.ranks = 3, .slots = 3, .chunk = 7},
                         {.ranks = 4, .threads = 2, .slots = 2},
                         {.slots = 2, .chunk = 1}};

TEST_P(Scored, AsByTransformersAndTheSameBitsAtEveryCut) {
  const Scores first = scores_of(model_.path(), {}, ids_of(texts_));
  for (size_t i = 0; i < texts_.size(); ++i) expect_scores(first[i], texts_[i], tolerance_);
  for (const size_t index : cuts_in_turn(LOCKSTEP_GOLDENS_DIR, GetParam(), std::size(kCuts), 2)) {
    const Cut& cut = kCuts[index];
    SCOPED_TRACE(::testing::Message() << cut.ranks << " ranks, chunk " << cut.chunk);
    expect_same_bits(scores_of(model_.path(), cut, ids_of(texts_)), first);
  }
}

/// The text of a golden's last row; its steps' logits are those of the text's last tokens.
TEST_P(Scored, RawLogitsWhereTheEngineHasThem) {
  const auto group = Group::threads(2).value();
  const Model model = Model::open(model_.path(), {.dtype = DType::kFloat32}).value();
  const auto engine =
      Engine::open(
          *group, model,
          {.slots = 2, .capacity = 64, .prefill_chunk = 16, .threads = 1, .scoring = Scoring::kLogits, .scored_top = 0})
          .value();
  const std::vector<TokenScore> scores = engine->score(texts_[0].ids).value();
  ASSERT_TRUE(engine->close().has_value());
  EXPECT_TRUE(scores[0].logits.empty());
  size_t compared = 0;
  for (size_t kept = 0; kept < golden_.logit_steps.size(); ++kept) {
    const std::vector<float>& expected = golden_.logits.back()[kept];
    const std::vector<float>& logits = scores.at(golden_.prompts.back().size() + golden_.logit_steps[kept]).logits;
    ASSERT_EQ(logits.size(), expected.size());
    EXPECT_LT(largest_difference(logits.data(), expected.data(), expected.size()), kTolerance * golden_.scale);
    ++compared;
  }
  EXPECT_GT(compared, 0u);
}

class ScoredOnReference : public Scored {};

TEST_P(ScoredOnReference, AsByTransformers) {
  const Scores scores =
      scores_of(model_.path(), {.ranks = 2, .slots = 2, .chunk = 16, .backend = "reference"}, ids_of(texts_));
  for (size_t i = 0; i < texts_.size(); ++i) expect_scores(scores[i], texts_[i], tolerance_);
}

std::string name_of(const ::testing::TestParamInfo<std::string>& tested) { return tested.param; }

INSTANTIATE_TEST_SUITE_P(Families, Scored, ::testing::ValuesIn(golden_names(LOCKSTEP_GOLDENS_DIR)), name_of);
INSTANTIATE_TEST_SUITE_P(Families, ScoredOnReference, ::testing::Values("gemma2_alternating_windows", "phi3_longrope"),
                         name_of);

}  // namespace
}  // namespace lockstep::model
