// Options of generation: a flag for each field of Hugging Face's GenerationConfig.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string>

#include "lockstep/request.h"
#include "tests/launcher/parsed_words.h"

namespace lockstep::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(GenerationOptions, KeepsGenerationOptionsUnderHuggingFacesNames) {
  const auto options = generate({"--prompt", "a", "--do-sample", "--temperature", "0.7", "--top-k", "5",
                                 "--eos-token-id", "2,7", "--repetition-penalty", "1.1"})
                           .generation;
  EXPECT_EQ(options.at("do_sample"), "true");
  EXPECT_EQ(options.at("temperature"), "0.7");
  EXPECT_EQ(options.at("top_k"), "5");
  EXPECT_EQ(options.at("eos_token_id"), "[2,7]");
  EXPECT_EQ(options.at("repetition_penalty"), "1.1");
  EXPECT_EQ(generate({"--prompt", "a", "--no-do-sample"}).generation.at("do_sample"), "false");
}

TEST(GenerationOptions, ServesEveryGenerationFieldByItsNameWithDashes) {
  const std::vector<std::array<const char*, 3>> cases = {
      {"--min-p", "0.1", "0.1"},
      {"--top-h", "0.4", "0.4"},
      {"--typical-p", "0.9", "0.9"},
      {"--epsilon-cutoff", "3e-4", "3e-4"},
      {"--eta-cutoff", "0.002", "0.002"},
      {"--seed", "7", "7"},
      {"--encoder-repetition-penalty", "1.5", "1.5"},
      {"--no-repeat-ngram-size", "3", "3"},
      {"--encoder-no-repeat-ngram-size", "2", "2"},
      {"--bad-words-ids", "[[5, 6], [7]]", "[[5, 6], [7]]"},
      {"--sequence-bias", "[[[5, 6], -1.5]]", "[[[5, 6], -1.5]]"},
      {"--suppress-tokens", "1,2", "[1,2]"},
      {"--begin-suppress-tokens", "[3, 4]", "[3, 4]"},
      {"--forced-bos-token-id", "9", "9"},
      {"--forced-eos-token-id", "9", "[9]"},
      {"--exponential-decay-length-penalty", "[5, 1.2]", "[5, 1.2]"},
      {"--watermarking-config", R"({"bias": 2.5})", R"({"bias": 2.5})"},
      {"--guidance-scale", "1.5", "1.5"},
      {"--max-length", "40", "40"},
      {"--max-new-tokens", "12", "12"},
      {"--min-length", "4", "4"},
      {"--min-new-tokens", "3", "3"},
      {"--max-time", "2.5", "2.5"},
      {"--num-beams", "4", "4"},
      {"--num-return-sequences", "2", "2"},
      {"--length-penalty", "-0.5", "-0.5"},
      {"--early-stopping", "never", "\"never\""},
      {"--early-stopping", "true", "true"},
      {"--num-assistant-tokens", "5", "5"},
      {"--prompt-lookup-num-tokens", "6", "6"},
      {"--max-matching-ngram-size", "3", "3"},
      {"--top-logprobs", "5", "5"},
      {"--pad-token-id", "0", "0"},
  };
  for (const auto& [option, given, json] : cases) {
    const auto options = generate({"--prompt", "a", option, given}).generation;
    std::string field = std::string(option).substr(2);
    std::ranges::replace(field, '-', '_');
    EXPECT_THAT(options, ElementsAre(Pair(field, json))) << option;
    EXPECT_TRUE(generation::GenerationConfig().set(field, json).has_value()) << option;
  }
}

TEST(GenerationOptions, HasAFlagForEveryOptionThatIsNotOfFilesAlone) {
  const std::string help = std::get<PrintedText>(parse({"generate", "--help"}).value()).text;
  for (const GenerationOption& option : generation_options()) {
    const bool has_flag = help.find("  " + flag_of(option)) != std::string::npos;
    EXPECT_EQ(has_flag, option.flag_source != FlagSource::kNone) << option.name;
  }
  EXPECT_EQ(find_generation_option("bos_token_id")->flag_source, FlagSource::kNone);
}

TEST(GenerationOptions, PrintsTheTableOfTheDocuments) {
  const std::string table = std::get<PrintedText>(parse({"generate", "--option-table"}).value()).text;
  std::ifstream file(LOCKSTEP_DOCS_DIR "/generation.md");
  const std::string committed{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(table, committed) << "run: lockstep generate --option-table > docs/generation.md";
  EXPECT_THAT(table, HasSubstr("| `top_k` | `--top-k` | 50 |"));
}

TEST(GenerationOptions, TurnsFlagsOnAndOff) {
  for (const char* flag : {"do-sample", "remove-invalid-values", "renormalize-logits"}) {
    std::string field = flag;
    std::ranges::replace(field, '-', '_');
    EXPECT_EQ(generate({"--prompt", "a", (std::string("--") + flag).c_str()}).generation.at(field), "true");
    EXPECT_EQ(generate({"--prompt", "a", (std::string("--no-") + flag).c_str()}).generation.at(field), "false");
  }
}

}  // namespace
}  // namespace lockstep::launcher
