// Mixtures of experts. Defaults are those of transformers' configuration classes.
#include <map>

#include "tests/runtime/checkpoint/spec_testing.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

ModelSpec mixtral_spec() {
  ModelSpec spec = smallest_spec("mixtral");
  spec.max_positions = 131072;
  spec.norm_epsilon = 1e-5;
  spec.mlp = Mlp::kExperts;
  spec.experts = 8;
  spec.experts_per_token = 2;
  spec.rope = {.rotated = 16, .theta = 1e6};
  return spec;
}

ModelSpec gpt_oss_spec() {
  ModelSpec spec = smallest_spec("gpt_oss");
  spec.head_dim = 64;
  spec.attention_scale = 0.125;
  spec.max_positions = 131072;
  spec.norm_epsilon = 1e-5;
  spec.mlp = Mlp::kExperts;
  spec.experts = 128;
  spec.experts_per_token = 4;
  spec.activation = "clamped_swiglu";
  spec.swiglu_limit = 7.0;
  spec.swiglu_alpha = 1.702;
  spec.mlp_bias = spec.attention_bias = spec.attention_output_bias = spec.attention_sinks = true;
  spec.windows = {128, 0};
  spec.rope = {.kind = RopeSpec::Kind::kYarn,
               .rotated = 64,
               .theta = 150000.0,
               .factor = 32.0,
               .original_max_positions = 4096,
               .truncate = false};
  return spec;
}

TEST(ParseMixtral, FillsInTheDefaults) { EXPECT_EQ(parse(small("mixtral")).value(), mixtral_spec()); }

TEST(ParseMixtral, ReadsItsOwnKeys) {
  ModelSpec expected = mixtral_spec();
  expected.experts = 4;
  expected.experts_per_token = 1;
  expected.windows = {32, 32};
  expected.activation = "gelu_tanh";
  const json keys = {{"num_experts_per_tok", 1}, {"sliding_window", 32}, {"hidden_act", "gelu_new"}};
  EXPECT_EQ(parse(with(with(small("mixtral"), keys), {{"num_local_experts", 4}})).value(), expected);
  EXPECT_EQ(parse(with(with(small("mixtral"), keys), {{"num_experts", 4}})).value(), expected);
}

TEST(ParseMixtral, RefusesWhatItCannotRun) {
  expect_refusals(small("mixtral"),
                  {{{{"num_experts_per_tok", 9}}, kInvalid, "num_experts_per_tok: found 9, expected 1 to 8"},
                   {{{"num_experts_per_tok", 0}}, kInvalid, "num_experts_per_tok: found 0"},
                   {{{"num_local_experts", 0}}, kInvalid, "num_local_experts: found 0"},
                   {{{"num_experts", 4}, {"num_local_experts", 8}},
                    kInvalid,
                    "num_local_experts: found 8, expected 4, as num_experts"},
                   {{{"hidden_act", "relu"}}, kUnsupported, "hidden_act: found \"relu\""},
                   {{{"quantization_config", {{"quant_method", "mxfp4"}}}},
                    kUnsupported,
                    "quantised weights (\"mxfp4\"), expected mxfp4 only for gpt_oss"}});
}

