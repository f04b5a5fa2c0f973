// Variants of Llama. Defaults are those of transformers' configuration classes; the whole configs have the keys of the
// published ones.
#include <cmath>

#include "tests/runtime/checkpoint/spec_testing.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

json published(const std::string& model_type) {
  const json rope = {{"rope_theta", 10000.0}, {"rope_scaling", nullptr}};
  const json rms = with(rope, {{"rms_norm_eps", 1e-6}});
  const json granite = with(rms, {{"attention_bias", false},
                                  {"attention_multiplier", 0.015625},
                                  {"embedding_multiplier", 12.0},
                                  {"pad_token_id", 0},
                                  {"residual_multiplier", 0.22}});
  const json configs = {
      {"ernie4_5", with(rms, {{"head_dim", 16}, {"pad_token_id", 0}, {"use_bias", false}})},
      {"exaone4", with(rms, {{"head_dim", 16},
                             {"layer_types", {"sliding_attention", "full_attention"}},
                             {"pad_token_id", 0},
                             {"sliding_window", 32},
                             {"sliding_window_pattern", "LLLG"}})},
      {"glm4",
       with(rms, {{"attention_bias", false}, {"head_dim", 16}, {"pad_token_id", 0}, {"partial_rotary_factor", 0.5}})},
      {"granite", with(granite, {{"logits_scaling", 8.0}, {"mlp_bias", false}})},
      {"granitemoe", with(granite, {{"logits_scaling", 6.0},
                                    {"num_experts_per_tok", 8},
                                    {"num_local_experts", 32},
                                    {"output_router_logits", false},
                                    {"router_aux_loss_coef", 0.001}})},
      {"hunyuan_v1_dense", with(rms, {{"add_classification_head", false},
                                      {"attention_bias", false},
                                      {"attention_head_dim", 16},
                                      {"cla_share_factor", 2},
                                      {"class_num", 0},
                                      {"dense_list", {64, 0}},
                                      {"eod_token_id", 3},
                                      {"head_dim", 16},
                                      {"im_end_id", 5},
                                      {"im_newline_id", 11},
                                      {"im_start_id", 4},
                                      {"mask_init_id", 12},
                                      {"mlp_bias", false},
                                      {"norm_type", "rms"},
                                      {"org_vocab_size", 256},
                                      {"pad_id", 7},
                                      {"pool_type", "last"},
                                      {"pretraining_tp", 1},
                                      {"sep_token_id", 4},
                                      {"text_end_id", 7},
                                      {"text_start_id", 6},
                                      {"use_cla", false},
                                      {"use_qk_norm", true},
                                      {"use_rotary_pos_emb", true}})},
      {"qwen3_moe", with(rms, {{"attention_bias", false},
                               {"decoder_sparse_step", 1},
                               {"head_dim", 16},
                               {"max_window_layers", 48},
                               {"mlp_only_layers", json::array()},
                               {"moe_intermediate_size", 32},
                               {"norm_topk_prob", true},
                               {"num_experts", 8},
                               {"num_experts_per_tok", 2},
                               {"output_router_logits", false},
                               {"router_aux_loss_coef", 0.001},
                               {"sliding_window", nullptr},
                               {"use_sliding_window", false}})},
      {"seed_oss", with(rms, {{"attention_bias", true},
                              {"attention_out_bias", false},
                              {"head_dim", 16},
                              {"mlp_bias", false},
                              {"pad_token_id", 1},
                              {"pretraining_tp", 1},
                              {"residual_dropout", 0.1}})},
      {"smollm3", with(rms, {{"attention_bias", false},
                             {"layer_types", {"full_attention", "full_attention"}},
                             {"max_window_layers", 28},
                             {"mlp_bias", false},
                             {"no_rope_layer_interval", 4},
                             {"no_rope_layers", {1, 0}},
                             {"pad_token_id", 4},
                             {"pretraining_tp", 2},
                             {"sliding_window", nullptr},
                             {"use_sliding_window", false}})},
      {"stablelm", with(rope, {{"hidden_dropout", 0.0},
                               {"layer_norm_eps", 1e-5},
                               {"partial_rotary_factor", 0.25},
                               {"qk_layernorm", false},
                               {"use_parallel_residual", false},
                               {"use_qkv_bias", true}})},
      {"starcoder2", with(rope, {{"activation_function", "gelu"},
                                 {"attention_softmax_in_fp32", true},
                                 {"embedding_dropout", 0.0},
                                 {"layer_norm_epsilon", 1e-5},
                                 {"mlp_type", "default"},
                                 {"norm_epsilon", 1e-5},
                                 {"norm_type", "layer_norm"},
                                 {"residual_dropout", 0.0},
                                 {"scale_attention_softmax_in_fp32", true},
                                 {"scale_attn_weights", true},
                                 {"sliding_window", 4096},
                                 {"use_bias", true}})},
  };
  return whole(model_type, configs.at(model_type));
}

