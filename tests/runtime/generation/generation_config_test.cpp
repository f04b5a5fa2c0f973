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

TEST(GenerationConfig, RefusesOptionsThatAreNotServedAndNamesThemAll) {
  const auto loaded =
      parse_generation_config(R"({"num_beam_groups": 4, "penalty_alpha": 0.5, "top_k": 5})", "file.json");
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(loaded.error().message,
              AllOf(HasSubstr("file.json"), HasSubstr("num_beam_groups=4"), HasSubstr("penalty_alpha=0.5")));
}

TEST(GenerationConfig, AcceptsNeutralValuesOfOptionsThatAreNotServed) {
  EXPECT_TRUE(parse_generation_config(R"({"num_beam_groups": 1, "diversity_penalty": 0, "penalty_alpha": null,
                                          "constraints": [], "token_healing": false})",
                                      "t")
                  .has_value());
}

TEST(GenerationConfig, ReadsEveryFormOfAValue) {
  const GenerationConfig config =
      parse_generation_config(R"({"sequence_bias": [[[1, 2], -1.5], [[3], 2.0]], "bad_words_ids": [[4], [5, 6]],
                                  "forced_eos_token_id": [7, 8], "suppress_tokens": [9], "early_stopping": "never",
                                  "exponential_decay_length_penalty": [10, 1.1], "top_h": 0.5, "num_beams": 3,
                                  "watermarking_config": {"greenlist_ratio": 0.5, "seeding_scheme": "selfhash"},
                                  "guidance_scale": 1.5, "prompt_lookup_num_tokens": 4, "output_scores": true})",
                              "t")
          .value()
          .config;
  GenerationConfig expected;
  expected.sequence_bias = {{{1, 2}, -1.5}, {{3}, 2.0}};
  expected.bad_words_ids = {{4}, {5, 6}};
  expected.forced_eos_token_ids = {7, 8};
  expected.suppress_tokens = {9};
  expected.early_stopping = EarlyStopping::kNever;
  expected.exponential_decay_length_penalty = LengthDecay{10, 1.1};
  expected.top_h = 0.5;
  expected.num_beams = 3;
  expected.watermarking_config = Watermark{.green_share = 0.5, .scheme = WatermarkScheme::kSelfHash};
  expected.guidance_scale = 1.5;
  expected.prompt_lookup_num_tokens = 4;
  expected.output_scores = true;
  EXPECT_EQ(config, expected);
}

TEST(GenerationConfig, RefusesListsOfAnotherForm) {
  for (const char* json : {R"({"sequence_bias": [[1, 2]]})", R"({"sequence_bias": {"1": 2}})",
                           R"({"bad_words_ids": [1, 2]})", R"({"exponential_decay_length_penalty": [1]})",
                           R"({"early_stopping": "always"})", R"({"watermarking_config": {"seeding_scheme": "hash"}})",
                           R"({"watermarking_config": {"colour": 1}})", R"({"suppress_tokens": [1, "2"]})"}) {
    EXPECT_EQ(parse_generation_config(json, "t").error().kind, ErrorKind::kInvalidArgument) << json;
  }
}

TEST(GenerationConfig, NamesTheKeyOfAValueOfTheWrongType) {
  for (const char* json : {R"({"top_k": 2.5})", R"({"top_k": "5"})", R"({"top_k": 4294967296})",
                           R"({"top_k": 18446744073709551615})", R"({"top_k": true})"}) {
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
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');  // more than a stack has frames
  EXPECT_FALSE(parse_generation_config("{\"top_k\": " + deep + "}", "t").has_value());
  EXPECT_FALSE(GenerationConfig().set("top_k", deep).has_value());
}

TEST(GenerationConfig, IsThatOfConfigJsonWhereThereIsNoFile) {
  const auto directory = std::filesystem::temp_directory_path() / "lockstep-generation-config-test";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  EXPECT_EQ(read_generation_config(directory).value().config, GenerationConfig());
  std::ofstream(directory / "config.json") << R"({"vocab_size": 9, "eos_token_id": 5, "repetition_penalty": 1.5})";
  const LoadedConfig of_model = read_generation_config(directory).value();
  EXPECT_THAT(of_model.config.eos_token_ids, ElementsAre(5));
  EXPECT_EQ(of_model.config.repetition_penalty, 1.5);
  EXPECT_THAT(of_model.present, ElementsAre("eos_token_id", "repetition_penalty"));
  EXPECT_THAT(of_model.ignored, IsEmpty());
  std::ofstream(directory / "generation_config.json") << R"({"top_k": 7})";
  GenerationConfig expected;
  expected.top_k = 7;
  EXPECT_EQ(read_generation_config(directory).value().config, expected);
  std::filesystem::remove_all(directory);
}

TEST(GenerationConfig, OfAModelIsThatOfItsTextPartWhereTheTopHasNone) {
  const auto loaded = parse_model_options(
      R"({"eos_token_id": [1, 106], "top_k": null, "num_beams": 1,
          "text_config": {"eos_token_id": 7, "top_k": 20, "num_beams": 3, "hidden_size": 8}})",
      "config.json");
  GenerationConfig expected;
  expected.eos_token_ids = {1, 106};
  expected.top_k = 20;
  EXPECT_EQ(loaded.value().config, expected);
  EXPECT_EQ(parse_model_options(R"({"penalty_alpha": 0.6})", "config.json").error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(parse_model_options(R"({"top_k": "5"})", "config.json").error().message, HasSubstr("config.json: top_k"));
}

