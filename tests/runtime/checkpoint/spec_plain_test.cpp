// GPT-2, OPT, GPT-J, GPT-NeoX and BLOOM. Defaults are those of transformers' configuration classes.
#include "tests/runtime/checkpoint/spec_testing.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

/// The keys of GPT-2 and GPT-J that have no default.
json smallest_gpt(const std::string& model_type) {
  return {{"model_type", model_type}, {"n_embd", 64}, {"n_layer", 2}, {"n_head", 4}, {"vocab_size", 256}};
}

json smallest_opt() {
  json config = smallest("opt");
  config.erase("intermediate_size");
  return with(config, {{"ffn_dim", 96}});
}

json smallest_bloom() {
  return {{"model_type", "bloom"}, {"hidden_size", 64}, {"n_layer", 2}, {"n_head", 4}, {"vocab_size", 256}};
}

/// The common part of the families in this file.
ModelSpec plain_spec(const std::string& model_type) {
  ModelSpec spec = smallest_spec(model_type);
  spec.norm_epsilon = 1e-5;
  spec.mlp = Mlp::kPlain;
  spec.activation = "gelu_tanh";
  spec.attention_bias = spec.attention_output_bias = spec.mlp_bias = true;
  return spec;
}

// ---- GPT-2 ----

ModelSpec gpt2_spec() {
  ModelSpec spec = plain_spec("gpt2");
  spec.intermediate_size = 256;
  spec.max_positions = 1024;
  spec.positions = Positions::kLearned;
  spec.tied_embeddings = true;
  return spec;
}

TEST(ParseGpt2, FillsInTheDefaults) { EXPECT_EQ(parse(smallest_gpt("gpt2")).value(), gpt2_spec()); }

TEST(ParseGpt2, ReadsTheCommonNamesToo) {
  json common = smallest("gpt2");
  common.erase("intermediate_size");
  EXPECT_EQ(parse(common).value(), gpt2_spec());
  EXPECT_EQ(parse(with(smallest_gpt("gpt2"), {{"hidden_size", 32}})).value().hidden_size, 32);  // they win
}

TEST(ParseGpt2, ReadsItsOwnKeys) {
  ModelSpec expected = gpt2_spec();
  expected.intermediate_size = 100;
  expected.max_positions = 128;
  expected.activation = "relu";
  expected.norm_epsilon = 1e-3;
  expected.tied_embeddings = false;
  const json keys = {{"n_inner", 100},
                     {"n_positions", 128},
                     {"activation_function", "relu"},
                     {"layer_norm_epsilon", 1e-3},
                     {"tie_word_embeddings", false}};
  EXPECT_EQ(parse(with(smallest_gpt("gpt2"), keys)).value(), expected);
  EXPECT_EQ(parse(with(smallest_gpt("gpt2"), {{"n_inner", nullptr}})).value(), gpt2_spec());
}

TEST(ParseGpt2, ScalesScoresAsItsSwitchesSay) {
  const ModelSpec unscaled = parse(with(smallest_gpt("gpt2"), {{"scale_attn_weights", false}})).value();
  EXPECT_EQ(unscaled.attention_scale, 1.0);
  EXPECT_TRUE(parse(with(smallest_gpt("gpt2"), {{"scale_attn_by_inverse_layer_idx", true}})).value().scale_by_layer);
}

TEST(ParseGpt2, RefusesWhatItCannotRun) {
  expect_refusals(smallest_gpt("gpt2"),
                  {{{{"add_cross_attention", true}}, kUnsupported, "add_cross_attention: found true, expected false"},
                   {{{"activation_function", "mish"}}, kUnsupported, "activation_function: found \"mish\""},
                   {{{"n_head", 5}}, kInvalid, "n_head: found 5, expected a divisor"},
                   {{{"n_embd", nullptr}}, kInvalid, "n_embd: found null"},
                   {{{"n_inner", 0}}, kInvalid, "n_inner: found 0"}});
}

// ---- OPT ----

ModelSpec opt_spec() {
  ModelSpec spec = plain_spec("opt");
  spec.max_positions = 2048;
  spec.activation = "relu";
  spec.positions = Positions::kLearned;
  spec.position_offset = 2;
  spec.tied_embeddings = true;
  return spec;
}

