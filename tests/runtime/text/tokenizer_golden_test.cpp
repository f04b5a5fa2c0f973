// Every supported kind of tokenizer.json gives the ids and texts of the `tokenizers` package.
#include <gtest/gtest.h>

#include "tests/runtime/text/tokenizer_golden.h"

namespace lockstep::text {
namespace {

class GoldenTokenizer : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenTokenizer, EncodesAndDecodesLikeTheTokenizersPackage) {
  const auto directory = std::filesystem::path(LOCKSTEP_TEXT_GOLDENS) / "tokenizers" / GetParam();
  const auto tokenizer = load_tokenizer(directory);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  expect_golden(*tokenizer.value(), directory / "golden.json");
}

INSTANTIATE_TEST_SUITE_P(Styles, GoldenTokenizer,
                         ::testing::Values("smollm", "gpt2", "llama2", "llama3", "mistral", "qwen2", "gemma", "bloom",
                                           "unigram", "unigram_bytes", "folded", "mixed_case"),
                         [](const auto& style) { return std::string(style.param); });

}  // namespace
}  // namespace lockstep::text