TEST(GenerationConfig, TakesNegativeIdsInFilesAsNone) {
  const GenerationConfig config =
      parse_generation_config(R"({"eos_token_id": [-1, 4], "pad_token_id": -1, "bos_token_id": -1})", "t")
          .value()
          .config;
  EXPECT_THAT(config.eos_token_ids, ElementsAre(4));
  EXPECT_EQ(config.pad_token_id, std::nullopt);
  EXPECT_EQ(config.bos_token_id, std::nullopt);
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
  EXPECT_EQ(config.set("num_beam_groups", "4").error().kind, ErrorKind::kUnsupported);
  EXPECT_TRUE(config.set("num_beam_groups", "1").has_value());
  EXPECT_EQ(config, GenerationConfig());
}

TEST(GenerationConfig, ValidateNamesTheOptionAndItsRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto expect_refused = [](auto change, const char* option) {
    GenerationConfig config;
    config.do_sample = true;
    change(config);
    const auto valid = config.validate();
    ASSERT_FALSE(valid.has_value()) << option;
    EXPECT_EQ(valid.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(valid.error().message, AllOf(HasSubstr(option), HasSubstr("expected")));
  };
  expect_refused([](auto& c) { c.temperature = 0; }, "temperature");
  expect_refused([](auto& c) { c.temperature = 1e-46; }, "temperature");  // 0 in float32
  expect_refused([&](auto& c) { c.temperature = nan; }, "temperature");
  expect_refused([](auto& c) { c.top_k = -1; }, "top_k");
  expect_refused([](auto& c) { c.top_p = 0; }, "top_p");
  expect_refused([](auto& c) { c.top_p = 1.1; }, "top_p");
  expect_refused([&](auto& c) { c.top_p = nan; }, "top_p");
  expect_refused([](auto& c) { c.min_p = -0.1; }, "min_p");
  expect_refused([](auto& c) { c.repetition_penalty = 0; }, "repetition_penalty");
  expect_refused([](auto& c) { c.repetition_penalty = 1e300; }, "repetition_penalty");
  expect_refused([](auto& c) { c.max_new_tokens = 0; }, "max_new_tokens");
  expect_refused([](auto& c) { c.eos_token_ids = {-1}; }, "eos_token_id");
  expect_refused([](auto& c) { c.eos_token_ids.assign(17, 1); }, "eos_token_id");
  expect_refused([](auto& c) { c.pad_token_id = -1; }, "pad_token_id");
  expect_refused([](auto& c) { c.stop_strings = {""}; }, "stop_strings");
  expect_refused([](auto& c) { c.stop_strings = {"a", std::string(4097, 'x')}; }, "stop_strings");
  expect_refused([](auto& c) { c.max_time = 0; }, "max_time");
  expect_refused([](auto& c) { c.typical_p = 0; }, "typical_p");
  expect_refused([](auto& c) { c.epsilon_cutoff = 1; }, "epsilon_cutoff");
  expect_refused([&](auto& c) { c.eta_cutoff = nan; }, "eta_cutoff");
  expect_refused([](auto& c) { c.top_h = 0; }, "top_h");
  expect_refused([&](auto& c) { c.guidance_scale = nan; }, "guidance_scale");
  expect_refused([](auto& c) { c.encoder_repetition_penalty = 0; }, "encoder_repetition_penalty");
  expect_refused([](auto& c) { c.no_repeat_ngram_size = -1; }, "no_repeat_ngram_size");
  expect_refused([](auto& c) { c.sequence_bias = {{{}, 1.0}}; }, "sequence_bias");
  expect_refused([](auto& c) { c.bad_words_ids = {{-1}}; }, "bad_words_ids");
  expect_refused([](auto& c) { c.min_new_tokens = -1; }, "min_new_tokens");
  expect_refused([](auto& c) { c.num_beams = 0; }, "num_beams");
  expect_refused([](auto& c) { c.num_return_sequences = 0; }, "num_return_sequences");
  expect_refused([](auto& c) { c.max_matching_ngram_size = 0; }, "max_matching_ngram_size");
  expect_refused([](auto& c) { c.watermarking_config = Watermark{.green_share = 1}; }, "greenlist_ratio");
}

/// transformers only warns of them.
TEST(GenerationConfig, ValidateTakesAnyValueOfDrawsWhereNothingIsDrawn) {
  GenerationConfig config =
      parse_generation_config(R"({"temperature": 0.0, "top_k": -1, "top_p": 0, "min_p": -1, "typical_p": 2,
                                  "epsilon_cutoff": 1, "eta_cutoff": -1, "top_h": 0})",
                              "t")
          .value()
          .config;
  EXPECT_TRUE(config.validate().has_value());
  EXPECT_EQ(config.sampling(0), GenerationConfig().sampling(0));
  config.do_sample = true;
  EXPECT_THAT(config.validate().error().message, HasSubstr("temperature: found 0, expected a number above 0"));
}