class StrictFamily : public ::testing::TestWithParam<const char*> {};

TEST_P(StrictFamily, KnowsEveryPublishedKeyAndNoOther) { expect_knows_these_keys_only(published(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Families, StrictFamily,
                         ::testing::Values("ernie4_5", "exaone4", "glm4", "granite", "granitemoe", "hunyuan_v1_dense",
                                           "qwen3_moe", "seed_oss", "smollm3", "stablelm", "starcoder2"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(ParseDense, FillsInTheDefaults) {
  const auto expect = [](const std::string& model_type, auto change) {
    ModelSpec expected = smallest_spec(model_type);
    expected.rope.rotated = 16;
    change(expected);
    EXPECT_EQ(parse(small(model_type)).value(), expected) << model_type;
  };
  expect("ernie4_5", [](ModelSpec& spec) {
    spec.head_dim = spec.rope.rotated = 128;
    spec.attention_scale = 1.0 / std::sqrt(128.0);
    spec.max_positions = 131072;
    spec.norm_epsilon = 1e-5;
    spec.tied_embeddings = true;
    spec.rope.theta = 500000.0;
    spec.rope.pairs = RopeSpec::Pairs::kNeighbours;
  });
  expect("exaone4", [](ModelSpec& spec) {
    spec.max_positions = 2048;
    spec.norm_epsilon = 1e-5;
    spec.query_key_norm = true;
    spec.windows = {4096, 4096};  // two layers: every fourth has none
  });
  expect("glm4", [](ModelSpec& spec) {
    spec.head_dim = 128;
    spec.attention_scale = 1.0 / std::sqrt(128.0);
    spec.max_positions = 131072;
    spec.norm_epsilon = 1.5625e-7;
    spec.attention_bias = true;
    spec.rope.rotated = 64;
    spec.rope.pairs = RopeSpec::Pairs::kNeighbours;
  });
  expect("granite", [](ModelSpec& spec) {
    spec.max_positions = 2048;
    spec.attention_scale = 1.0;  // not 1 / √head_dim
  });
  expect("hunyuan_v1_dense", [](ModelSpec& spec) {
    spec.max_positions = 2048;
    spec.norm_epsilon = 1e-5;
    spec.query_key_norm = spec.norm_after_rope = true;
  });
  expect("seed_oss", [](ModelSpec& spec) {
    spec.head_dim = spec.rope.rotated = 128;
    spec.attention_scale = 1.0 / std::sqrt(128.0);
    spec.max_positions = 524288;
    spec.attention_bias = true;
  });
  expect("smollm3", [](ModelSpec& spec) {
    spec.max_positions = 32768;
    spec.tied_embeddings = true;
    spec.rope.theta = 2e6;
  });
  expect("stablelm", [](ModelSpec& spec) {
    spec.max_positions = 4096;
    spec.norm_epsilon = 1e-5;
    spec.rope.rotated = 4;
  });
  expect("starcoder2", [](ModelSpec& spec) {
    spec.max_positions = 4096;
    spec.norm_epsilon = 1e-5;
    spec.activation = "gelu_tanh";
    spec.mlp = Mlp::kPlain;
    spec.tied_embeddings = true;
    spec.attention_bias = spec.attention_output_bias = spec.mlp_bias = true;
  });
}

TEST(ParseDense, RefusesUnknownKeysOfRopes) {
  const json rope = {{"rope_type", "linear"}, {"factor", 2.0}};
  EXPECT_TRUE(parse(with(small("granite"), {{"rope_scaling", rope}})).has_value());
  expect_refusals(small("granite"), {{{{"rope_scaling", with(rope, {{"mystery", 2}})}},
                                      kUnsupported,
                                      "rope_scaling: mystery: found 2, expected only keys of ropes"}});
}

TEST(ParseQwen3Moe, GivesSomeLayersADenseMlp) {
  const json keys = {{"num_hidden_layers", 5}, {"intermediate_size", 100}};
  const json config = with(published("qwen3_moe"), keys);
  EXPECT_EQ(parse(config).value().dense_size, 0);
  const ModelSpec listed = parse(with(config, {{"mlp_only_layers", {0, 3}}})).value();
  EXPECT_THAT(listed.dense_layers, ElementsAre(0, 3));
  EXPECT_EQ(listed.dense_size, 100);
  EXPECT_EQ(listed.expert_layers(), 3);
  EXPECT_TRUE(listed.has_experts(1) && !listed.has_experts(3));
  const json sparse = {{"mlp_only_layers", {3}}, {"decoder_sparse_step", 2}};
  EXPECT_THAT(parse(with(config, sparse)).value().dense_layers, ElementsAre(0, 2, 3, 4));
  expect_refusals(config, {{{{"decoder_sparse_step", 6}}, kInvalid, "found no layer with experts among 5"},
                           {{{"mlp_only_layers", 1}}, kInvalid, "mlp_only_layers: found 1, expected an array"}});
}

TEST(ParseQwen3Moe, TakesSharesOfAllExpertsUnlessTheyAreNormed) {
  EXPECT_TRUE(parse(published("qwen3_moe")).value().router.sum_to_one);
  EXPECT_FALSE(parse(with(published("qwen3_moe"), {{"norm_topk_prob", false}})).value().router.sum_to_one);
  EXPECT_FALSE(parse(with(published("qwen3_moe"), {{"norm_topk_prob", nullptr}})).value().router.sum_to_one);
}

TEST(ParseQwen3Moe, GivesAllLayersTheWindow) {
  EXPECT_THAT(
      parse(with(published("qwen3_moe"), {{"sliding_window", 8}, {"use_sliding_window", true}})).value().windows,
      ElementsAre(8, 8));
  EXPECT_THAT(parse(with(published("qwen3_moe"), {{"sliding_window", 8}})).value().windows, ElementsAre());
}

TEST(ParseSmolLm3, RotatesThreeOfFourLayersOrThoseOfTheList) {
  const json eight = with(small("smollm3"), {{"num_hidden_layers", 8}});
  EXPECT_THAT(parse(eight).value().layers_without_rope, ElementsAre(3, 7));
  EXPECT_THAT(parse(with(eight, {{"no_rope_layer_interval", 3}})).value().layers_without_rope, ElementsAre(2, 5));
  EXPECT_THAT(parse(with(small("smollm3"), {{"no_rope_layers", {0, 1}}})).value().layers_without_rope, ElementsAre(0));
  expect_refusals(small("smollm3"), {{{{"no_rope_layers", {1}}}, kInvalid, "no_rope_layers: found an array of 1"},
                                     {{{"no_rope_layers", {1, 2}}}, kInvalid, "no_rope_layers"}});
}

TEST(ParseSmolLm3, LimitsTheLayersWithoutRotation) {
  const json config = with(small("smollm3"), {{"no_rope_layers", {0, 1}}, {"sliding_window", 8}});
  EXPECT_THAT(parse(with(config, {{"use_sliding_window", true}})).value().windows, ElementsAre(8, 0));
  EXPECT_THAT(parse(config).value().windows, ElementsAre());
}

TEST(ParseGranite, ReadsItsMultipliers) {
  const ModelSpec spec = parse(published("granite")).value();
  EXPECT_EQ(spec.embedding_scale, 12.0);
  EXPECT_EQ(spec.attention_scale, 0.015625);
  EXPECT_EQ(spec.residual_scale, 0.22);
  EXPECT_EQ(spec.logit_scale, 0.125);
}

TEST(ParseExaone4, RotatesOnlyLayersWithAWindowWhereThereIsOne) {
  const ModelSpec spec = parse(published("exaone4")).value();
  EXPECT_THAT(spec.windows, ElementsAre(32, 0));
  EXPECT_THAT(spec.layers_without_rope, ElementsAre(1));
  const json none = {{"sliding_window", nullptr}, {"layer_types", nullptr}, {"sliding_window_pattern", nullptr}};
  EXPECT_THAT(parse(with(published("exaone4"), none)).value().layers_without_rope, ElementsAre());
}

TEST(ParseStableLm, RefusesNormsOfHeads) {
  expect_refusals(published("stablelm"), {{{{"qk_layernorm", true}}, kUnsupported, "qk_layernorm: found true"}});
}

TEST(ParseHunyuan, StretchesThetaByAFixedAlpha) {
  const json rope = {{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}};
  const RopeSpec spec = parse(with(published("hunyuan_v1_dense"), {{"rope_scaling", rope}})).value().rope;
  EXPECT_EQ(spec.kind, RopeSpec::Kind::kDefault);
  EXPECT_DOUBLE_EQ(spec.theta, 10000.0 * std::pow(1000.0, 16.0 / 14.0));
  expect_refusals(published("hunyuan_v1_dense"),
                  {{{{"rope_scaling", {{"type", "dynamic"}}}}, kInvalid, "alpha: found nothing"}});
}

}  // namespace
}  // namespace lockstep::checkpoint
