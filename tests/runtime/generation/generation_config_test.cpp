#include "runtime/generation/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace lockstep::generation {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(GenerationConfig, HasHuggingFacesDefaults) {
  const GenerationConfig config;
  EXPECT_FALSE(config.do_sample);
  EXPECT_EQ(config.temperature, 1.0);
  EXPECT_EQ(config.top_k, 50);
  EXPECT_EQ(config.top_p, 1.0);
  EXPECT_EQ(config.repetition_penalty, 1.0);
  EXPECT_TRUE(config.validate().has_value());
}

TEST(GenerationConfig, ReadsAFileAndNamesWhatItIgnored) {
  const auto loaded = parse_generation_config(
                          R"({"_from_model_config": true, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2,
                              "do_sample": true, "temperature": 0.6, "top_p": 0.9, "max_length": 4096,
                              "max_new_tokens": null, "num_beams": 1, "transformers_version": "4.42.3"})",
                          "test")
                          .value();
  EXPECT_THAT(loaded.ignored, ElementsAre("_from_model_config", "transformers_version"));
  GenerationConfig expected;
  expected.do_sample = true;
  expected.temperature = 0.6;
  expected.top_p = 0.9;
  expected.max_length = 4096;
  expected.eos_token_ids = {2};
  expected.bos_token_id = 1;
  expected.pad_token_id = 2;
  EXPECT_EQ(loaded.config, expected);
}

TEST(GenerationConfig, ReadsEosAsANumberAListOrNull) {
  EXPECT_THAT(parse_generation_config(R"({"eos_token_id": 7})", "t").value().config.eos_token_ids, ElementsAre(7));
  EXPECT_THAT(parse_generation_config(R"({"eos_token_id": [7, 9]})", "t").value().config.eos_token_ids,
              ElementsAre(7, 9));
  EXPECT_THAT(parse_generation_config(R"({"eos_token_id": null})", "t").value().config.eos_token_ids, IsEmpty());
}

TEST(GenerationConfig, RefusesOptionsThatAreNotServedYetAndNamesThemAll) {
  const auto loaded = parse_generation_config(R"({"num_beams": 4, "typical_p": 0.5, "top_k": 5})", "file.json");
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(loaded.error().message,
              AllOf(HasSubstr("file.json"), HasSubstr("num_beams=4"), HasSubstr("typical_p=0.5")));
}

TEST(GenerationConfig, AcceptsNeutralValuesOfOptionsThatAreNotServedYet) {
  EXPECT_TRUE(parse_generation_config(R"({"num_beams": 1, "typical_p": 1, "no_repeat_ngram_size": 0,
                                          "bad_words_ids": null, "guidance_scale": 1.0})",
                                      "t")
                  .has_value());
}

