#include "runtime/gguf/model_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/runtime/gguf/written_gguf.h"

namespace lockstep::gguf {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ModelTexts : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::path(::testing::TempDir()) /
            (std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + ".gguf");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Result<std::optional<std::string>> derive(const WrittenGguf& file, std::string_view name) const {
    std::ofstream(path_, std::ios::binary) << file.bytes();
    return derived_text(path_ / name);
  }
  json derived(const WrittenGguf& file, std::string_view name) const {
    return json::parse(derive(file, name).value().value());
  }

  static WrittenGguf llama() {
    WrittenGguf file;
    file.text("general.architecture", "llama").number("llama.context_length", 128).number("llama.block_count", 2);
    file.number("llama.embedding_length", 16).number("llama.feed_forward_length", 32);
    file.number("llama.attention.head_count", 4).number("llama.attention.head_count_kv", 2);
    file.real("llama.attention.layer_norm_rms_epsilon", 1e-5F).real("llama.rope.freq_base", 500000.0F);
    file.number("llama.rope.dimension_count", 4);
    return file;
  }
  static WrittenGguf& with_embedding(WrittenGguf& file) {
    return file.floats("token_embd.weight", {16, 5}, std::vector<float>(80));
  }

  std::filesystem::path path_;
};

TEST_F(ModelTexts, ConfigHasTheKeysOfHuggingFace) {
  WrittenGguf file = llama();
  file.number("tokenizer.ggml.eos_token_id", 2).number("tokenizer.ggml.eot_token_id", 4);
  const json expected = {{"model_type", "llama"},    {"max_position_embeddings", 128},
                         {"num_hidden_layers", 2},   {"hidden_size", 16},
                         {"intermediate_size", 32},  {"num_attention_heads", 4},
                         {"num_key_value_heads", 2}, {"head_dim", 4},
                         {"rms_norm_eps", 1e-05},    {"rope_theta", 500000.0},
                         {"vocab_size", 5},          {"tie_word_embeddings", true},
                         {"torch_dtype", "float32"}, {"eos_token_id", {2, 4}},
                         {"bos_token_id", nullptr},  {"pad_token_id", nullptr}};
  EXPECT_EQ(derived(with_embedding(file), "config.json"), expected);
}

TEST_F(ModelTexts, AnUnknownArchitectureIsRefusedByName) {
  const auto text = derive(WrittenGguf().text("general.architecture", "rwkv7"), "config.json");
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(text.error().message, HasSubstr("found the architecture rwkv7, expected one of: bloom, "));
}

TEST_F(ModelTexts, StretchedFrequenciesBecomeThoseOfLlama3) {
  // factor 8, low 1, high 4, of 16 positions: wavelengths 2π and 2π · 707
  const double smooth = (16.0 / 6.283185307179586 - 1.0) / 3.0;
  const auto first = static_cast<float>(1.0 / ((1.0 - smooth) / 8.0 + smooth));
  WrittenGguf right = llama();
  with_embedding(right).floats("rope_freqs.weight", {2}, {first, 8.0F});
  const json expected = {{"rope_type", "llama3"},
                         {"factor", 8.0},
                         {"low_freq_factor", 1.0},
                         {"high_freq_factor", 4.0},
                         {"original_max_position_embeddings", 16}};
  EXPECT_EQ(derived(right, "config.json")["rope_scaling"], expected);
  WrittenGguf odd = llama();
  with_embedding(odd).floats("rope_freqs.weight", {2}, {3.0F, 0.5F});
  EXPECT_EQ(derive(odd, "config.json").error().kind, ErrorKind::kUnsupported);
}

