#include "runtime/checkpoint/model_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/runtime/checkpoint/spec_testing.h"
#include "tests/temporary_directory.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

json with(std::string_view key, json value) {
  json config = smallest("llama");
  config[std::string(key)] = std::move(value);
  return config;
}

TEST(ParseSpec, FillsInTheDefaultsOfLlama) {
  const ModelSpec spec = parse(smallest("llama")).value();
  EXPECT_EQ(spec.key_value_heads, 4);
  EXPECT_EQ(spec.head_dim, 16);
  EXPECT_EQ(spec.max_positions, 2048);
  EXPECT_EQ(spec.norm_epsilon, 1e-6);
  EXPECT_EQ(spec.activation, "silu");
  EXPECT_FALSE(spec.attention_bias || spec.mlp_bias || spec.tied_embeddings);
  EXPECT_EQ(spec.rope, RopeSpec{.rotated = 16});
  EXPECT_EQ(spec.attention_scale, 0.25);
  EXPECT_THAT(spec.windows, IsEmpty());
  EXPECT_EQ(spec.dtype, DType::kFloat32);
}

TEST(ParseSpec, ReadsBothSpellingsOfOneModelAlike) {
  json older = smallest("llama");
  older.update({{"rope_theta", 500000.0},
                {"torch_dtype", "bfloat16"},
                {"rope_scaling",
                 {{"type", "llama3"},
                  {"factor", 8.0},
                  {"low_freq_factor", 1.0},
                  {"high_freq_factor", 4.0},
                  {"original_max_position_embeddings", 8192}}}});
  json newer = smallest("llama");
  newer.update({{"dtype", "bfloat16"},
                {"rope_parameters",
                 {{"rope_type", "llama3"},
                  {"rope_theta", 500000.0},
                  {"factor", 8.0},
                  {"low_freq_factor", 1.0},
                  {"high_freq_factor", 4.0},
                  {"original_max_position_embeddings", 8192}}}});
  const ModelSpec spec = parse(older).value();
  EXPECT_EQ(spec, parse(newer).value());
  EXPECT_EQ(spec.rope.kind, RopeSpec::Kind::kLlama3);
  EXPECT_EQ(spec.rope.theta, 500000.0);
  EXPECT_EQ(spec.rope.factor, 8.0);
  EXPECT_EQ(spec.rope.original_max_positions, 8192);
  EXPECT_EQ(spec.dtype, DType::kBFloat16);
}

TEST(ParseSpec, LetsRopeScalingWinOverRopeParameters) {
  json config = smallest("llama");
  config.update({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}},
                 {"rope_parameters", {{"rope_type", "linear"}, {"factor", 3.0}, {"rope_theta", 7.0}}}});
  const RopeSpec rope = parse(config).value().rope;
  EXPECT_EQ(rope.factor, 2.0);
  EXPECT_EQ(rope.theta, 10000.0);
}