/// Published configs; the sizes are smaller.
json experts(const std::string& model_type) {
  const std::map<std::string, json> configs = {{"qwen2_moe",
                                                {{"decoder_sparse_step", 1},
                                                 {"max_window_layers", 21},
                                                 {"mlp_only_layers", json::array()},
                                                 {"moe_intermediate_size", 32},
                                                 {"norm_topk_prob", false},
                                                 {"num_experts", 8},
                                                 {"num_experts_per_tok", 2},
                                                 {"output_router_logits", false},
                                                 {"qkv_bias", true},
                                                 {"rms_norm_eps", 1e-6},
                                                 {"rope_theta", 1e6},
                                                 {"router_aux_loss_coef", 0.001},
                                                 {"shared_expert_intermediate_size", 100},
                                                 {"sliding_window", 32768},
                                                 {"use_sliding_window", false}}},
                                               {"glm4_moe",
                                                {{"attention_bias", true},
                                                 {"head_dim", 16},
                                                 {"partial_rotary_factor", 0.5},
                                                 {"moe_intermediate_size", 32},
                                                 {"norm_topk_prob", true},
                                                 {"n_group", 1},
                                                 {"topk_group", 1},
                                                 {"n_routed_experts", 8},
                                                 {"n_shared_experts", 1},
                                                 {"routed_scaling_factor", 2.5},
                                                 {"num_experts_per_tok", 2},
                                                 {"first_k_dense_replace", 1},
                                                 {"rms_norm_eps", 1e-5},
                                                 {"rope_scaling", nullptr},
                                                 {"rope_theta", 1000000},
                                                 {"num_nextn_predict_layers", 1},
                                                 {"pad_token_id", 3},
                                                 {"use_qk_norm", true}}},
                                               {"ernie4_5_moe",
                                                {{"moe_capacity", {64, 64, 64}},
                                                 {"moe_gate", "topk"},
                                                 {"moe_intermediate_size", 32},
                                                 {"moe_k", 2},
                                                 {"moe_layer_interval", 1},
                                                 {"moe_layer_start_index", 1},
                                                 {"moe_layer_end_index", 1},
                                                 {"moe_num_experts", 8},
                                                 {"moe_num_shared_experts", 2},
                                                 {"moe_use_aux_free", true},
                                                 {"num_nextn_predict_layers", 1},
                                                 {"pad_token_id", 0},
                                                 {"rms_norm_eps", 1e-5},
                                                 {"rope_scaling", nullptr},
                                                 {"rope_theta", 500000},
                                                 {"use_bias", false}}},
                                               {"minimax_m2",
                                                {{"attn_type_list", {1, 1}},
                                                 {"head_dim", 16},
                                                 {"mtp_transformer_layers", 1},
                                                 {"num_experts_per_tok", 2},
                                                 {"num_local_experts", 8},
                                                 {"num_mtp_modules", 3},
                                                 {"qk_norm_type", "per_layer"},
                                                 {"rms_norm_eps", 1e-6},
                                                 {"rope_theta", 5000000},
                                                 {"rotary_dim", 8},
                                                 {"scoring_func", "sigmoid"},
                                                 {"shared_intermediate_size", 0},
                                                 {"use_mtp", true},
                                                 {"use_qk_norm", true},
                                                 {"use_routing_bias", true},
                                                 {"router_jitter_noise", 0.0},
                                                 {"output_router_logits", false},
                                                 {"router_aux_loss_coef", 0.001}}}};
  return whole(model_type, configs.at(model_type));
}

class StrictExperts : public ::testing::TestWithParam<std::string> {};

