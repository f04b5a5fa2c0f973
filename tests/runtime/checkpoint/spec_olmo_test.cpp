// OLMo 2 and 3 and OLMoE. Defaults are those of transformers' configuration classes.
#include "tests/runtime/checkpoint/spec_testing.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

json published(const std::string& model_type, const json& own) {
  const json common = {{"attention_bias", false}, {"pad_token_id", 1}, {"rms_norm_eps", 1e-6}, {"rope_theta", 500000}};
  return whole(model_type, with(common, own));
}

const json kYarn = {{"attention_factor", 1.2}, {"beta_fast", 32},     {"beta_slow", 1},
                    {"factor", 8.0},           {"rope_type", "yarn"}, {"original_max_position_embeddings", 8192}};

TEST(ParseOlmo, KnowsEveryPublishedKeyAndNoOther) {
  expect_knows_these_keys_only(published("olmo2", {{"rope_scaling", nullptr}}));
  expect_knows_these_keys_only(published(
      "olmo3",
      {{"layer_types", {"sliding_attention", "full_attention"}}, {"rope_scaling", kYarn}, {"sliding_window", 4096}}));
  expect_knows_these_keys_only(published("olmoe", {{"clip_qkv", nullptr},
                                                   {"norm_topk_prob", false},
                                                   {"num_experts", 64},
                                                   {"num_experts_per_tok", 8},
                                                   {"output_router_logits", false},
                                                   {"router_aux_loss_coef", 0.01}}));
}

TEST(ParseOlmo, FillsInTheDefaults) {
  ModelSpec expected = smallest_spec("olmo2");
  expected.rope.rotated = 16;
  expected.max_positions = 2048;
  expected.norm_epsilon = 1e-5;
  expected.query_key_norm = expected.norm_across_heads = true;
  EXPECT_EQ(parse(smallest("olmo2")).value(), expected);

  ModelSpec olmo3 = expected;
  olmo3.model_type = "olmo3";
  olmo3.rope.theta = 500000.0;
  olmo3.windows = {4096, 4096};
  EXPECT_EQ(parse(smallest("olmo3")).value(), olmo3);

  ModelSpec olmoe = expected;
  olmoe.model_type = "olmoe";
  olmoe.max_positions = 4096;
  olmoe.mlp = Mlp::kExperts;
  olmoe.experts = 64;
  olmoe.experts_per_token = 8;
  olmoe.router.sum_to_one = false;
  EXPECT_EQ(parse(smallest("olmoe")).value(), olmoe);
}

TEST(ParseOlmo3, StretchesTheRopeOfLayersWithoutAWindow) {
  const ModelSpec spec = parse(published("olmo3", {{"num_hidden_layers", 8}, {"rope_scaling", kYarn}})).value();
  EXPECT_THAT(spec.windows, ElementsAre(4096, 4096, 4096, 0, 4096, 4096, 4096, 0));
  EXPECT_EQ(spec.rope.kind, RopeSpec::Kind::kYarn);
  ASSERT_TRUE(spec.local_rope.has_value());
  EXPECT_EQ(spec.local_rope->kind, RopeSpec::Kind::kDefault);
  EXPECT_EQ(spec.local_rope->theta, 500000.0);
}

TEST(ParseOlmo3, ReadsARopeForEachKindOfLayers) {
  const json ropes = {{"full_attention", with(kYarn, {{"truncate", false}})},
                      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 7e4}}}};
  const ModelSpec spec = parse(published("olmo3", {{"rope_parameters", ropes}})).value();
  EXPECT_EQ(spec.rope.kind, RopeSpec::Kind::kYarn);
  EXPECT_TRUE(spec.rope.truncate) << "transformers does not read the key there";
  EXPECT_EQ(spec.local_rope.value().theta, 7e4);
  expect_refusals(published("olmo3", json::object()),
                  {{{{"rope_parameters", kYarn}}, kUnsupported, "rope_parameters: found one object, expected one for"},
                   {{{"rope_parameters", {{"full_attention", {{"mystery", 2}}}}}},
                    kUnsupported,
                    "rope_parameters: mystery: found 2, expected only keys of ropes"}});
}

TEST(ParseOlmoe, RefusesWhatItCannotRun) {
  expect_refusals(published("olmoe", json::object()),
                  {{{{"clip_qkv", 8.0}}, kUnsupported, "clip_qkv: found 8.0, expected null"},
                   {{{"head_dim", 32}}, kUnsupported, "head_dim: found 32, expected only keys"}});
}

}  // namespace
}  // namespace lockstep::checkpoint