TEST(GenerationConfig, ValidateNamesOptionsThatContradictEachOther) {
  const auto expect_refused = [](const char* json, const char* first, const char* second) {
    const auto valid = parse_generation_config(json, "t").value().config.validate();
    ASSERT_FALSE(valid.has_value()) << json;
    EXPECT_EQ(valid.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(valid.error().message, AllOf(HasSubstr(first), HasSubstr(second))) << json;
  };
  expect_refused(R"({"min_new_tokens": 5, "max_new_tokens": 4})", "min_new_tokens", "max_new_tokens");
  expect_refused(R"({"min_length": 5, "max_length": 4})", "min_length", "max_length");
  expect_refused(R"({"num_return_sequences": 3, "num_beams": 2})", "num_return_sequences=3", "num_beams=2");
  expect_refused(R"({"num_return_sequences": 3})", "num_return_sequences=3", "do_sample");
  expect_refused(R"({"guidance_scale": 2.0, "num_beams": 2})", "guidance_scale", "num_beams=2");
  expect_refused(R"({"prompt_lookup_num_tokens": 4, "num_beams": 2})", "prompt_lookup_num_tokens", "num_beams=2");
  expect_refused(R"({"suppress_tokens": [4], "forced_bos_token_id": 4})", "suppress_tokens", "forced_bos_token_id");
  expect_refused(R"({"suppress_tokens": [4, 5], "forced_eos_token_id": [5, 4]})", "suppress_tokens",
                 "forced_eos_token_id");
  EXPECT_TRUE(parse_generation_config(R"({"num_return_sequences": 3, "do_sample": true})", "t")
                  .value()
                  .config.validate()
                  .has_value());
}

TEST(GenerationConfig, StreamsNoBeams) {
  GenerationConfig config;
  EXPECT_TRUE(config.validate_streaming().has_value());
  config.num_beams = 2;
  EXPECT_TRUE(config.validate().has_value());
  EXPECT_THAT(config.validate_streaming().error().message, HasSubstr("num_beams"));
}

TEST(GenerationConfig, CountsTheLeastNewTokensFromEitherOption) {
  GenerationConfig config;
  EXPECT_EQ(config.least_new_tokens(5), 0);
  config.min_length = 9;
  EXPECT_EQ(config.least_new_tokens(5), 4);
  EXPECT_EQ(config.least_new_tokens(20), 0);
  for (const int32_t least : {6, 2, 0}) {
    config.min_new_tokens = least;
    EXPECT_EQ(config.least_new_tokens(5), least) << "min_length no longer counts";
  }
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
