// Configs of every supported model type: as transformers saves them, with every key of its configuration class, and as
// files on the Hub. The goldens are written by tools/make_config_goldens.py.
#include <fstream>
#include <set>

#include "runtime/checkpoint/spec_families.h"
#include "tests/runtime/checkpoint/spec_testing.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

const json& goldens() {
  static const json read = json::parse(std::ifstream(LOCKSTEP_CONFIG_GOLDENS));
  return read;
}

/// A config's name, its text, and the model type that reads it.
struct Config {
  std::string name;
  json text;

  std::string model_type() const { return text.at("model_type"); }
};

std::vector<Config> configs() {
  std::vector<Config> all;
  for (const char* part : {"saved", "published"}) {
    for (const auto& [name, text] : goldens().at(part).items()) {
      all.push_back({fmt::format("{} {}", part, name), text});
      all.back().text.erase("quantization_config");  // its weights are another matter
    }
  }
  return all;
}

TEST(Configs, AreThoseOfEveryModelType) {
  std::set<std::string> seen;
  for (const Config& config : configs()) {
    seen.insert(config.model_type());
    if (config.text.contains("text_config")) seen.insert(config.text["text_config"].value("model_type", ""));
  }
  for (const std::string& type : supported_model_types()) EXPECT_TRUE(seen.contains(type)) << type;
}

TEST(Configs, AreReadToTheLastKey) {
  for (const Config& config : configs()) {
    const auto spec = parse(config.text);
    EXPECT_TRUE(spec.has_value()) << config.name << ": " << spec.error().message;
  }
}

/// Where a key may be added: the config, its text part, the objects of its ropes.
std::vector<json::json_pointer> places_in(const json& config) {
  std::vector<json::json_pointer> places;
  for (const char* part : {"", "/text_config"}) {
    const json::json_pointer at(part);
    if (!config.contains(at) && !at.empty()) continue;
    places.push_back(at);
    for (const char* rope : {"rope_scaling", "rope_parameters"}) {
      if (config[at].contains(rope) && config[at][rope].is_object()) places.push_back(at / rope);
    }
  }
  return places;
}

/// Keys of files on the Hub that transformers does not save; a type's config with them gives the same model.
TEST(Configs, MayHaveKeysWithoutEffect) {
  const std::pair<const char*, json> cases[] = {
      {"bloom", {{"bias_dropout_fusion", true}, {"offset_alibi", 100}, {"unk_token_id", 0}}},
      {"gemma2", {{"cache_implementation", "hybrid"}, {"hidden_act", "gelu_pytorch_tanh"}}},
      {"gpt2", {{"n_ctx", 1024}, {"task_specific_params", {{"text-generation", {{"do_sample", true}}}}}}},
      {"gpt_oss", {{"experts_per_token", 4}, {"initial_context_length", 4096}}},
      {"gptj", {{"rotary", true}, {"scale_attn_weights", true}, {"tokenizer_class", "GPT2Tokenizer"}}},
      {"llama", {{"max_sequence_length", 2048}, {"pretraining_tp", 1}, {"unsloth_fixed", true}}},
      {"opt", {{"activation_dropout", 0.0}, {"prefix", "</s>"}}},
      {"phi3", {{"full_attn_mod", 1}, {"interpolate_factor", 1}, {"lm_head_bias", false}, {"mlp_bias", false}}},
      {"qwen2", {{"use_mrope", false}}},
  };
  for (const auto& [type, keys] : cases) {
    json config = goldens().at("saved").at(type);
    const ModelSpec plain = parse(config).value();
    config.update(keys);
    const auto spec = parse(config);
    ASSERT_TRUE(spec.has_value()) << type << ": " << spec.error().message;
    EXPECT_EQ(spec.value(), plain) << type;
  }
}

TEST(Configs, MayHaveNoFurtherKey) {
  for (const Config& config : configs()) {
    for (const json::json_pointer& place : places_in(config.text)) {
      json further = config.text;
      further[place]["mystery"] = nullptr;
      EXPECT_TRUE(parse(further).has_value()) << config.name << place.to_string();
      further[place]["mystery"] = 2;
      const auto spec = parse(further);
      ASSERT_FALSE(spec.has_value()) << config.name << place.to_string();
      EXPECT_EQ(spec.error().kind, kUnsupported);
      EXPECT_THAT(spec.error().message, ::testing::HasSubstr("mystery: found 2")) << config.name;
    }
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
