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
                         {"torch_dtype", "float32"}};
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

TEST_F(ModelTexts, FrequenciesOfLlama4HaveNoneBetweenKeptAndStretchedOnes) {
  WrittenGguf file = llama();
  with_embedding(file).floats("rope_freqs.weight", {2}, {1.0F, 16.0F});
  const json rope = derived(file, "config.json")["rope_scaling"];
  EXPECT_EQ(rope["factor"], 16.0);
}

/// The keys that all architectures have.
WrittenGguf of_architecture(const std::string& name) {
  WrittenGguf file;
  file.text("general.architecture", name).number(name + ".context_length", 128).number(name + ".block_count", 4);
  file.number(name + ".embedding_length", 16).number(name + ".feed_forward_length", 32);
  file.number(name + ".attention.head_count", 4).number(name + ".attention.head_count_kv", 2);
  file.number(name + ".attention.key_length", 8).real(name + ".attention.layer_norm_rms_epsilon", 1e-5F);
  return file;
}

TEST_F(ModelTexts, SizesOfLinearAttentionHaveTheNamesOfStateSpaces) {
  WrittenGguf file = of_architecture("qwen35");
  file.number("qwen35.ssm.conv_kernel", 4).number("qwen35.ssm.state_size", 8).number("qwen35.ssm.group_count", 2);
  file.number("qwen35.ssm.time_step_rank", 4).number("qwen35.ssm.inner_size", 48);
  file.number("qwen35.nextn_predict_layers", 1).number("qwen35.rope.dimension_count", 2);
  const json config = derived(with_embedding(file), "config.json");
  EXPECT_EQ(config["model_type"], "qwen3_5_text");
  EXPECT_EQ(config["num_hidden_layers"], 3);
  EXPECT_EQ(config["linear_num_key_heads"], 2);
  EXPECT_EQ(config["linear_key_head_dim"], 8);
  EXPECT_EQ(config["linear_value_head_dim"], 12);
  EXPECT_EQ(config["full_attention_interval"], 4);
  EXPECT_EQ(config["partial_rotary_factor"], 0.25);
  WrittenGguf odd = of_architecture("qwen35");
  odd.number("qwen35.ssm.time_step_rank", 5).number("qwen35.ssm.inner_size", 48);
  EXPECT_THAT(derive(with_embedding(odd), "config.json").error().message, HasSubstr("qwen35.ssm.inner_size"));
}

TEST_F(ModelTexts, LayersWithARecurrenceMayBeListed) {
  WrittenGguf file = of_architecture("qwen35");
  file.number("qwen35.ssm.time_step_rank", 4).number("qwen35.ssm.inner_size", 48);
  file.numbers<uint8_t>("qwen35.attention.recurrent_layers", ValueType::kBool, {1, 0, 0, 1});
  const json expected = {"linear_attention", "full_attention", "full_attention", "linear_attention"};
  EXPECT_EQ(derived(with_embedding(file), "config.json")["layer_types"], expected);
}

TEST_F(ModelTexts, SparsityOfGemma3nIsAMultipleOfTheDeviation) {
  WrittenGguf file = of_architecture("gemma3n");
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  file.numbers<float>("gemma3n.activation_sparsity_scale", ValueType::kFloat32, {1.6448536F, kNone, 0.0F, 1.0F});
  file.floats("blk.0.laurel_l.weight", {16, 3}, std::vector<float>(48));
  const json config = derived(with_embedding(file), "config.json");
  const json& parts = config["activation_sparsity_pattern"];
  EXPECT_EQ(parts[0], 0.95);
  EXPECT_EQ(parts[1], 0.0);
  EXPECT_EQ(parts[2], 0.5);
  EXPECT_NEAR(parts[3].get<double>(), 0.8413447, 1e-6);  // of one deviation
  EXPECT_EQ(config["laurel_rank"], 3);
}

TEST_F(ModelTexts, Llama4HasTheConstantsOfLlamaCpp) {
  WrittenGguf file = of_architecture("llama4");
  file.number("llama4.expert_count", 16).number("llama4.expert_feed_forward_length", 24);
  const json config = derived(with_embedding(file), "config.json");
  EXPECT_EQ(config["intermediate_size"], 24);
  EXPECT_EQ(config["intermediate_size_mlp"], 32);
  EXPECT_EQ(config["attention_chunk_size"], 8192);
  EXPECT_EQ(config["use_qk_norm"], true);
  WrittenGguf largest = of_architecture("llama4");
  largest.number("llama4.expert_count", 128).number("llama4.attention.sliding_window", 0);
  const json whole = derived(with_embedding(largest), "config.json");
  EXPECT_EQ(whole["use_qk_norm"], false);
  EXPECT_EQ(whole["attention_chunk_size"], nullptr);
  EXPECT_EQ(whole["no_rope_layer_interval"], 5);
}

