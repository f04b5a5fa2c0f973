// Gemma 2 and Gemma 3. Defaults are those of transformers' configuration classes.
#include "tests/runtime/checkpoint/spec_testing.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

ModelSpec gemma_spec(const std::string& model_type) {
  ModelSpec spec = smallest_spec(model_type);
  spec.head_dim = 256;
  spec.attention_scale = 0.0625;  // 256^-0.5
  spec.embedding_scale = 8.0;     // 64^0.5
  spec.activation = "gelu_tanh";
  spec.tied_embeddings = true;
  spec.rope.rotated = 256;
  return spec;
}

ModelSpec gemma2_spec() {
  ModelSpec spec = gemma_spec("gemma2");
  spec.max_positions = 8192;
  spec.attention_soft_cap = 50.0;
  spec.logit_soft_cap = 30.0;
  spec.windows = {4096, 0};
  return spec;
}

ModelSpec gemma3_spec() {
  ModelSpec spec = gemma_spec("gemma3_text");
  spec.max_positions = 131072;
  spec.query_key_norm = true;
  spec.windows = {4096, 4096};
  spec.rope.theta = 1e6;
  spec.local_rope = RopeSpec{.rotated = 256, .theta = 10000.0};
  return spec;
}

TEST(ParseGemma2, FillsInTheDefaults) { EXPECT_EQ(parse(smallest("gemma2")).value(), gemma2_spec()); }

TEST(ParseGemma2, ReadsItsOwnKeys) {
  ModelSpec expected = gemma2_spec();
  expected.head_dim = expected.rope.rotated = 32;
  expected.attention_scale = 0.125;
  expected.attention_soft_cap = expected.logit_soft_cap = 0.0;
  expected.attention_bias = expected.attention_output_bias = true;
  expected.windows = {0, 16};
  expected.activation = "gelu";
  const json keys = {{"head_dim", 32},
                     {"query_pre_attn_scalar", 64},
                     {"attn_logit_softcapping", nullptr},
                     {"final_logit_softcapping", nullptr},
                     {"attention_bias", true},
                     {"sliding_window", 16},
                     {"layer_types", {"full_attention", "sliding_attention"}},
                     {"hidden_activation", "gelu"}};
  EXPECT_EQ(parse(with(smallest("gemma2"), keys)).value(), expected);
}

TEST(ParseGemma2, LooksAtHiddenActivationOnly) {
  EXPECT_EQ(parse(with(smallest("gemma2"), {{"hidden_act", "gelu"}})).value(), gemma2_spec());
}

TEST(ParseGemma2, RefusesWhatItCannotRun) {
  expect_refusals(smallest("gemma2"),
                  {{{{"use_bidirectional_attention", true}}, kUnsupported, "use_bidirectional_attention: found true"},
                   {{{"sliding_window", nullptr}}, kInvalid, "sliding_window: found no window in use"},
                   {{{"attn_logit_softcapping", 0.0}}, kInvalid, "attn_logit_softcapping: found 0"},
                   {{{"query_pre_attn_scalar", 0}}, kInvalid, "query_pre_attn_scalar: found 0"},
                   {{{"hidden_activation", "mish"}}, kUnsupported, "hidden_activation: found \"mish\""}});
}

TEST(ParseGemma3, FillsInTheDefaults) { EXPECT_EQ(parse(smallest("gemma3_text")).value(), gemma3_spec()); }

TEST(ParseGemma3, SeesEverythingInEverySixthLayer) {
  const json keys = {{"num_hidden_layers", 7}, {"sliding_window", 9}};
  EXPECT_THAT(parse(with(smallest("gemma3_text"), keys)).value().windows, ElementsAre(9, 9, 9, 9, 9, 0, 9));
  EXPECT_THAT(parse(with(with(smallest("gemma3_text"), keys), {{"sliding_window_pattern", 2}})).value().windows,
              ElementsAre(9, 0, 9, 0, 9, 0, 9));
}

TEST(ParseGemma3, ReadsBothSpellingsAlike) {
  const json older = {{"rope_theta", 500000.0},
                      {"rope_local_base_freq", 5000.0},
                      {"sliding_window_pattern", 2},
                      {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
                      {"torch_dtype", "bfloat16"}};
  const json newer = {{"rope_parameters",
                       {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 500000.0}}},
                        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 5000.0}}}}},
                      {"layer_types", {"sliding_attention", "full_attention"}},
                      {"_sliding_window_pattern", 2},
                      {"dtype", "bfloat16"}};
  const ModelSpec spec = parse(with(smallest("gemma3_text"), older)).value();
  EXPECT_EQ(spec, parse(with(smallest("gemma3_text"), newer)).value());
  EXPECT_EQ(spec.rope_of(1),
            (RopeSpec{.kind = RopeSpec::Kind::kLinear, .rotated = 256, .theta = 500000.0, .factor = 8.0}));
  EXPECT_EQ(spec.rope_of(0), (RopeSpec{.rotated = 256, .theta = 5000.0}));
}

