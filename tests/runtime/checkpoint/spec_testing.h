// The common part of tests for config.json readers.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/checkpoint/model_spec.h"

namespace lockstep::checkpoint {

inline constexpr auto kUnsupported = ErrorKind::kUnsupported;
inline constexpr auto kInvalid = ErrorKind::kInvalidArgument;

inline Result<ModelSpec> parse(const nlohmann::json& config) { return parse_spec(config.dump(), "config.json"); }

/// `config` with its `keys` replaced.
inline nlohmann::json with(nlohmann::json config, const nlohmann::json& keys) {
  config.update(keys);
  return config;
}

/// The keys without a default, in the common spelling: 4 heads of 16, two layers.
inline nlohmann::json smallest(const std::string& model_type) {
  return {{"model_type", model_type}, {"hidden_size", 64},      {"intermediate_size", 96},
          {"vocab_size", 256},        {"num_hidden_layers", 2}, {"num_attention_heads", 4}};
}

/// The same with the keys that some families require.
inline nlohmann::json small(const std::string& model_type) {
  return with(smallest(model_type), {{"num_key_value_heads", 4}});
}

/// The result of `smallest` before a family's changes.
inline ModelSpec smallest_spec(const std::string& model_type) {
  ModelSpec spec;
  spec.model_type = model_type;
  spec.hidden_size = spec.embedding_size = 64;
  spec.layers = 2;
  spec.vocabulary = 256;
  spec.query_heads = spec.key_value_heads = 4;
  spec.head_dim = 16;
  spec.attention_scale = 0.25;
  spec.intermediate_size = 96;
  return spec;
}

/// A change to a config, and the expected message.
struct Refusal {
  nlohmann::json keys;
  ErrorKind kind;
  std::string message;
};

inline void expect_refusals(const nlohmann::json& config, const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    const auto spec = parse(with(config, refusal.keys));
    ASSERT_FALSE(spec.has_value()) << refusal.keys;
    EXPECT_EQ(spec.error().kind, refusal.kind) << refusal.keys;
    EXPECT_THAT(spec.error().message, ::testing::HasSubstr(refusal.message)) << refusal.keys;
  }
}

/// The keys of every published config, beside those of `smallest`.
inline nlohmann::json whole(const std::string& model_type, const nlohmann::json& own) {
  const nlohmann::json common = {{"architectures", {"AnyForCausalLM"}},
                                 {"attention_dropout", 0.0},
                                 {"bos_token_id", 1},
                                 {"eos_token_id", 2},
                                 {"hidden_act", "silu"},
                                 {"initializer_range", 0.02},
                                 {"max_position_embeddings", 4096},
                                 {"num_key_value_heads", 2},
                                 {"tie_word_embeddings", false},
                                 {"torch_dtype", "bfloat16"},
                                 {"transformers_version", "4.52.0"},
                                 {"use_cache", true}};
  return with(with(smallest(model_type), common), own);
}

/// Checks that `config` is read, and that a further key is refused unless it is null.
inline void expect_knows_these_keys_only(const nlohmann::json& config) {
  const auto spec = parse(config);
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_TRUE(parse(with(config, {{"mystery", nullptr}})).has_value());
  expect_refusals(config, {{{{"mystery", 2}}, kUnsupported, "mystery: found 2, expected only keys that"}});
}

}  // namespace lockstep::checkpoint
