// Qwen3-Next and Qwen 3.5. Defaults are those of transformers' configuration classes.
#include "tests/runtime/checkpoint/spec_testing.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The text part of a published config, of two layers.
json published_text() {
  return whole("qwen3_5_text", {{"attention_bias", false},
                                {"attn_output_gate", true},
                                {"full_attention_interval", 2},
                                {"head_dim", 16},
                                {"layer_types", {"linear_attention", "full_attention"}},
                                {"linear_conv_kernel_dim", 4},
                                {"linear_key_head_dim", 8},
                                {"linear_num_key_heads", 2},
                                {"linear_num_value_heads", 4},
                                {"linear_value_head_dim", 8},
                                {"mamba_ssm_dtype", "float32"},
                                {"mlp_only_layers", json::array()},
                                {"mtp_num_hidden_layers", 1},
                                {"mtp_use_dedicated_embeddings", false},
                                {"rope_parameters",
                                 {{"rope_type", "default"},
                                  {"rope_theta", 10000000},
                                  {"partial_rotary_factor", 0.25},
                                  {"mrope_section", {1, 1, 0}},
                                  {"mrope_interleaved", true}}}});
}

/// The whole config of a model that reads pictures too.
json published() {
  return {{"architectures", {"Qwen3_5ForConditionalGeneration"}},
          {"model_type", "qwen3_5"},
          {"text_config", published_text()},
          {"vision_config", {{"depth", 12}, {"model_type", "qwen3_5"}}},
          {"image_token_id", 248056},
          {"video_token_id", 248057},
          {"vision_start_token_id", 248053},
          {"vision_end_token_id", 248054},
          {"tie_word_embeddings", true},
          {"transformers_version", "4.57.0.dev0"}};
}

TEST(ParseQwen35, KnowsEveryPublishedKeyAndNoOther) {
  expect_knows_these_keys_only(published_text());
  expect_knows_these_keys_only(published());
  json inside = published();
  inside["text_config"]["mystery"] = 2;
  expect_refusals(inside, {{json::object(), kUnsupported, "mystery: found 2, expected only keys that"}});
}

TEST(ParseQwen35, FillsInTheDefaults) {
  json config = smallest("qwen3_5_text");
  config["num_hidden_layers"] = 8;
  const ModelSpec spec = parse(config).value();
  EXPECT_EQ(spec.head_dim, 256);
  EXPECT_EQ(spec.key_value_heads, 4);
  EXPECT_EQ(spec.rope.rotated, 64);
  EXPECT_TRUE(spec.query_key_norm);
  EXPECT_TRUE(spec.attention_gate);
  EXPECT_THAT(spec.delta_layers, ElementsAre(0, 1, 2, 4, 5, 6));
  const DeltaRuleSpec expected{.key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128, .taps = 4};
  EXPECT_EQ(spec.delta_rule, expected);
}

TEST(ParseQwen35, ReadsTheTextPartOfALargerModel) {
  const ModelSpec spec = parse(published()).value();
  EXPECT_EQ(spec.model_type, "qwen3_5_text");
  EXPECT_TRUE(spec.tied_embeddings);  // the whole config's word
  EXPECT_THAT(spec.delta_layers, ElementsAre(0));
  EXPECT_EQ(spec.rope.theta, 1e7);
  EXPECT_EQ(spec.rope.rotated, 4);
  EXPECT_EQ(spec.delta_rule.value_heads, 4);
}

TEST(ParseQwen35, RefusesWhatItCannotRun) {
  expect_refusals(
      published_text(),
      {{{{"attn_output_gate", false}}, kUnsupported, "attn_output_gate: found false, expected true"},
       {{{"hidden_act", "gelu"}}, kUnsupported, "hidden_act: found \"gelu\", expected silu"},
       {{{"linear_num_key_heads", 3}}, kInvalid, "linear_num_key_heads: found 3, expected a divisor of the 4 value"},
       {{{"linear_conv_kernel_dim", 17}}, kInvalid, "linear_conv_kernel_dim: found 17"},
       {{{"layer_types", {"linear_attention"}}}, kInvalid, "layer_types: found"},
       {{{"layer_types", {"linear_attention", "chunked_attention"}}},
        kUnsupported,
        "layer_types: found \"chunked_attention\", expected \"linear_attention\" or \"full_attention\""},
       {{{"layer_types", {"linear_attention", "linear_attention"}}},
        kUnsupported,
        "expected attention in one at least"}});
  json config = published();
  config.erase("text_config");
  expect_refusals(config, {{json::object(), kInvalid, "text_config: found nothing"}});
}

json published_next() {
  json config = published_text();
  config.update(json{{"model_type", "qwen3_next"},
                     {"decoder_sparse_step", 1},
                     {"moe_intermediate_size", 32},
                     {"norm_topk_prob", true},
                     {"num_experts", 8},
                     {"num_experts_per_tok", 2},
                     {"output_router_logits", false},
                     {"partial_rotary_factor", 0.5},
                     {"rope_parameters", nullptr},
                     {"rope_theta", 10000000},
                     {"router_aux_loss_coef", 0.001},
                     {"shared_expert_intermediate_size", 24}});
  return config;
}

TEST(ParseQwen3Next, ReadsExpertsAndDenseLayers) {
  expect_knows_these_keys_only(published_next());
  const ModelSpec spec = parse(with(published_next(), {{"mlp_only_layers", {1}}})).value();
  EXPECT_EQ(spec.mlp, Mlp::kExperts);
  EXPECT_EQ(spec.experts, 8);
  EXPECT_EQ(spec.experts_per_token, 2);
  EXPECT_EQ(spec.intermediate_size, 32);
  EXPECT_EQ(spec.shared_expert_size, 24);
  EXPECT_TRUE(spec.shared_expert_gate);
  EXPECT_TRUE(spec.router.sum_to_one);
  EXPECT_THAT(spec.dense_layers, ElementsAre(1));
  EXPECT_EQ(spec.dense_size, 96);
  EXPECT_EQ(spec.rope.rotated, 8);
  EXPECT_FALSE(parse(with(published_next(), {{"norm_topk_prob", false}})).value().router.sum_to_one);
}

TEST(ParseQwen35Moe, HasExpertsInEveryLayer) {
  json text = published_next();
  text["model_type"] = "qwen3_5_moe_text";
  json config = published();
  config.update(json{{"model_type", "qwen3_5_moe"}, {"text_config", text}});
  expect_knows_these_keys_only(config);
  const ModelSpec spec = parse(config).value();
  EXPECT_EQ(spec.model_type, "qwen3_5_moe_text");
  EXPECT_EQ(spec.shared_expert_size, 24);
  EXPECT_TRUE(spec.dense_layers.empty());
  const ModelSpec smallest_of = parse(with(smallest("qwen3_5_moe_text"), {{"num_hidden_layers", 4}})).value();
  EXPECT_EQ(smallest_of.experts, 256);
  EXPECT_EQ(smallest_of.experts_per_token, 8);
  EXPECT_EQ(smallest_of.intermediate_size, 512);
  EXPECT_EQ(smallest_of.shared_expert_size, 512);
}

}  // namespace
}  // namespace lockstep::checkpoint