TEST(GenerationConfig, NamesTheKeyOfAValueOfTheWrongType) {
  for (const char* json :
       {R"({"top_k": 2.5})", R"({"top_k": "5"})", R"({"top_k": 4294967296})", R"({"top_k": true})"}) {
    const auto loaded = parse_generation_config(json, "file.json");
    ASSERT_FALSE(loaded.has_value()) << json;
    EXPECT_EQ(loaded.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(loaded.error().message, AllOf(HasSubstr("file.json"), HasSubstr("top_k"))) << json;
  }
}

TEST(GenerationConfig, RefusesWhatIsNoJsonObject) {
  for (const char* json : {"", "{", "[1]", "{\"top_k\": }"}) {
    EXPECT_FALSE(parse_generation_config(json, "t").has_value()) << json;
  }
}

TEST(GenerationConfig, IsTheDefaultWhereThereIsNoFile) {
  const auto directory = std::filesystem::temp_directory_path() / "lockstep-generation-config-test";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  EXPECT_EQ(read_generation_config(directory).value().config, GenerationConfig());
  std::ofstream(directory / "generation_config.json") << R"({"top_k": 7})";
  EXPECT_EQ(read_generation_config(directory).value().config.top_k, 7);
  std::filesystem::remove_all(directory);
}

TEST(GenerationConfig, SetReplacesOnlyTheNamedOption) {
  GenerationConfig config;
  config.do_sample = true;
  config.eos_token_ids = {2};
  EXPECT_TRUE(config.set("temperature", "0.25").has_value());
  EXPECT_TRUE(config.set("eos_token_id", "[3, 4]").has_value());
  EXPECT_TRUE(config.set("do_sample", "false").has_value());
  EXPECT_TRUE(config.set("seed", "18446744073709551615").has_value());
  EXPECT_TRUE(config.set("top_k", "null").has_value());
  GenerationConfig expected;
  expected.temperature = 0.25;
  expected.eos_token_ids = {3, 4};
  expected.seed = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(config, expected);
}

TEST(GenerationConfig, SetRefusesUnknownUnservedAndWrongValues) {
  GenerationConfig config;
  EXPECT_EQ(config.set("temprature", "1").error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(config.set("temperature", "warm").error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(config.set("temperature", "\"1\"").error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(config.set("num_beams", "4").error().kind, ErrorKind::kUnsupported);
  EXPECT_TRUE(config.set("num_beams", "1").has_value());
  EXPECT_EQ(config, GenerationConfig());
}

TEST(GenerationConfig, ValidateNamesTheOptionAndItsRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto expect_refused = [](auto change, const char* option) {
    GenerationConfig config;
    change(config);
    const auto valid = config.validate();
    ASSERT_FALSE(valid.has_value()) << option;
    EXPECT_EQ(valid.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(valid.error().message, AllOf(HasSubstr(option), HasSubstr("expected")));
  };
  expect_refused([](auto& c) { c.temperature = 0; }, "temperature");
  expect_refused([&](auto& c) { c.temperature = nan; }, "temperature");
  expect_refused([](auto& c) { c.top_k = -1; }, "top_k");
  expect_refused([](auto& c) { c.top_p = 0; }, "top_p");
  expect_refused([](auto& c) { c.top_p = 1.1; }, "top_p");
  expect_refused([&](auto& c) { c.top_p = nan; }, "top_p");
  expect_refused([](auto& c) { c.min_p = -0.1; }, "min_p");
  expect_refused([](auto& c) { c.repetition_penalty = 0; }, "repetition_penalty");
  expect_refused([](auto& c) { c.max_new_tokens = 0; }, "max_new_tokens");
  expect_refused([](auto& c) { c.eos_token_ids = {-1}; }, "eos_token_id");
  expect_refused([](auto& c) { c.eos_token_ids.assign(17, 1); }, "eos_token_id");
  expect_refused([](auto& c) { c.pad_token_id = -1; }, "pad_token_id");
  expect_refused([](auto& c) { c.stop_strings = {""}; }, "stop_strings");
  expect_refused([](auto& c) { c.max_time = 0; }, "max_time");
}

TEST(GenerationConfig, TopKOfFiftyAppliesWhenSamplingAndNothingDoesWhenGreedy) {
  GenerationConfig config;
  config.temperature = 0.5;
  config.top_p = 0.9;
  config.repetition_penalty = 1.25;
  sampling::Parameters greedy;
  greedy.repetition_penalty = 1.25f;
  greedy.seed = sampling::row_seed(0, 3);
  EXPECT_EQ(config.sampling(3), greedy);
  config.do_sample = true;
  const sampling::Parameters drawn = config.sampling(3);
  EXPECT_TRUE(drawn.do_sample);
  EXPECT_EQ(drawn.top_k, 50);
  EXPECT_EQ(drawn.temperature, 0.5f);
  EXPECT_EQ(drawn.top_p, 0.9f);
}

TEST(GenerationConfig, RowsDrawDifferently) {
  GenerationConfig config;
  config.seed = 5;
  EXPECT_NE(config.sampling(0).seed, config.sampling(1).seed);
  EXPECT_EQ(config.sampling(1).seed, config.sampling(1).seed);
}

}  // namespace
}  // namespace lockstep::generation
