// DeepSeek-V2, DeepSeek-V3, GLM-4.7-Flash and Mistral 4. Defaults are those of transformers' configuration classes.
#include <cmath>

#include "tests/runtime/checkpoint/spec_testing.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

/// Published configs with smaller sizes; deepseek-ai/DeepSeek-V2, DeepSeek-V3 (without its quantisation) and
/// zai-org/GLM-4.7-Flash.
json published(const std::string& model_type) {
  const json latent = {{"attention_bias", false},  {"first_k_dense_replace", 1},
                       {"kv_lora_rank", 24},       {"moe_intermediate_size", 32},
                       {"n_routed_experts", 8},    {"n_shared_experts", 2},
                       {"num_experts_per_tok", 2}, {"num_key_value_heads", 4},
                       {"q_lora_rank", 40},        {"qk_nope_head_dim", 12},
                       {"qk_rope_head_dim", 8},    {"routed_scaling_factor", 2.5},
                       {"v_head_dim", 20},         {"rms_norm_eps", 1e-6},
                       {"pretraining_tp", 1}};
  const json yarn = {{"type", "yarn"},
                     {"factor", 40},
                     {"beta_fast", 32},
                     {"beta_slow", 1},
                     {"mscale", 0.707},
                     {"mscale_all_dim", 0.707},
                     {"original_max_position_embeddings", 4096}};
  json config = with(whole(model_type, latent), {{"n_group", 4}, {"topk_group", 2}});
  if (model_type == "glm4_moe_lite") {
    config.erase("first_k_dense_replace");
    return with(config, {{"n_group", 1},
                         {"topk_group", 1},
                         {"norm_topk_prob", true},
                         {"num_nextn_predict_layers", 1},
                         {"partial_rotary_factor", 1.0},
                         {"rope_scaling", nullptr},
                         {"rope_theta", 1000000},
                         {"topk_method", "noaux_tc"}});
  }
  if (model_type == "mistral4") {
    config["rope_parameters"] = with(yarn, {{"rope_theta", 10000},
                                            {"llama_4_scaling_beta", 0.1},
                                            {"max_position_embeddings", 1048576},
                                            {"partial_rotary_factor", 0.4}});
    return with(config, {{"norm_topk_prob", true}, {"rope_interleave", true}, {"qk_head_dim", 20}, {"head_dim", 20}});
  }
  config = with(config, {{"rope_scaling", yarn},
                         {"rope_theta", 10000},
                         {"aux_loss_alpha", 0.001},
                         {"seq_aux", true},
                         {"moe_layer_freq", 1},
                         {"ep_size", 1}});
  if (model_type == "deepseek_v2") {
    return with(config,
                {{"topk_method", "group_limited_greedy"}, {"scoring_func", "softmax"}, {"norm_topk_prob", false}});
  }
  return with(config, {{"topk_method", "noaux_tc"},
                       {"scoring_func", "sigmoid"},
                       {"norm_topk_prob", true},
                       {"num_nextn_predict_layers", 1}});
}

class ParseLatent : public ::testing::TestWithParam<const char*> {};

TEST_P(ParseLatent, KnowsEveryPublishedKeyAndNoOther) { expect_knows_these_keys_only(published(GetParam())); }

TEST_P(ParseLatent, HasOneKeyHeadOfLatentAndRotatedKey) {
  const ModelSpec spec = parse(published(GetParam())).value();
  EXPECT_EQ(spec.latent,
            (LatentAttention{.query_rank = 40, .rank = 24, .plain_dim = 12, .rotated_dim = 8, .value_dim = 20}));
  EXPECT_EQ(spec.query_heads, 4);
  EXPECT_EQ(spec.key_value_heads, 1);
  EXPECT_EQ(spec.head_dim, 32);
  EXPECT_EQ(spec.heads_of(0).key_value_rows(), 32);
  EXPECT_EQ(spec.query_head_elements(0), 20 * 40 + 32 * 24 + 20 * 64);
  EXPECT_EQ(spec.rope.rotated, 8);
  EXPECT_EQ(spec.rope.pairs, RopeSpec::Pairs::kNeighbours);
  EXPECT_THAT(spec.dense_layers, ElementsAre(0));
  EXPECT_EQ(spec.shared_expert_size, 64);
}

TEST_P(ParseLatent, RefusesWhatItCannotRun) {
  expect_refusals(published(GetParam()),
                  {{{{"num_key_value_heads", 2}}, kUnsupported, "num_key_value_heads: found 2, expected 4, the query"},
                   {{{"qk_rope_head_dim", 7}}, kInvalid, "found 7, expected an even number"},
                   {{{"kv_lora_rank", 0}}, kInvalid, "kv_lora_rank: found 0"}});
}