TEST_P(StrictExperts, KnowEveryPublishedKeyAndNoOther) { expect_knows_these_keys_only(experts(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Every, StrictExperts, ::testing::Values("qwen2_moe", "glm4_moe", "ernie4_5_moe", "minimax_m2"),
                         [](const auto& test) { return test.param; });

TEST(ParseQwen2Moe, HasASharedExpertOfItsOwnWidth) {
  const ModelSpec spec = parse(experts("qwen2_moe")).value();
  EXPECT_EQ(spec.shared_expert_size, 100);
  EXPECT_EQ(spec.intermediate_size, 32);
  EXPECT_EQ(spec.experts, 8);
  EXPECT_TRUE(spec.shared_expert_gate && !spec.router.sum_to_one);
  EXPECT_TRUE(spec.attention_bias && !spec.attention_output_bias);
}

TEST(ParseQwen2Moe, GivesEverySecondLowerLayerTheWindow) {
  const json keys = {
      {"num_hidden_layers", 6}, {"use_sliding_window", true}, {"sliding_window", 8}, {"max_window_layers", 4}};
  EXPECT_THAT(parse(with(experts("qwen2_moe"), keys)).value().windows, ElementsAre(8, 0, 8, 0, 0, 0));
  EXPECT_TRUE(parse(with(experts("qwen2_moe"), {{"sliding_window", 8}})).value().windows.empty());
}

TEST(ParseGlm4Moe, ReadsItsRouterSharedExpertAndDenseLayers) {
  const json groups = {{"n_group", 4}, {"topk_group", 2}, {"num_experts_per_tok", 3}, {"n_shared_experts", 2}};
  const ModelSpec spec = parse(with(experts("glm4_moe"), groups)).value();
  EXPECT_EQ(spec.router, (RouterSpec{.scores = RouterSpec::Scores::kSigmoid,
                                     .has_bias = true,
                                     .groups = 4,
                                     .kept_groups = 2,
                                     .group_score = RouterSpec::GroupScore::kBestTwo,
                                     .least_sum = 1e-20,
                                     .scale = 2.5}));
  EXPECT_EQ(spec.shared_expert_size, 64);
  EXPECT_FALSE(spec.shared_expert_gate);
  EXPECT_THAT(spec.dense_layers, ElementsAre(0));
  EXPECT_EQ(spec.dense_size, 96);
  EXPECT_EQ(spec.rope.rotated, 8);
  EXPECT_TRUE(spec.attention_bias && !spec.attention_output_bias && spec.query_key_norm);
  expect_refusals(experts("glm4_moe"),
                  {{{{"n_group", 3}}, kInvalid, "n_group: found 3, expected a divisor of the 8 experts"},
                   {{{"n_group", 8}}, kInvalid, "n_group: found 8, expected a divisor"},
                   {{{"n_group", 4}, {"topk_group", 5}}, kInvalid, "topk_group: found 5, expected groups of the 4"},
                   {{{"n_group", 4}, {"num_experts_per_tok", 3}}, kInvalid, "topk_group: found 1, expected groups"},
                   {{{"first_k_dense_replace", 2}}, kInvalid, "found no layer with experts among 2"}});
}

TEST(ParseErnie45Moe, ReadsItsRouterAndTheRangeOfItsExperts) {
  const json keys = {{"num_hidden_layers", 6}, {"moe_layer_end_index", 4}, {"moe_norm_min", 0.5}};
  const ModelSpec spec = parse(with(experts("ernie4_5_moe"), keys)).value();
  EXPECT_THAT(spec.dense_layers, ElementsAre(0, 5));
  EXPECT_EQ(spec.router, (RouterSpec{.has_bias = true, .least_sum = 0.5}));
  EXPECT_EQ(spec.shared_expert_size, 64);
  EXPECT_EQ(spec.experts_per_token, 2);
  EXPECT_EQ(spec.rope.pairs, RopeSpec::Pairs::kNeighbours);
  const json pairs = {{"num_hidden_layers", 6}, {"moe_layer_end_index", -1}, {"moe_layer_interval", 2}};
  EXPECT_THAT(parse(with(experts("ernie4_5_moe"), pairs)).value().dense_layers, ElementsAre(0, 2, 4));
  expect_refusals(experts("ernie4_5_moe"),
                  {{{{"use_bias", true}}, kUnsupported, "use_bias: found true, expected false"},
                   {{{"moe_k", 9}}, kInvalid, "moe_k: found 9, expected 1 to 8, the experts"}});
}

TEST(ParseMiniMaxM2, NormsAcrossHeadsAndRotatesAPartOfThem) {
  const ModelSpec spec = parse(experts("minimax_m2")).value();
  EXPECT_TRUE(spec.query_key_norm && spec.norm_across_heads);
  EXPECT_EQ(spec.rope.rotated, 8);
  EXPECT_EQ(spec.router, (RouterSpec{.scores = RouterSpec::Scores::kSigmoid, .has_bias = true}));
  json newer = experts("minimax_m2");
  newer.erase("rotary_dim");
  newer.erase("rope_theta");
  newer["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e6}, {"partial_rotary_factor", 0.5}};
  EXPECT_EQ(parse(newer).value(), spec);
}

TEST(ParseGptOss, FillsInTheDefaults) { EXPECT_EQ(parse(small("gpt_oss")).value(), gpt_oss_spec()); }

TEST(ParseGptOss, ReadsItsOwnKeys) {
  ModelSpec expected = gpt_oss_spec();
  expected.experts = 32;
  expected.swiglu_limit = 5.0;
  expected.swiglu_alpha = 1.5;
  expected.attention_bias = expected.attention_output_bias = false;
  expected.windows = {16, 16};
  const json keys = {{"num_local_experts", 32}, {"swiglu_limit", 5},
                     {"swiglu_alpha", 1.5},     {"attention_bias", false},
                     {"sliding_window", 16},    {"layer_types", {"sliding_attention", "sliding_attention"}}};
  EXPECT_EQ(parse(with(small("gpt_oss"), keys)).value(), expected);
}

TEST(ParseGptOss, ReadsBothSpellingsAlike) {
  const json yarn = {{"rope_type", "yarn"}, {"factor", 32.0},    {"beta_fast", 32.0},
                     {"beta_slow", 1.0},    {"truncate", false}, {"original_max_position_embeddings", 4096}};
  const json older = {{"rope_theta", 150000}, {"rope_scaling", yarn}};
  const json newer = {{"rope_parameters", with(yarn, {{"rope_theta", 150000.0}})}};
  EXPECT_EQ(parse(with(small("gpt_oss"), older)).value(), gpt_oss_spec());
  EXPECT_EQ(parse(with(small("gpt_oss"), newer)).value(), gpt_oss_spec());
}

TEST(ParseGptOss, StretchesPositionsOnlyWhenNothingIsSaidAboutThem) {
  EXPECT_EQ(parse(with(small("gpt_oss"), {{"rope_theta", 7.0}})).value().rope.kind, RopeSpec::Kind::kYarn);
  const json original = {{"original_max_position_embeddings", 16}};
  EXPECT_EQ(parse(with(small("gpt_oss"), original)).value().rope.original_max_positions, 16);
  EXPECT_EQ(parse(with(small("gpt_oss"), {{"rope_parameters", json::object()}})).value().rope,
            (RopeSpec{.rotated = 64, .theta = 150000.0}));
}

TEST(ParseGptOss, AcceptsWeightsInMxfp4) {
  const json mxfp4 = {{"quantization_config", {{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"lm_head"}}}}};
  ModelSpec expected = gpt_oss_spec();
  expected.dtype = DType::kBFloat16;  // implicit in such files
  const MatrixFormat mxfp4_format{
      .weights = {.kind = CodeKind::kE2M1, .bits = 4, .group = 32, .scale = ScaleType::kPowerOfTwo}};
  for (int layer = 0; layer < 2; ++layer) {
    for (const char* part : {"down", "gate", "up"}) {
      expected.formats.exceptions.push_back(
          {fmt::format("model.layers.{}.mlp.experts.*.{}_proj.weight", layer, part), mxfp4_format});
    }
  }
  EXPECT_EQ(parse(with(small("gpt_oss"), mxfp4)).value(), expected);
}

TEST(ParseGptOss, RefusesWhatItCannotRun) {
  expect_refusals(small("gpt_oss"),
                  {{{{"quantization_config", {{"quant_method", "hqq"}}}},
                    kUnsupported,
                    "quantised weights (\"hqq\"), expected gptq, awq, compressed-tensors, fp8, mxfp4"},
                   {{{"sliding_window", nullptr}}, kInvalid, "sliding_window: found no window in use"},
                   {{{"swiglu_limit", 0}}, kInvalid, "swiglu_limit: found 0"},
                   {{{"num_experts_per_tok", 129}}, kInvalid, "num_experts_per_tok: found 129, expected 1 to 128"}});
}

}  // namespace
}  // namespace lockstep::checkpoint