TEST(ParseSpec, LooksAtRopeParametersWhenRopeScalingIsNullOrEmpty) {
  for (const json& empty : {json(nullptr), json::object()}) {
    json config = with("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7.0}});
    config["rope_scaling"] = empty;
    EXPECT_EQ(parse(config).value().rope.theta, 7.0) << empty;
  }
}

TEST(ParseSpec, ReadsEveryKeyOfYarn) {
  const json rope = {{"rope_type", "yarn"}, {"factor", 4.0},       {"original_max_position_embeddings", 512},
                     {"beta_fast", 24},     {"beta_slow", 2},      {"truncate", false},
                     {"mscale", 0.7},       {"mscale_all_dim", 1}, {"attention_factor", 0.5}};
  const RopeSpec spec = parse(with("rope_parameters", rope)).value().rope;
  EXPECT_EQ(spec.original_max_positions, 512);
  EXPECT_EQ(spec.beta_fast, 24.0);
  EXPECT_EQ(spec.beta_slow, 2.0);
  EXPECT_FALSE(spec.truncate);
  EXPECT_EQ(spec.mscale, 0.7);
  EXPECT_EQ(spec.mscale_all_dim, 1.0);
  EXPECT_EQ(spec.attention_factor, 0.5);
}

TEST(ParseSpec, TakesYarnsFactorFromTheMaximaWhenItIsNull) {
  json config = with("rope_parameters", {{"rope_type", "yarn"}, {"factor", nullptr}});
  config["rope_parameters"]["original_max_position_embeddings"] = 512;
  EXPECT_EQ(parse(config).value().rope.factor, 4.0);  // 2048 / 512
}

TEST(ParseSpec, LetsTheTopLevelOriginalMaximumWin) {
  json config = with("rope_parameters", {{"rope_type", "yarn"}, {"original_max_position_embeddings", 512}});
  config["original_max_position_embeddings"] = 1024;
  EXPECT_EQ(parse(config).value().rope.original_max_positions, 1024);
}

TEST(ParseSpec, TakesAHeadWidthThatIsNotHiddenOverHeads) {
  json config = with("head_dim", 24);
  config["num_key_value_heads"] = 2;
  const ModelSpec spec = parse(config).value();
  EXPECT_EQ(spec.head_dim, 24);
  EXPECT_EQ(spec.key_value_heads, 2);
  EXPECT_EQ(parse(with("head_dim", nullptr)).value().head_dim, 16);
}

TEST(ParseSpec, KnowsActivationsByAllTheirNames) {
  const std::pair<std::string, std::string> cases[] = {
      {"silu", "silu"},           {"swish", "silu"},
      {"relu", "relu"},           {"gelu", "gelu"},
      {"gelu_python", "gelu"},    {"gelu_new", "gelu_tanh"},
      {"gelu_fast", "gelu_tanh"}, {"gelu_pytorch_tanh", "gelu_tanh"},
      {"relu2", "squared_relu"},
  };
  for (const auto& [name, function] : cases) {
    EXPECT_EQ(parse(with("hidden_act", name)).value().activation, function) << name;
  }
}

TEST(ParseSpec, GivesLlamasBiasToAllProjectionsOfAttention) {
  const ModelSpec spec = parse(with("attention_bias", true)).value();
  EXPECT_TRUE(spec.attention_bias && spec.attention_output_bias);
}

TEST(ParseSpec, LooksAtTheArchitectureWhenThereIsNoModelType) {
  json config = with("architectures", {"LlamaForCausalLM"});
  const ModelSpec spec = parse(config).value();
  config.erase("model_type");
  EXPECT_EQ(parse(config).value(), spec);
  config["architectures"] = {"MambaForCausalLM"};
  const auto unknown = parse(config);
  EXPECT_EQ(unknown.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(unknown.error().message, HasSubstr("architectures: found \"MambaForCausalLM\", expected one of: Bloom"));
}

TEST(ParseSpec, ListsEveryFamily) {
  EXPECT_THAT(
      supported_model_types(),
      ElementsAre("bloom", "cohere", "cohere2", "deepseek_v2", "deepseek_v3", "dots1", "ernie4_5", "ernie4_5_moe",
                  "exaone4", "exaone_moe", "falcon", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text",
                  "gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text", "glm4", "glm4_moe", "glm4_moe_lite",
                  "gpt2", "gpt_neox", "gpt_oss", "gptj", "granite", "granitemoe", "hunyuan_v1_dense", "hy_v3", "llama",
                  "llama4", "llama4_text", "minimax_m2", "ministral", "ministral3", "mistral", "mistral3", "mistral4",
                  "mixtral", "nemotron", "olmo2", "olmo3", "olmoe", "opt", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3",
                  "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe", "qwen3_next", "seed_oss",
                  "smollm3", "stablelm", "starcoder2"));
}

TEST(ParseSpec, NamesTheSupportedModelTypes) {
  const auto spec = parse(with("model_type", "abacus"));
  ASSERT_FALSE(spec.has_value());
  EXPECT_EQ(spec.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(spec.error().message, HasSubstr("config.json: model_type: found \"abacus\", expected one of: bloom, "));
}

TEST(ParseSpec, SaysWhatWellKnownModelTypesNeedThatItLacks) {
  const std::pair<const char*, const char*> cases[] = {
      {"bamba", "(Bamba), which needs Mamba-2 layers"},
      {"falcon_h1", "(Falcon-H1), which needs Mamba-2"},
      {"granitemoehybrid", "(Granite 4.0), which needs Mamba-2 layers"},
      {"kimi_linear", "(Kimi Linear), which needs a delta rule"},
      {"lfm2", "(LFM2), which needs layers of gated short convolutions"},
      {"lfm2_moe", "(LFM2-MoE), which needs layers of gated short convolutions"},
      {"mimo_v2_flash", "(MiMo-V2-Flash), which needs values narrower than keys"},
      {"nemotron_h", "(Nemotron-H), which needs Mamba-2 layers"},
  };
  for (const auto& [type, words] : cases) {
    const auto spec = parse(with("model_type", type));
    ASSERT_FALSE(spec.has_value()) << type;
    EXPECT_EQ(spec.error().kind, ErrorKind::kUnsupported) << type;
    EXPECT_THAT(spec.error().message, HasSubstr(std::string("\"") + type + "\" " + words)) << type;
    EXPECT_THAT(spec.error().message, HasSubstr("expected one of: bloom, ")) << type;
  }
}

TEST(ParseSpec, RefusesNullWhereItCountsAsFalseAndNotAsTheDefault) {
  const std::tuple<const char*, json, const char*> cases[] = {
      {"llama", {{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 8.0}, {"truncate", nullptr}}}}, "truncate"},
      {"deepseek_v3", {{"norm_topk_prob", nullptr}}, "norm_topk_prob"},
      {"deepseek_v3", {{"rope_interleave", nullptr}}, "rope_interleave"},
      {"glm4", {{"partial_rotary_factor", nullptr}}, "partial_rotary_factor"}};
  for (const auto& [model_type, keys, key] : cases) {
    json config = small(model_type);
    config.update(keys);
    const auto spec = parse(config);
    ASSERT_FALSE(spec.has_value()) << key;
    EXPECT_THAT(spec.error().message, HasSubstr(std::string(key) + ": found null, expected ")) << key;
  }
  json config = small("llama");
  config["attention_bias"] = nullptr;
  EXPECT_FALSE(parse(config).value().attention_bias);
}

TEST(ParseSpec, RefusesWhatItCannotRun) {
  const std::pair<std::string, json> cases[] = {
      {"quantization_config", {{"quant_method", "mxfp4"}}},
      {"hidden_act", "quick_gelu"},
      {"hidden_act", "gelu_10"},
      {"is_encoder_decoder", true},
      {"per_layer_config", {{"0", {{"intermediate_size", 32}}}}},
      {"torch_dtype", "float64"},
      {"partial_rotary_factor", 0.5},
      {"rope_scaling", {{"rope_type", "longrope"}, {"factor", 2.0}}},
      {"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.25}}},
  };
  for (const auto& [key, value] : cases) {
    const auto spec = parse(with(key, value));
    ASSERT_FALSE(spec.has_value()) << key;
    EXPECT_EQ(spec.error().kind, ErrorKind::kUnsupported) << key;
    EXPECT_THAT(spec.error().message, HasSubstr("expected")) << key;
  }
}

TEST(ParseSpec, NamesEveryKeyThatIsMissing) {
  const json complete = smallest("llama");
  for (const auto& [key, value] : complete.items()) {
    json config = complete;
    config.erase(key);
    const auto spec = parse(config);
    ASSERT_FALSE(spec.has_value()) << key;
    EXPECT_EQ(spec.error().kind, ErrorKind::kInvalidArgument) << key;
    EXPECT_THAT(spec.error().message, HasSubstr(key + ": found nothing")) << key;
  }
}

TEST(ParseSpec, NamesEveryKeyThatIsOutOfRangeOrOfAnotherType) {
  const std::pair<std::string, json> cases[] = {
      {"hidden_size", 0},
      {"hidden_size", 64.5},
      {"hidden_size", 18446744073709551615u},
      {"num_hidden_layers", -1},
      {"num_attention_heads", "four"},
      {"num_key_value_heads", 3},
      {"head_dim", 15},
      {"intermediate_size", 1 << 30},
      {"vocab_size", true},
      {"max_position_embeddings", 0},
      {"rms_norm_eps", 0.0},
      {"attention_bias", 1},
      {"mlp_bias", "yes"},
      {"tie_word_embeddings", 0},
      {"hidden_act", 3},
      {"torch_dtype", 16},
      {"rope_theta", 1.0},
      {"rope_scaling", "linear"},
  };
  for (const auto& [key, value] : cases) {
    const auto spec = parse(with(key, value));
    ASSERT_FALSE(spec.has_value()) << key << " " << value;
    EXPECT_EQ(spec.error().kind, ErrorKind::kInvalidArgument) << key;
    EXPECT_THAT(spec.error().message, HasSubstr("config.json: " + key + ": found ")) << key;
  }
}

TEST(ParseSpec, NamesTheRopeKeyThatIsWrong) {
  const json llama3 = {{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}};
  const std::pair<std::string, json> cases[] = {{"factor", 0.0},
                                                {"factor", nullptr},
                                                {"low_freq_factor", nullptr},
                                                {"high_freq_factor", 0.5},
                                                {"original_max_position_embeddings", 0}};
  for (const auto& [key, value] : cases) {
    json rope = llama3;
    rope[key] = value;
    const auto spec = parse(with("rope_scaling", rope));
    ASSERT_FALSE(spec.has_value()) << key;
    EXPECT_THAT(spec.error().message, HasSubstr("config.json: rope_scaling: " + key + ": found ")) << key;
  }
}

TEST(ParseSpec, RefusesHeadsThatDoNotDivideTheHiddenSize) {
  const auto spec = parse(with("num_attention_heads", 5));
  ASSERT_FALSE(spec.has_value());
  EXPECT_THAT(spec.error().message, HasSubstr("head_dim"));
}

TEST(ParseSpec, RefusesTextThatIsNotOneObject) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  for (const std::string& text : {std::string(), std::string("{"), std::string("[1]"), deep,
                                  R"({"model_type": "llama", "model_type": "llama"})" + std::string(),
                                  "{\"model_type\": \"\xff\"}" + std::string()}) {
    const auto spec = parse_spec(text, "config.json");
    ASSERT_FALSE(spec.has_value()) << text.substr(0, 40);
    EXPECT_EQ(spec.error().kind, ErrorKind::kInvalidArgument) << text.substr(0, 40);
  }
}

TEST(ReadSpec, TellsAMissingFileFromABadOne) {
  const TemporaryDirectory directory;
  EXPECT_EQ(read_spec(directory.path() / "config.json").error().kind, ErrorKind::kNotFound);
  directory.write("config.json", "not json");
  const auto spec = read_spec(directory.path() / "config.json");
  EXPECT_EQ(spec.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(spec.error().message, HasSubstr((directory.path() / "config.json").string()));
}

}  // namespace
}  // namespace lockstep::checkpoint