TEST(ParseGemma3, NeedsNoLocalRotationThatIsTheSame) {
  EXPECT_EQ(parse(with(smallest("gemma3_text"), {{"rope_theta", 10000.0}})).value().local_rope, std::nullopt);
}

TEST(ParseGemma3, CapsLogitsButNoScores) {
  const json keys = {{"attn_logit_softcapping", 20.0}, {"final_logit_softcapping", 10.0}};
  const ModelSpec spec = parse(with(smallest("gemma3_text"), keys)).value();
  EXPECT_EQ(spec.attention_soft_cap, 0.0);  // the key is Gemma 2's
  EXPECT_EQ(spec.logit_soft_cap, 10.0);
}

TEST(ParseGemma3, NamesTheLayersWhoseRotationIsWrong) {
  const json nested = {{"full_attention", {{"rope_type", "linear"}}}};
  expect_refusals(smallest("gemma3_text"),
                  {{{{"rope_parameters", nested}}, kInvalid, "full_attention: rope_parameters: factor: found nothing"},
                   {{{"rope_local_base_freq", 1.0}}, kInvalid, "sliding_attention: rope_local_base_freq: found 1"},
                   {{{"rope_scaling", "linear"}}, kInvalid, "rope_scaling: found \"linear\""},
                   {{{"rope_scaling", {{"type", "linear"}, {"factor", 8.0}}}},
                    kUnsupported,
                    "rope_scaling: found type, expected rope_type"},
                   {{{"use_bidirectional_attention", true}}, kUnsupported, "use_bidirectional_attention: found true"}});
}

// ---- with a vision part ----

json multimodal(const json& text) { return {{"model_type", "gemma3"}, {"text_config", text}}; }

TEST(ParseGemma3, TakesTheTextPartOfAMultimodalModel) {
  json text = smallest("gemma3_text");
  EXPECT_EQ(parse(multimodal(text)).value(), gemma3_spec());
}

TEST(ParseGemma3, FillsInTheSizesThatATextPartLeavesOut) {
  const ModelSpec spec = parse(multimodal({{"sliding_window", 1024}})).value();
  EXPECT_EQ(spec.hidden_size, 2304);
  EXPECT_EQ(spec.layers, 26);
  EXPECT_EQ(spec.query_heads, 8);
  EXPECT_EQ(spec.key_value_heads, 4);
  EXPECT_EQ(spec.head_dim, 256);
  EXPECT_EQ(spec.intermediate_size, 9216);
  EXPECT_EQ(spec.vocabulary, 262208);
  EXPECT_EQ(spec.window(24), 1024);
  EXPECT_EQ(spec.window(5), 0);
}

TEST(ParseGemma3, LetsTheTopLevelNameTypeAndTie) {
  json config = multimodal(with(smallest("gemma3_text"), {{"tie_word_embeddings", false}}));
  config["dtype"] = "bfloat16";
  const ModelSpec spec = parse(config).value();
  EXPECT_EQ(spec.dtype, DType::kBFloat16);
  EXPECT_TRUE(spec.tied_embeddings);
}

TEST(ParseGemma3, RefusesAMultimodalModelWithoutAText) {
  expect_refusals({{"model_type", "gemma3"}}, {{json::object(), kInvalid, "text_config: found nothing"}});
  const json quantised = with(smallest("gemma3_text"), {{"quantization_config", {{"quant_method", "hqq"}}}});
  expect_refusals(multimodal(quantised), {{json::object(), kUnsupported, "quantised weights (\"hqq\")"}});
}

// ---- Gemma 3n ----

ModelSpec gemma3n_spec() {
  ModelSpec spec = gemma_spec("gemma3n_text");
  spec.key_value_heads = 2;
  spec.attention_scale = 1.0;
  spec.max_positions = 32768;
  spec.logit_soft_cap = 30.0;
  spec.query_key_norm = spec.value_norm = spec.layer_input_of_others = spec.scale_active_stream = true;
  spec.windows = {512, 512};
  spec.rope.theta = 1e6;
  spec.local_rope = RopeSpec{.rotated = 256, .theta = 10000.0};
  spec.layer_input_size = 256;
  spec.layer_input_vocabulary = 262144;
  spec.streams = 4;
  spec.laurel_rank = 64;
  return spec;
}

