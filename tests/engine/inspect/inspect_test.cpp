#include "lockstep/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lockstep/engine.h"
#include "runtime/graph/passes.h"
#include "tests/model/tiny_models.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class Inspect : public ::testing::Test {
 protected:
  Model model() const { return Model::from_config(folder_.path() / "config.json").value(); }

  static EngineOptions small() { return {.slots = 2, .capacity = 24, .threads = 1, .scoring = Scoring::kOn}; }

  model::TinyModel folder_{model::kTinyLlama};
};

TEST_F(Inspect, ShowsTheGraphsThatAnEngineCompiles) {
  const auto graphs = graphs_of_rank(model(), small(), /*ranks=*/2, /*rank=*/1).value();
  std::vector<std::string> names;
  for (const graph::Graph& step : graphs) {
    names.push_back(step.name);
    EXPECT_EQ(step.ranks, 2);
    EXPECT_EQ(step.rank, 1);
    EXPECT_THAT(to_text(step), HasSubstr("graph " + step.name + " tp=2 rank=1"));
  }
  EXPECT_THAT(names, ElementsAre("prefill", "decode", "score"));

  const auto group = Group::threads(2).value();
  const auto engine = Engine::open(*group, model(), small()).value();
  EXPECT_EQ(engine->facts().graphs.size(), graphs.size());
  EXPECT_TRUE(engine->close().has_value());
}

TEST_F(Inspect, ShowsAGraphBeforeItsPasses) {
  const auto built = graphs_of_rank(model(), small(), 1, 0, GraphForm::kBuilt).value();
  const auto compiled = graphs_of_rank(model(), small(), 1, 0).value();
  EXPECT_NE(built.at(1), compiled.at(1));
  EXPECT_EQ(compiled.at(1), graph::run_passes(built.at(1), graph::default_passes()).value());
}

TEST_F(Inspect, RefusesARankThatDoesNotExist) {
  const auto refused = graphs_of_rank(model(), small(), 2, 2);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("found rank 2, expected 0 to 1"));
}

TEST_F(Inspect, ReportsAndChoosesAmongTheDegreesAskedFor) {
  const PlanOptions options{.most_ranks = 2, .degrees = {2}, .prompt_tokens = 8, .new_tokens = 4, .machine = {}};
  const Json plan = Json::parse(plan_document(model(), small(), options).value());
  ASSERT_EQ(plan["degrees"].size(), 1);
  EXPECT_EQ(plan["degrees"][0]["degree"], 2);
  EXPECT_GT(plan["degrees"][0]["speed_up"]["decode"], 0);
  EXPECT_EQ(plan["best"]["degree"], 2);
  EXPECT_EQ(plan["batch_size"], 2);
}

TEST_F(Inspect, RefusesAPlanWhoseTokensDoNotFit) {
  const auto message_of = [&](int64_t capacity, int64_t prompt_tokens, int64_t new_tokens) {
    EngineOptions options = small();
    options.capacity = capacity;
    const auto refused =
        plan_document(model(), options, {.prompt_tokens = prompt_tokens, .new_tokens = new_tokens, .machine = {}});
    return refused.has_value() ? std::string() : refused.error().message;
  };
  EXPECT_THAT(message_of(24, 64, 64), HasSubstr("found 127 tokens (--prompt-tokens and --new-tokens), expected at most "
                                                "64 (max_position_embeddings of the model); lower them"));
  EXPECT_THAT(message_of(24, 32, 8),
              HasSubstr("found 39 tokens (--prompt-tokens and --new-tokens), expected at most 24 "
                        "(a slot's); lower them or raise --max-seq-len"));
  EXPECT_THAT(message_of(4096, 512, 64), HasSubstr("found --max-seq-len 4096, expected at most 64 "));
}

}  // namespace
}  // namespace lockstep