INSTANTIATE_TEST_SUITE_P(Every, ParseLatent,
                         ::testing::Values("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "mistral4"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(ParseDeepseekV2, ChoosesBySoftmaxAmongTheBestGroups) {
  const ModelSpec spec = parse(published("deepseek_v2")).value();
  const RouterSpec greedy{.sum_to_one = false, .scale = 2.5};
  RouterSpec grouped = greedy;
  grouped.groups = 4;
  grouped.kept_groups = 2;
  EXPECT_EQ(spec.router, grouped);
  EXPECT_EQ(parse(with(published("deepseek_v2"), {{"topk_method", "greedy"}})).value().router, greedy);
  expect_refusals(published("deepseek_v2"),
                  {{{{"topk_method", "noaux_tc"}}, kUnsupported, "topk_method: found \"noaux_tc\""},
                   {{{"mlp_bias", true}}, kUnsupported, "mlp_bias: found true"},
                   {{{"n_group", 3}}, kInvalid, "n_group: found 3, expected a divisor of the 8 experts"}});
}

TEST(ParseDeepseekV3, FillsInTheDefaults) {
  const json sizes = {{"num_hidden_layers", 4}, {"num_attention_heads", 4}};
  const ModelSpec spec = parse(with(smallest("deepseek_v3"), sizes)).value();
  EXPECT_EQ(spec.latent,
            (LatentAttention{.query_rank = 1536, .rank = 512, .plain_dim = 128, .rotated_dim = 64, .value_dim = 128}));
  EXPECT_EQ(spec.head_dim, 576);
  EXPECT_DOUBLE_EQ(spec.attention_scale, 1 / std::sqrt(192.0));
  EXPECT_EQ(spec.router, (RouterSpec{.scores = RouterSpec::Scores::kSigmoid,
                                     .has_bias = true,
                                     .groups = 8,
                                     .kept_groups = 4,
                                     .group_score = RouterSpec::GroupScore::kBestTwo,
                                     .least_sum = 1e-20,
                                     .scale = 2.5}));
  EXPECT_EQ(spec.experts, 256);
  EXPECT_THAT(spec.dense_layers, ElementsAre(0, 1, 2));
}

TEST(ParseDeepseekV3, StretchesScoresWithTheRope) {
  const double mscale = 0.1 * 0.707 * std::log(40.0) + 1;
  EXPECT_DOUBLE_EQ(parse(published("deepseek_v3")).value().attention_scale, mscale * mscale / std::sqrt(20.0));
  json plain = published("deepseek_v3");
  plain["rope_scaling"].erase("mscale_all_dim");
  EXPECT_DOUBLE_EQ(parse(plain).value().attention_scale, 1 / std::sqrt(20.0));
}

TEST(ParseDeepseekV3, MayProjectQueriesDirectlyAndRotateHalves) {
  const json keys = {{"q_lora_rank", nullptr}, {"rope_interleave", false}, {"attention_bias", true}};
  const ModelSpec spec = parse(with(published("deepseek_v3"), keys)).value();
  EXPECT_EQ(spec.latent->query_rank, 0);
  EXPECT_EQ(spec.rope.pairs, RopeSpec::Pairs::kHalves);
  EXPECT_TRUE(spec.attention_bias && spec.attention_output_bias);
}

}  // namespace

TEST(ParseMistral4, ScalesQueriesAndChoosesBySoftmax) {
  const ModelSpec spec = parse(published("mistral4")).value();
  EXPECT_EQ(spec.query_scaling, (QueryScaling{.beta = 0.1, .every = 4096}));
  EXPECT_TRUE(spec.scales_queries(0));
  EXPECT_EQ(spec.router, (RouterSpec{.groups = 4,
                                     .kept_groups = 2,
                                     .group_score = RouterSpec::GroupScore::kBestTwo,
                                     .least_sum = 1e-20,
                                     .scale = 2.5}));
  json rope = published("mistral4").at("rope_parameters");
  rope["partial_rotary_factor"] = 0.5;
  expect_refusals(published("mistral4"), {{{{"rope_parameters", rope}},
                                           kUnsupported,
                                           "partial_rotary_factor: found 0.5, expected 0.4, qk_rope_head_dim"}});
  json bare = published("mistral4");
  bare.erase("rope_parameters");
  EXPECT_EQ(parse(bare).value().query_scaling, (QueryScaling{.beta = 0.1, .every = 8192}));
}

TEST(ParseMistral4, IsTheTextPartOfItsMultimodalConfig) {
  json text = published("mistral4");
  text.erase("tie_word_embeddings");
  json outer = {{"model_type", "mistral3"},
                {"architectures", {"Mistral3ForConditionalGeneration"}},
                {"text_config", text},
                {"vision_config", {{"model_type", "pixtral"}}},
                {"tie_word_embeddings", false}};
  EXPECT_EQ(parse(outer).value(), parse(published("mistral4")).value());
  outer["torch_dtype"] = "bfloat16";  // beside the dtype of the text part
  const auto spec = parse(outer);
  EXPECT_TRUE(spec.has_value()) << spec.error().message;
}

}  // namespace lockstep::checkpoint