json small_gemma3n() { return with(smallest("gemma3n_text"), {{"num_kv_shared_layers", 0}}); }

TEST(ParseGemma3n, FillsInTheDefaults) { EXPECT_EQ(parse(small_gemma3n()).value(), gemma3n_spec()); }

TEST(ParseGemma3n, RefusesFewLayersThatDoNotSayHowManyShareCaches) {
  expect_refusals(smallest("gemma3n_text"),
                  {{{{"num_hidden_layers", 15}}, kInvalid, "num_kv_shared_layers: found nothing, expected 0 to 14"}});
  EXPECT_EQ(parse(with(smallest("gemma3n_text"), {{"num_hidden_layers", 20}})).value().layers_sharing_cache, 15);
}

TEST(ParseGemma3n, DropsGatesInItsFirstTenLayersUnlessItSaysOtherwise) {
  const json keys = {{"num_hidden_layers", 11}, {"num_kv_shared_layers", 0}};
  const ModelSpec spec = parse(with(smallest("gemma3n_text"), keys)).value();
  EXPECT_EQ(spec.gate_sparsity.front(), 0.95);
  EXPECT_EQ(spec.gate_sparsity.back(), 0.0);
  const json given = {{"activation_sparsity_pattern", {0.0, 0.5}}};
  EXPECT_THAT(parse(with(small_gemma3n(), given)).value().gate_sparsity, ElementsAre(0.0, 0.5));
}

TEST(ParseGemma3n, ReadsItsOwnKeys) {
  const json keys = {{"intermediate_size", {80, 80}},
                     {"altup_num_inputs", 3},
                     {"altup_active_idx", 2},
                     {"altup_correct_scale", false},
                     {"laurel_rank", 8},
                     {"altup_coef_clip", 9.0},
                     {"layer_types", {"full_attention", "sliding_attention"}}};
  ModelSpec expected = gemma3n_spec();
  expected.intermediate_size = 80;
  expected.streams = 3;
  expected.active_stream = 2;
  expected.scale_active_stream = false;
  expected.laurel_rank = 8;
  expected.windows = {0, 512};
  EXPECT_EQ(parse(with(small_gemma3n(), keys)).value(), expected);
}

TEST(ParseGemma3n, RefusesWhatItCannotRun) {
  expect_refusals(small_gemma3n(), {{{{"intermediate_size", {96, 80}}}, kUnsupported, "intermediate_size: found"},
                                    {{{"altup_num_inputs", 9}}, kInvalid, "altup_num_inputs: found 9"},
                                    {{{"altup_active_idx", 4}}, kInvalid, "altup_active_idx: found 4"},
                                    {{{"intermediate_size", {96}}}, kUnsupported, "intermediate_size: found"},
                                    {{{"intermediate_size", {0, 0}}}, kInvalid, "intermediate_size: found 0"},
                                    {{{"hidden_size_per_layer_input", 0}}, kInvalid, "hidden_size_per_layer_input"},
                                    {{{"activation_sparsity_pattern", {0.5}}}, kInvalid, "activation_sparsity_pattern"},
                                    {{{"activation_sparsity_pattern", 0.5}}, kInvalid, "activation_sparsity_pattern"},
                                    {{{"activation_sparsity_pattern", {0.5, 1.0}}}, kInvalid, "numbers from 0"}});
}

TEST(ParseGemma3n, KnowsEveryPublishedKeyAndNoOther) {
  expect_knows_these_keys_only(with(small_gemma3n(), {{"activation_sparsity_pattern", {0.95, 0.0}},
                                                      {"altup_active_idx", 0},
                                                      {"altup_coef_clip", 120.0},
                                                      {"altup_correct_scale", true},
                                                      {"altup_lr_multiplier", 1.0},
                                                      {"altup_num_inputs", 4},
                                                      {"attention_bias", false},
                                                      {"attention_dropout", 0.0},
                                                      {"final_logit_softcapping", 30.0},
                                                      {"head_dim", 256},
                                                      {"hidden_activation", "gelu_pytorch_tanh"},
                                                      {"hidden_size_per_layer_input", 256},
                                                      {"initializer_range", 0.02},
                                                      {"intermediate_size", {64, 64}},
                                                      {"laurel_rank", 64},
                                                      {"layer_types", {"sliding_attention", "full_attention"}},
                                                      {"max_position_embeddings", 32768},
                                                      {"query_pre_attn_scalar", 256},
                                                      {"rms_norm_eps", 1e-6},
                                                      {"rope_local_base_freq", 10000.0},
                                                      {"rope_scaling", nullptr},
                                                      {"rope_theta", 1000000.0},
                                                      {"sliding_window", 512},
                                                      {"use_cache", true},
                                                      {"vocab_size_per_layer_input", 262144}}));
}