TEST_F(ModelTexts, NumbersThatAreNoneAreRefused) {
  WrittenGguf file = llama();
  file.real("llama.rope.scaling.factor", std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(derive(with_embedding(file), "config.json").error().message, HasSubstr("llama.rope.scaling.factor"));
}

TEST_F(ModelTexts, SamplingParametersAreThoseOfTheFile) {
  WrittenGguf file = llama();
  file.number("tokenizer.ggml.eos_token_id", 2)
      .real("general.sampling.temp", 0.6F)
      .real("general.sampling.top_p", 0.95F);
  const json expected = {{"eos_token_id", {2}}, {"bos_token_id", nullptr}, {"pad_token_id", nullptr},
                         {"temperature", 0.6},  {"top_p", 0.95},           {"do_sample", true}};
  EXPECT_EQ(derived(file, "generation_config.json"), expected);
}

TEST_F(ModelTexts, TheEndOfATurnOfTheChatTemplateEndsAnAnswer) {
  WrittenGguf file = llama();
  file.texts("tokenizer.ggml.tokens", {"a", "<|im_end|>", "<|eot_id|>"}).number("tokenizer.ggml.eos_token_id", 0);
  file.text("tokenizer.chat_template", "{{ messages }}<|im_end|>");
  EXPECT_EQ(derived(file, "generation_config.json")["eos_token_id"], json({0, 1}));
}

TEST_F(ModelTexts, SentencePieceBecomesMergesByScore) {
  WrittenGguf file;
  file.text("general.architecture", "llama").text("tokenizer.ggml.model", "llama");
  file.texts("tokenizer.ggml.tokens", {"<unk>", "a", "b", "ab", "ba", "aba"});
  file.numbers<float>("tokenizer.ggml.scores", ValueType::kFloat32, {0, 0, 0, -2, -1, -3});
  file.numbers<int32_t>("tokenizer.ggml.token_type", ValueType::kInt32, {2, 1, 1, 1, 1, 1});
  const json tokenizer = derived(file, "tokenizer.json");
  EXPECT_EQ(tokenizer["model"]["merges"], json::parse(R"([["b","a"],["a","b"],["ab","a"],["a","ba"]])"));
  EXPECT_EQ(tokenizer["model"]["unk_token"], "<unk>");
  EXPECT_EQ(tokenizer["added_tokens"].size(), 1);
}

TEST_F(ModelTexts, HostileTokenizersAreRefused) {
  const auto message = [&](const WrittenGguf& file) {
    const auto text = derive(file, "tokenizer.json");
    return text.has_value() ? std::string("it was read") : text.error().message;
  };
  const auto named = [](std::string_view model) {
    return WrittenGguf().text("tokenizer.ggml.model", model).text("tokenizer.ggml.pre", "gpt-2");
  };
  EXPECT_THAT(message(named("gpt2")), HasSubstr("found no tokens"));
  EXPECT_THAT(message(named("gpt2").texts("tokenizer.ggml.tokens", {"a", "a"})), HasSubstr("twice (ids 0 and 1)"));
  EXPECT_THAT(message(named("gpt2").texts("tokenizer.ggml.tokens", {"\xff"})),
              HasSubstr("found token 0 that is not UTF-8"));
  EXPECT_THAT(message(named("gpt2").texts("tokenizer.ggml.tokens", {"a"}).texts("tokenizer.ggml.merges", {"ab"})),
              HasSubstr("found a merge of 2 bytes without two parts"));
  EXPECT_THAT(message(named("bert").texts("tokenizer.ggml.tokens", {"a"})), HasSubstr("found the tokenizer \"bert\""));
  EXPECT_THAT(message(named("llama").texts("tokenizer.ggml.tokens", {"a"})),
              HasSubstr("found no key tokenizer.ggml.scores"));
  EXPECT_THAT(message(named("gpt2").texts("tokenizer.ggml.tokens", {"a"}).number("tokenizer.ggml.bos_token_id", 7)),
              HasSubstr("found id 7 in key tokenizer.ggml.bos_token_id, expected 0 to 0"));
  EXPECT_THAT(message(named("gpt2")
                          .texts("tokenizer.ggml.tokens", {"a"})
                          .numbers<int32_t>("tokenizer.ggml.token_type", ValueType::kInt32, {1, 1})),
              HasSubstr("found 2 types of tokens, expected 1"));
  WrittenGguf odd;
  odd.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "odd").texts("tokenizer.ggml.tokens", {"a"});
  EXPECT_THAT(message(odd), HasSubstr("found the pre-tokeniser \"odd\", expected one of: bloom"));
}

TEST_F(ModelTexts, FilesThatAGgufHasNoneOfAreEmpty) {
  EXPECT_EQ(derive(llama(), "chat_template.jinja").value(), std::nullopt);
  EXPECT_EQ(derive(llama(), "tokenizer.json").value(), std::nullopt);
}

}  // namespace
}  // namespace lockstep::gguf
