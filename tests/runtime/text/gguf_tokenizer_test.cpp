// Tokenizers out of GGUF files: every pre-tokeniser that has a name, and SentencePiece's vocabulary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/gguf/pre_tokenizers.h"
#include "runtime/text/byte_level.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"
#include "tests/runtime/gguf/written_gguf.h"
#include "tests/temporary_directory.h"

namespace lockstep::text {
namespace {

using gguf::ValueType;
using gguf::WrittenGguf;
using ::testing::ElementsAre;

constexpr std::string_view kOddTexts[] = {"",
                                          " ",
                                          "  two  spaces ",
                                          "don't DON'T 1234567 x=1;\r\n\r\n\tif",
                                          "naïve Ünïcode 東京 ไทย 한국어",
                                          "\U0001F600\U0001F3FD!?…",
                                          "a\u0301 combining",
                                          "price: $5.00 (£4)"};

std::filesystem::path write(const TemporaryDirectory& directory, const WrittenGguf& file) {
  const std::filesystem::path path = directory.path() / "m.gguf";
  std::ofstream(path, std::ios::binary) << file.bytes();
  return path;
}

std::unique_ptr<Tokenizer> load(const WrittenGguf& file) {
  const TemporaryDirectory directory;
  auto tokenizer = load_tokenizer(write(directory, file));
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  return std::move(tokenizer).value();
}

/// A token for each byte, and one for two letters.
WrittenGguf byte_tokens(std::string_view pre) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(bytes_to_level(std::string(1, static_cast<char>(byte))));
  tokens.insert(tokens.end(), {"ab", "<|end|>"});
  std::vector<int32_t> types(257, 1);
  types.push_back(3);
  WrittenGguf file;
  file.text("general.architecture", "llama").text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
  file.texts("tokenizer.ggml.tokens", tokens).texts("tokenizer.ggml.merges", {"a b"});
  file.numbers("tokenizer.ggml.token_type", ValueType::kInt32, types);
  return file;
}

TEST(GgufTokenizer, EveryPreTokeniserCutsOddTextsWithoutALoss) {
  for (const std::string_view pre : gguf::pre_tokenizer_names()) {
    SCOPED_TRACE(pre);
    const auto tokenizer = load(byte_tokens(pre));
    for (const std::string_view text : kOddTexts) {
      const auto ids = tokenizer->encode(text, SpecialTokens::kAdd);
      ASSERT_TRUE(ids.has_value()) << ids.error().message;
      const std::string decoded = tokenizer->decode(ids.value(), SpecialPieces::kKeep).value();
      const bool composes = gguf::find_pre_tokenizer(pre)->normalizer.is_object();
      if (composes && text.find("\u0301") != std::string_view::npos) continue;
      EXPECT_EQ(decoded, text);
    }
    EXPECT_THAT(tokenizer->encode("ab<|end|>", SpecialTokens::kOmit).value(), ElementsAre(256, 257));
    EXPECT_TRUE(tokenizer->is_special(257));
  }
}

TEST(GgufTokenizer, DigitsAreCutAsTheNameSays) {
  const auto pieces = [](std::string_view pre) {
    WrittenGguf file;
    file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
    file.texts("tokenizer.ggml.tokens", {"1", "2", "3", "4", "12", "123", "1234"});
    file.texts("tokenizer.ggml.merges", {"1 2", "12 3", "123 4"});
    return load(file)->encode("1234", SpecialTokens::kOmit).value();
  };
  EXPECT_THAT(pieces("gpt-2"), ElementsAre(6));
  EXPECT_THAT(pieces("llama-bpe"), ElementsAre(5, 3));
  EXPECT_THAT(pieces("qwen2"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(pieces("smollm"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(pieces("falcon"), ElementsAre(5, 3));
}

WrittenGguf sentence_pieces() {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(6);
  }
  for (const char* token : {"▁", "a", "b", "ab", "▁a", "▁ab", "<tool>"}) tokens.emplace_back(token);
  types.insert(types.end(), {1, 1, 1, 1, 1, 1, 4});
  std::vector<float> scores(tokens.size(), 0.0F);
  scores[262] = -2;  // ab
  scores[263] = -1;  // ▁a
  scores[264] = -3;  // ▁ab
  WrittenGguf file;
  file.text("general.architecture", "llama")
      .text("tokenizer.ggml.model", "llama")
      .texts("tokenizer.ggml.tokens", tokens);
  file.numbers("tokenizer.ggml.scores", ValueType::kFloat32, scores);
  file.numbers("tokenizer.ggml.token_type", ValueType::kInt32, types);
  file.number("tokenizer.ggml.bos_token_id", 1).number("tokenizer.ggml.eos_token_id", 2);
  return file;
}

TEST(GgufTokenizer, SentencePieceHasAFirstSpaceTheBestMergeAndBytes) {
  const auto tokenizer = load(sentence_pieces());
  EXPECT_THAT(tokenizer->encode("a", SpecialTokens::kAdd).value(), ElementsAre(1, 263));
  EXPECT_THAT(tokenizer->encode("bab", SpecialTokens::kOmit).value(), ElementsAre(259, 261, 262));
  EXPECT_THAT(tokenizer->encode("\n", SpecialTokens::kOmit).value(), ElementsAre(259, 3 + 10));
  EXPECT_THAT(tokenizer->encode("é", SpecialTokens::kOmit).value(), ElementsAre(259, 3 + 0xc3, 3 + 0xa9));
  EXPECT_EQ(tokenizer->decode({1, 263, 261}, SpecialPieces::kSkip).value(), "ab");
  EXPECT_THAT(tokenizer->encode("a<tool>", SpecialTokens::kOmit).value(), ElementsAre(263, 265));
  EXPECT_FALSE(tokenizer->is_special(265));
}

TEST(GgufTokenizer, FlagsOfTheFileChangeFirstAndLastTokens) {
  auto file = sentence_pieces();
  file.flag("tokenizer.ggml.add_bos_token", false).flag("tokenizer.ggml.add_eos_token", true);
  file.flag("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = load(file);
  EXPECT_THAT(tokenizer->encode("a", SpecialTokens::kAdd).value(), ElementsAre(260, 2));
}

TEST(GgufTokenizer, ChatTemplateHasTheTextsOfSpecialTokens) {
  auto file = sentence_pieces();
  file.text("tokenizer.chat_template", "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}");
  const TemporaryDirectory directory;
  const auto chat = load_chat(write(directory, file));
  ASSERT_TRUE(chat.has_value()) << chat.error().message;
  EXPECT_EQ(render_chat(chat.value(), {{"user", "Hi"}}, {}).value(), "<s>Hi</s>");
  const TemporaryDirectory other;
  EXPECT_EQ(load_chat(write(other, sentence_pieces())).error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace lockstep::text
