#include "launcher/generate/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/tiny_models.h"

namespace lockstep::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class GenerationTest : public ::testing::Test {
 protected:
  Model model() const { return Model::open(model_.path()).value(); }
  GenerationConfig config(const GenerateCommand& command) const { return generation_of(command, model()).value(); }

  model::TinyModel model_{model::kTinyLlama};
};

TEST_F(GenerationTest, TakesTheEndOfTheModelsConfiguration) {
  EXPECT_THAT(config({}).eos_token_ids, ElementsAre(2));  // of config.json
  EXPECT_THAT(model().warnings(), IsEmpty());
}

TEST_F(GenerationTest, WarnsOfAModelsFileThatHidesTheEndOfItsConfiguration) {
  model_.write("generation_config.json", R"({"top_k": 3})");
  EXPECT_THAT(config({}).eos_token_ids, IsEmpty());
  EXPECT_THAT(model().warnings(), ElementsAre(HasSubstr("not even 2 of config.json")));
}

TEST_F(GenerationTest, RefusesAModelWithAnAdapter) {
  model_.write("adapter_config.json", "{}");
  const auto opened = Model::open(model_.path());
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(opened.error().message, HasSubstr("found an adapter (adapter_config.json), expected whole weights"));
}

TEST_F(GenerationTest, PutsOptionsOnTopOfTheModelsFile) {
  model_.write("generation_config.json", R"({"eos_token_id": [7, 8], "do_sample": true, "max_length": 6, "top_k": 3,
                                             "stop_strings": [], "transformers_version": "5", "colour": "red"})");
  const GenerationConfig made = config({.generation = {{"top_k", "4"}, {"max_new_tokens", "5"}}});
  EXPECT_THAT(made.eos_token_ids, ElementsAre(7, 8));
  EXPECT_TRUE(made.do_sample);
  EXPECT_EQ(made.top_k, 4);
  EXPECT_EQ(made.max_new_tokens, 5);
  EXPECT_EQ(made.max_length, 6);
  EXPECT_THAT(model().warnings(), ElementsAre(HasSubstr("colour")));
  EXPECT_THAT(config({.ignore_eos = true}).eos_token_ids, IsEmpty());
}

TEST_F(GenerationTest, PutsStopStringsInThePlaceOfTheModelsOwn) {
  model_.write("generation_config.json", R"({"stop_strings": ["b"]})");
  EXPECT_THAT(config({}).stop_strings, ElementsAre("b"));
  EXPECT_THAT(config({.stop_strings = {"c"}}).stop_strings, ElementsAre("c"));
}

TEST_F(GenerationTest, StopsInTimeWhenAskedTo) {
  EXPECT_EQ(config({}).max_time, std::nullopt);
  EXPECT_EQ(config({.generation = {{"max_time", "1.5"}}}).max_time, 1.5);
}

TEST_F(GenerationTest, TellsScoresAndLogitsWhereTheyAreWritten) {
  EXPECT_FALSE(config({}).output_scores || config({}).output_logits);
  EXPECT_TRUE(config({.output_scores = "s.safetensors"}).output_scores);
  EXPECT_TRUE(config({.output_logits = "l.safetensors"}).output_logits);
}

TEST_F(GenerationTest, RefusesOptionsThatContradictEachOther) {
  const auto made = generation_of({.generation = {{"num_beams", "2"}, {"num_return_sequences", "3"}}}, model());
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(made.error().message, HasSubstr("num_return_sequences"));
}

TEST_F(GenerationTest, KeepsLogitsOnTheDevicesUnlessTheHostNeedsThem) {
  const GenerateCommand command{.engine = {.slots = 3, .prefill_chunk = 9}};
  EngineOptions expected = command.engine;
  expected.choosers = Choosers::kNone;
  EXPECT_EQ(engine_options(command, {}), expected);
  EXPECT_EQ(engine_options(command, {.num_beams = 2}), command.engine);
}

TEST(StatementOfGenerate, NamesWhatDecidesTokensALineEach) {
  const std::string plain = statement_of(GenerateCommand()).value();
  for (const char* line : {"--output-logits no\n", "--output-scores no\n", "--ignore-eos false\n", "--chat false\n",
                           "--backend cpu\n", "--draft-model none\n"}) {
    EXPECT_THAT(plain, HasSubstr(line));
  }
  GenerateCommand other;
  other.generation = {{"max_new_tokens", "6"}, {"do_sample", "true"}};
  other.output_logits = "l";
  other.output_scores = "s";
  other.ignore_eos = other.chat = true;
  const std::string text = statement_of(other).value();
  for (const char* line : {"--output-logits yes\n", "--output-scores yes\n", "--ignore-eos true\n", "--chat true\n",
                           "max_new_tokens 6\n", "do_sample true\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
    EXPECT_THAT(plain, Not(HasSubstr(line)));
  }
}

TEST(StatementOfGenerate, SaysNothingOfFilesThatRanksMayNameDifferently) {
  GenerateCommand here, there;
  here.json = here.output_logits = here.output_scores = "here";
  there.json = there.output_logits = there.output_scores = "there";
  here.engine.drafting.model = "here";
  there.engine.drafting.model = "there";
  EXPECT_EQ(statement_of(here).value(), statement_of(there).value());
}

TEST(StatementOfGenerate, RefusesOptionsOfABackendThatMakeNoSense) {
  GenerateCommand command;
  command.engine.backend_options = {{"instruction-set", "mmx"}};
  EXPECT_EQ(statement_of(command).error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::launcher
