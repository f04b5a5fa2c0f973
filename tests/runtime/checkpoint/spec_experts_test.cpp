// Mixtral and gpt-oss. Defaults are those of transformers' configuration classes.
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
  spec.eos_ids = {2};
  spec.bos_id = 1;
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
                   {{{"hidden_act", "relu"}}, kUnsupported, "hidden_act: found \"relu\""},
                   {{{"quantization_config", {{"quant_method", "mxfp4"}}}},
                    kUnsupported,
                    "quantised weights (\"mxfp4\"), expected float32, bfloat16 or float16"}});
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
  EXPECT_EQ(parse(with(small("gpt_oss"), {{"rope_parameters", json::object()}})).value().rope,
            (RopeSpec{.rotated = 64, .theta = 150000.0}));
}

TEST(ParseGptOss, AcceptsWeightsInMxfp4) {
  const json mxfp4 = {{"quantization_config", {{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"lm_head"}}}}};
  ModelSpec expected = gpt_oss_spec();
  expected.dtype = DType::kBFloat16;  // implicit in such files
  EXPECT_EQ(parse(with(small("gpt_oss"), mxfp4)).value(), expected);
}

TEST(ParseGptOss, RefusesWhatItCannotRun) {
  expect_refusals(small("gpt_oss"),
                  {{{{"quantization_config", {{"quant_method", "fp8"}}}},
                    kUnsupported,
                    "quantised weights (\"fp8\"), expected float32, bfloat16, float16 or mxfp4"},
                   {{{"sliding_window", nullptr}}, kInvalid, "sliding_window: found no window in use"},
                   {{{"swiglu_limit", 0}}, kInvalid, "swiglu_limit: found 0"},
                   {{{"num_experts_per_tok", 129}}, kInvalid, "num_experts_per_tok: found 129, expected 1 to 128"}});
}

}  // namespace
}  // namespace lockstep::checkpoint