TEST(ParseOpt, FillsInTheDefaults) {
  EXPECT_EQ(parse(smallest_opt()).value(), opt_spec());
  EXPECT_EQ(parse(with(smallest_opt(), {{"word_embed_proj_dim", nullptr}})).value(), opt_spec());
}

TEST(ParseOpt, ReadsItsOwnKeys) {
  ModelSpec expected = opt_spec();
  expected.embedding_size = 32;
  expected.norm_before = false;
  expected.attention_bias = expected.attention_output_bias = expected.mlp_bias = false;
  expected.activation = "gelu";
  const json keys = {{"word_embed_proj_dim", 32},
                     {"do_layer_norm_before", false},
                     {"enable_bias", false},
                     {"activation_function", "gelu"},
                     {"_remove_final_layer_norm", true}};  // it has none to remove
  EXPECT_EQ(parse(with(smallest_opt(), keys)).value(), expected);
}

TEST(ParseOpt, RefusesWhatItCannotRun) {
  expect_refusals(
      smallest_opt(),
      {{{{"_remove_final_layer_norm", true}}, kUnsupported, "_remove_final_layer_norm: found true, expected false"},
       {{{"layer_norm_elementwise_affine", false}}, kUnsupported, "layer_norm_elementwise_affine: found false"},
       {{{"word_embed_proj_dim", 0}}, kInvalid, "word_embed_proj_dim: found 0"},
       {{{"ffn_dim", nullptr}}, kInvalid, "ffn_dim: found null"},
       {{{"num_attention_heads", 5}}, kInvalid, "num_attention_heads: found 5, expected a divisor"}});
}

// ---- GPT-J ----

json small_gptj() { return with(smallest_gpt("gptj"), {{"rotary_dim", 8}}); }

ModelSpec gptj_spec() {
  ModelSpec spec = plain_spec("gptj");
  spec.intermediate_size = 256;
  spec.max_positions = 2048;
  spec.attention_bias = spec.attention_output_bias = false;
  spec.parallel_residual = true;
  spec.head_bias = true;
  spec.rope = {.pairs = RopeSpec::Pairs::kNeighbours, .rotated = 8};
  return spec;
}

TEST(ParseGptj, FillsInTheDefaults) { EXPECT_EQ(parse(small_gptj()).value(), gptj_spec()); }

TEST(ParseGptj, Turns64ElementsByDefault) {
  const ModelSpec spec = parse(with(smallest_gpt("gptj"), {{"n_embd", 512}, {"vocab_size", 50400}})).value();
  EXPECT_EQ(spec.rope.rotated, 64);
}

TEST(ParseGptj, RefusesARotationThatDoesNotFitTheHead) {
  expect_refusals(small_gptj(),
                  {{{{"rotary_dim", 18}}, kInvalid, "rotary_dim: found 18, expected an even number up to 16"},
                   {{{"rotary_dim", 7}}, kInvalid, "rotary_dim: found 7"},
                   {{{"rotary_dim", nullptr}}, kUnsupported, "rotary_dim: found null"}});
  expect_refusals(smallest_gpt("gptj"), {{json::object(), kInvalid, "rotary_dim: found 64"}});
}

// ---- GPT-NeoX ----

ModelSpec gpt_neox_spec() {
  ModelSpec spec = plain_spec("gpt_neox");
  spec.max_positions = 2048;
  spec.activation = "gelu";
  spec.parallel_residual = true;
  spec.rope = {.rotated = 4};
  return spec;
}

TEST(ParseGptNeox, FillsInTheDefaults) { EXPECT_EQ(parse(smallest("gpt_neox")).value(), gpt_neox_spec()); }

TEST(ParseGptNeox, ReadsItsOwnKeys) {
  ModelSpec expected = gpt_neox_spec();
  expected.parallel_residual = false;
  expected.attention_bias = expected.attention_output_bias = false;
  expected.norm_epsilon = 1e-3;
  expected.activation = "gelu_tanh";
  const json keys = {{"use_parallel_residual", false},
                     {"attention_bias", false},
                     {"layer_norm_eps", 1e-3},
                     {"hidden_act", "gelu_fast"}};
  EXPECT_EQ(parse(with(smallest("gpt_neox"), keys)).value(), expected);
}