TEST(ParseGemma3n, TakesTheTextPartOfAMultimodalModel) {
  const json towers = {{"model_type", "gemma3n"}, {"text_config", small_gemma3n()}, {"vision_config", {{"a", 1}}}};
  EXPECT_EQ(parse(towers).value(), gemma3n_spec());
}

// ---- Gemma 4 ----

ModelSpec gemma4_spec() {
  ModelSpec spec = gemma_spec("gemma4_text");
  spec.attention_scale = 1.0;
  spec.max_positions = 131072;
  spec.query_key_norm = spec.value_norm = spec.layer_scalar = true;
  spec.windows = {512, 0};
  spec.global_heads = HeadShape{.head_dim = 512, .key_value_heads = 4};
  spec.rope = {.kind = RopeSpec::Kind::kProportional, .rotated = 512, .turning = 128, .theta = 1e6};
  spec.local_rope = RopeSpec{.rotated = 256, .theta = 10000.0};
  spec.layer_input_size = 256;
  spec.layer_input_vocabulary = 262144;
  return spec;
}

TEST(ParseGemma4, FillsInTheDefaults) { EXPECT_EQ(parse(smallest("gemma4_text")).value(), gemma4_spec()); }

TEST(ParseGemma4, SeesEverythingInItsLastLayer) {
  const json types = {"full_attention", "sliding_attention", "sliding_attention"};
  const json keys = {{"num_hidden_layers", 3}, {"sliding_window", 9}, {"layer_types", types}};
  EXPECT_THAT(parse(with(smallest("gemma4_text"), keys)).value().windows, ElementsAre(0, 9, 0));
}

TEST(ParseGemma4, ReadsTheHeadsOfItsGlobalLayersInEitherForm) {
  const json keys = {{"attention_k_eq_v", true}, {"global_head_dim", 32}, {"num_global_key_value_heads", 2}};
  const json saved = {{"attention_k_eq_v", true},
                      {"per_layer_config", {{"1", {{"head_dim", 32}, {"num_key_value_heads", 2}}}}}};
  const ModelSpec spec = parse(with(smallest("gemma4_text"), keys)).value();
  EXPECT_EQ(spec.global_heads, (HeadShape{.head_dim = 32, .key_value_heads = 2, .keys_are_values = true}));
  EXPECT_EQ(spec.heads_of(0), (HeadShape{.head_dim = 256, .key_value_heads = 4}));
  EXPECT_EQ(parse(with(smallest("gemma4_text"), saved)).value(), spec);
}

TEST(ParseGemma4, HasOneKindOfHeadsWhereTheObjectOfLayersIsNull) {
  const json keys = {{"per_layer_config", nullptr}, {"global_head_dim", 32}};
  const ModelSpec spec = parse(with(smallest("gemma4_text"), keys)).value();
  EXPECT_EQ(spec.heads_of(1), spec.heads_of(0));
}

// Transformers writes the numbers of more than ten layers with two digits.
TEST(ParseGemma4, FindsTheHeadsOfALayerWhoseNumberIsPadded) {
  const json heads = {{"head_dim", 32}};
  const json twelve = with(smallest("gemma4_text"), {{"num_hidden_layers", 12}});
  const auto spec = parse(with(twelve, {{"per_layer_config", {{"05", heads}, {"11", heads}}}}));
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_EQ(spec.value(), parse(with(twelve, {{"per_layer_config", {{"5", heads}, {"11", heads}}}})).value());
  EXPECT_EQ(spec.value().global_heads->head_dim, 32);
}

TEST(ParseGemma4, UsesGlobalKeyValueHeadsOnlyWhereKeysAreValues) {
  const json keys = {{"num_global_key_value_heads", 2}};
  EXPECT_EQ(parse(with(smallest("gemma4_text"), keys)).value().global_heads->key_value_heads, 4);
}