TEST_F(ModelTexts, LayersOfHy3WithoutExpertsAreTheFirstOnes) {
  WrittenGguf file;
  file.text("general.architecture", "hy_v3").number("hy_v3.context_length", 128).number("hy_v3.block_count", 4000000);
  file.number("hy_v3.embedding_length", 16).number("hy_v3.attention.head_count", 4).number("hy_v3.expert_count", 3);
  file.number("hy_v3.expert_feed_forward_length", 8).number("hy_v3.expert_shared_feed_forward_length", 16);
  WrittenGguf sparse = file;
  sparse.floats("blk.2.ffn_gate_inp.weight", {16, 3}, std::vector<float>(48));
  sparse.floats("blk.2.attn_norm.weight", {16}, std::vector<float>(16));
  const json config = derived(with_embedding(sparse), "config.json");
  EXPECT_EQ(config["first_k_dense_replace"], 2);
  EXPECT_EQ(config["num_shared_experts"], 2);
  WrittenGguf dense = file;  // however many layers it claims
  EXPECT_EQ(derived(with_embedding(dense), "config.json")["first_k_dense_replace"], 1);
  WrittenGguf other = file;
  other.flag("hy_v3.expert_weights_norm", false);
  EXPECT_EQ(derive(with_embedding(other), "config.json").error().kind, ErrorKind::kUnsupported);
}

TEST_F(ModelTexts, Llama4WithoutExpertsIsRefusedInWords) {
  WrittenGguf file = of_architecture("llama4");
  const auto text = derive(with_embedding(file), "config.json");
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(text.error().message, HasSubstr("found a Llama 4 without experts"));
}

/// Latent attention with YaRN.
WrittenGguf latent(const std::string& name) {
  WrittenGguf file = of_architecture(name);
  file.number(name + ".attention.key_length_mla", 12).number(name + ".attention.value_length_mla", 6);
  file.number(name + ".rope.dimension_count", 4).number(name + ".attention.kv_lora_rank", 8);
  file.text(name + ".rope.scaling.type", "yarn").real(name + ".rope.scaling.factor", 8.0F);
  file.real(name + ".rope.freq_base", 10000.0F).real(name + ".rope.scaling.yarn_log_multiplier", 0.1F);
  return file;
}

TEST_F(ModelTexts, QueriesOfMistral4GrowAsByDefault) {
  WrittenGguf file = latent("mistral4");
  const json config = derived(with_embedding(file), "config.json");
  EXPECT_EQ(config["model_type"], "mistral4");
  EXPECT_EQ(config["rope_parameters"]["llama_4_scaling_beta"], 0.1);
  EXPECT_NEAR(config["rope_parameters"]["mscale_all_dim"].get<double>(), 1.0, 1e-6);
  WrittenGguf large = latent("deepseek2");
  large.real("deepseek2.attention.temperature_scale", 0.25F);
  const json other = derived(with_embedding(large), "config.json");
  EXPECT_EQ(other["model_type"], "mistral4");
  EXPECT_EQ(other["rope_parameters"]["llama_4_scaling_beta"], 0.25);
}

TEST_F(ModelTexts, ChoicesOfDeepSeekWithABiasAreOfSigmoids) {
  WrittenGguf file = latent("deepseek2");
  file.number("deepseek2.leading_dense_block_count", 1).floats("blk.1.exp_probs_b.bias", {2}, {1, 2});
  const auto small = derived(with_embedding(file), "config.json");
  EXPECT_EQ(small["model_type"], "deepseek_v3");
  EXPECT_EQ(small["n_group"], 1);
  WrittenGguf old = latent("deepseek2");  // of V3, from before the key of groups
  old.number("deepseek2.expert_count", 256).number("deepseek2.expert_gating_func", 2);
  const auto groups = derived(with_embedding(old), "config.json");
  EXPECT_EQ(groups["n_group"], 8);
  EXPECT_EQ(groups["topk_group"], 4);
  WrittenGguf plain = latent("deepseek2");
  EXPECT_EQ(derived(with_embedding(plain), "config.json")["model_type"], "deepseek_v2");
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