TEST(ParseGptNeox, ReadsBothSpellingsAlike) {
  const json older = {
      {"rotary_pct", 0.5}, {"rotary_emb_base", 25000}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}};
  const json newer = {
      {"rope_parameters",
       {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 25000.0}, {"partial_rotary_factor", 0.5}}}};
  const ModelSpec spec = parse(with(smallest("gpt_neox"), older)).value();
  EXPECT_EQ(spec, parse(with(smallest("gpt_neox"), newer)).value());
  EXPECT_EQ(spec.rope, (RopeSpec{.kind = RopeSpec::Kind::kLinear, .rotated = 8, .theta = 25000.0, .factor = 2.0}));
}

TEST(ParseGptNeox, RefusesWhatItCannotRun) {
  expect_refusals(
      smallest("gpt_neox"),
      {{{{"rotary_pct", 0.2}}, kInvalid, "rotary_pct: found 0.2 (3 elements of 16), expected an even number"},
       {{{"rotary_pct", 0.0}}, kInvalid, "rotary_pct: found 0 (0 elements of 16)"},
       {{{"rotary_pct", 1.5}}, kInvalid, "rotary_pct: found 1.5"},
       {{{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}, kUnsupported, "found \"dynamic\""},
       {{{"hidden_act", "mish"}}, kUnsupported, "hidden_act: found \"mish\""}});
}

// ---- BLOOM ----

ModelSpec bloom_spec() {
  ModelSpec spec = plain_spec("bloom");
  spec.intermediate_size = 256;
  spec.max_positions = 2048;
  spec.positions = Positions::kAlibi;
  spec.tied_embeddings = true;
  return spec;
}

TEST(ParseBloom, FillsInTheDefaults) { EXPECT_EQ(parse(smallest_bloom()).value(), bloom_spec()); }

TEST(ParseBloom, ReadsTheOtherNames) {
  const json older = {{"model_type", "bloom"},    {"n_embed", 64},     {"num_hidden_layers", 2},
                      {"num_attention_heads", 4}, {"vocab_size", 256}, {"seq_length", 2048}};
  EXPECT_EQ(parse(older).value(), bloom_spec());
  EXPECT_EQ(parse(with(older, {{"hidden_size", 32}})).value(), bloom_spec());  // n_embed wins
}

TEST(ParseBloom, ReadsItsOwnKeys) {
  ModelSpec expected = bloom_spec();
  expected.residual_after_norm = true;
  expected.norm_epsilon = 1e-3;
  expected.max_positions = 512;
  const json keys = {
      {"apply_residual_connection_post_layernorm", true}, {"layer_norm_epsilon", 1e-3}, {"seq_length", 512}};
  EXPECT_EQ(parse(with(smallest_bloom(), keys)).value(), expected);
}

TEST(ParseBloom, RefusesTheSlowPathThatDropsBiases) {
  const json slow = with(smallest_bloom(), {{"slow_but_exact", true}});
  EXPECT_EQ(parse(slow).value(), bloom_spec());  // one slice takes the common path
  expect_refusals(slow, {{{{"pretraining_tp", 2}}, kUnsupported, "slow_but_exact: found true, expected false"}});
}

TEST(ParsePhi, KnowsEveryPublishedKeyAndNoOther) {
  const json phi = whole("phi", {{"embd_pdrop", 0.0},
                                 {"layer_norm_eps", 1e-5},
                                 {"partial_rotary_factor", 0.5},
                                 {"qk_layernorm", false},
                                 {"resid_pdrop", 0.1},
                                 {"rope_scaling", nullptr},
                                 {"rope_theta", 10000.0}});
  expect_knows_these_keys_only(phi);
  expect_refusals(phi, {{{{"qk_layernorm", true}}, kUnsupported, "qk_layernorm: found true, expected false"}});
}

TEST(ParsePhi, FillsInTheDefaults) {
  ModelSpec expected = smallest_spec("phi");
  expected.mlp = Mlp::kPlain;
  expected.activation = "gelu_tanh";
  expected.max_positions = 2048;
  expected.norm_epsilon = 1e-5;
  expected.parallel_residual = expected.head_bias = true;
  expected.attention_bias = expected.attention_output_bias = expected.mlp_bias = true;
  expected.rope.rotated = 8;
  EXPECT_EQ(parse(smallest("phi")).value(), expected);
}

/// Published configs of the first layout; hidden_act belongs to other families.
json falcon(const json& own) {
  json config = smallest("falcon");
  config.erase("intermediate_size");
  return with(with(config, {{"alibi", false},
                            {"apply_residual_connection_post_layernorm", false},
                            {"bias", false},
                            {"hidden_dropout", 0.0},
                            {"layer_norm_epsilon", 1e-5},
                            {"multi_query", true},
                            {"new_decoder_architecture", false},
                            {"num_kv_heads", 4},
                            {"parallel_attn", true}}),
              own);
}

TEST(ParseFalcon, KnowsEveryPublishedKeyAndNoOther) {
  expect_knows_these_keys_only(falcon(json::object()));
  expect_knows_these_keys_only(falcon({{"activation", "gelu"},
                                       {"ff_factor", 4},
                                       {"ffn_hidden_size", 256},
                                       {"new_decoder_architecture", true},
                                       {"num_ln_in_parallel_attn", 1},
                                       {"rope_scaling", nullptr},
                                       {"rope_theta", 500042.0}}));
}

TEST(ParseFalcon, HasOneKeyValueHeadOrAsManyAsTheLayoutSays) {
  const ModelSpec first = parse(falcon(json::object())).value();
  EXPECT_EQ(first.key_value_heads, 1);
  EXPECT_EQ(first.intermediate_size, 256);
  EXPECT_TRUE(first.parallel_residual && first.shared_norm);
  const ModelSpec grouped = parse(falcon({{"new_decoder_architecture", true}, {"num_kv_heads", 2}})).value();
  EXPECT_EQ(grouped.key_value_heads, 2);
  EXPECT_TRUE(grouped.parallel_residual && !grouped.shared_norm);
  const ModelSpec one_norm =
      parse(falcon({{"new_decoder_architecture", true}, {"num_ln_in_parallel_attn", 1}})).value();
  EXPECT_TRUE(one_norm.shared_norm);
  const ModelSpec sequential = parse(falcon({{"multi_query", false}, {"parallel_attn", false}})).value();
  EXPECT_EQ(sequential.key_value_heads, 4);
  EXPECT_FALSE(sequential.parallel_residual || sequential.shared_norm);
}

TEST(ParseFalcon, RefusesWhatItCannotRun) {
  expect_refusals(falcon(json::object()),
                  {{{{"alibi", true}}, kUnsupported, "alibi: found true, expected false"},
                   {{{"num_ln_in_parallel_attn", 2}}, kUnsupported, "num_ln_in_parallel_attn: found 2, expected 1"},
                   {{{"new_decoder_architecture", true}, {"parallel_attn", false}}, kUnsupported, "parallel_attn"}});
}

TEST(ParseNemotron, KnowsEveryPublishedKeyAndNoOther) {
  expect_knows_these_keys_only(whole("nemotron", {{"attention_bias", false},
                                                  {"head_dim", 16},
                                                  {"hidden_act", "relu2"},
                                                  {"mlp_bias", false},
                                                  {"norm_eps", 1e-5},
                                                  {"partial_rotary_factor", 0.5},
                                                  {"rope_theta", 10000.0}}));
}

TEST(ParseNemotron, FillsInTheDefaults) {
  ModelSpec expected = smallest_spec("nemotron");
  expected.mlp = Mlp::kPlain;
  expected.activation = "squared_relu";
  expected.max_positions = 4096;
  expected.norm_epsilon = 1e-5;
  expected.rope.rotated = 8;
  EXPECT_EQ(parse(smallest("nemotron")).value(), expected);
}

}  // namespace
}  // namespace lockstep::checkpoint