TEST(ParseGemma4, LetsItsLastLayersShareTheCacheOfTheLastLayerOfTheirKind) {
  const json types = {"full_attention", "sliding_attention", "sliding_attention", "sliding_attention",
                      "full_attention"};
  const json keys = {
      {"num_hidden_layers", 5}, {"layer_types", types}, {"num_kv_shared_layers", 2}, {"use_double_wide_mlp", true}};
  const ModelSpec spec = parse(with(smallest("gemma4_text"), keys)).value();
  std::vector<int64_t> sources, sizes;
  for (int64_t layer = 0; layer < 5; ++layer) {
    sources.push_back(spec.cache_layer(layer));
    sizes.push_back(spec.mlp_size(layer));
  }
  EXPECT_THAT(sources, ElementsAre(0, 1, 2, 2, 0));
  EXPECT_THAT(sizes, ElementsAre(96, 96, 96, 192, 192));
}

TEST(ParseGemma4, HasExpertsBesideTheMlpOfEveryLayer) {
  const json keys = {
      {"enable_moe_block", true}, {"num_experts", 4}, {"top_k_experts", 2}, {"moe_intermediate_size", 24}};
  const ModelSpec spec = parse(with(smallest("gemma4_text"), keys)).value();
  EXPECT_TRUE(spec.experts_beside_mlp);
  EXPECT_EQ(spec.shared_expert_size, 96);
  EXPECT_EQ(spec.intermediate_size, 24);
  EXPECT_EQ(spec.experts, 4);
  EXPECT_EQ(spec.experts_per_token, 2);
  EXPECT_EQ(spec.expert_layers(), spec.layers);
  EXPECT_EQ(spec.router, RouterSpec{});
}

TEST(ParseGemma4, RefusesWhatItCannotRun) {
  const json types = {"sliding_attention", "full_attention"};
  const json uneven = {{"0", {{"head_dim", 8}}}};
  const json unknown = {{"1", {{"intermediate_size", 8}}}};
  expect_refusals(
      smallest("gemma4_text"),
      {{{{"use_bidirectional_attention", "all"}}, kUnsupported, "use_bidirectional_attention: found \"all\""},
       {{{"enable_moe_block", true}}, kInvalid, "moe_intermediate_size"},
       {{{"enable_moe_block", true}, {"num_experts", 4}, {"top_k_experts", 5}, {"moe_intermediate_size", 24}},
        kInvalid,
        "top_k_experts: found 5, expected 1 to 4"},
       {{{"enable_moe_block", true},
         {"num_hidden_layers", 2},
         {"layer_types", {"full_attention", "full_attention"}},
         {"num_kv_shared_layers", 1},
         {"use_double_wide_mlp", true}},
        kUnsupported,
        "use_double_wide_mlp: found true, expected false beside experts"},
       {{{"layer_types", types}, {"num_kv_shared_layers", 1}},
        kInvalid,
        "num_kv_shared_layers: found 1, expected a layer"},
       {{{"num_kv_shared_layers", 2}}, kInvalid, "num_kv_shared_layers: found 2"},
       {{{"attention_k_eq_v", true}, {"num_global_key_value_heads", 3}},
        kInvalid,
        "num_global_key_value_heads: found 3"},
       {{{"per_layer_config", uneven}}, kUnsupported, "per_layer_config: found {\"head_dim\":8} of layer 0"},
       {{{"per_layer_config", unknown}}, kUnsupported, "intermediate_size: found 8"},
       {{{"query_pre_attn_scalar", 8}}, kUnsupported, "query_pre_attn_scalar: found 8"}});
}

TEST(ParseGemma4, TakesTheTextPartOfAMultimodalModel) {
  json text = smallest("gemma4_text");
  const json towers = {{"model_type", "gemma4"},
                       {"text_config", text},
                       {"vision_config", {{"hidden_size", 8}}},
                       {"audio_config", nullptr},
                       {"image_token_id", 258880}};
  EXPECT_EQ(parse(towers).value(), gemma4_spec());
  text["unheard_of"] = 1;
  expect_refusals(towers, {{{{"text_config", text}}, kUnsupported, "text_config: unheard_of: found 1"},
                           {{{"unheard_of", 1}}, kUnsupported, "unheard_of: found 1"}});
}

TEST(ParseGemma4, TakesTheVersionWithoutTowers) {
  ModelSpec expected = gemma4_spec();
  expected.max_positions = 262144;
  expected.windows = {1024, 0};
  expected.layer_input_size = 0;
  EXPECT_EQ(parse(smallest("gemma4_unified_text")).value(), expected);
  EXPECT_EQ(parse({{"model_type", "gemma4_unified"}, {"text_config", smallest("gemma4_unified_text")}}).value(),
            expected);
}

}  // namespace
}  // namespace lockstep::checkpoint
