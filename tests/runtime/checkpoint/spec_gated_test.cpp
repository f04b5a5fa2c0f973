// Mistral, Ministral, Qwen 2, Qwen 3 and Phi-3. Defaults are those of transformers' configuration classes.
#include "tests/runtime/checkpoint/spec_testing.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// With as many key/value heads as query heads, where the family has another default.

ModelSpec gated_spec(const std::string& model_type, int64_t max_positions) {
  ModelSpec spec = smallest_spec(model_type);
  spec.max_positions = max_positions;
  spec.rope.rotated = 16;
  return spec;
}

// ---- Mistral and Ministral ----

ModelSpec mistral_spec(const std::string& model_type) {
  ModelSpec spec = gated_spec(model_type, 131072);
  spec.windows = {4096, 4096};
  return spec;
}

TEST(ParseMistral, FillsInTheDefaults) {
  EXPECT_EQ(parse(small("mistral")).value(), mistral_spec("mistral"));
  EXPECT_EQ(parse(with(smallest("mistral"), {{"num_attention_heads", 16}})).value().key_value_heads, 8);
}

TEST(ParseMistral, TakesNullAsNoWindow) {
  EXPECT_THAT(parse(with(small("mistral"), {{"sliding_window", nullptr}})).value().windows, IsEmpty());
  EXPECT_THAT(parse(with(small("mistral"), {{"sliding_window", 8}})).value().windows, ElementsAre(8, 8));
}

TEST(ParseMistral, TakesNullKeyValueHeadsAsOnePerQueryHead) {
  EXPECT_EQ(parse(with(small("mistral"), {{"num_key_value_heads", nullptr}})).value().key_value_heads, 4);
}

TEST(ParseMistral, IsMinistralWhenLayersHaveTypes) {
  const json types = {{"layer_types", {"full_attention", "sliding_attention"}}, {"sliding_window", 32}};
  const ModelSpec spec = parse(with(small("mistral"), types)).value();
  EXPECT_EQ(spec, parse(with(small("ministral"), types)).value());
  EXPECT_EQ(spec.model_type, "ministral");
  EXPECT_THAT(spec.windows, ElementsAre(0, 32));
}

TEST(ParseMinistral, FillsInTheDefaults) { EXPECT_EQ(parse(small("ministral")).value(), mistral_spec("ministral")); }

TEST(ParseMinistral, HasNoWindowsWhenNoLayerSlides) {
  EXPECT_THAT(parse(with(small("ministral"), {{"sliding_window", nullptr}})).value().windows, IsEmpty());
  const json types = {{"layer_types", {"full_attention", "attention"}}};
  EXPECT_THAT(parse(with(small("ministral"), types)).value().windows, IsEmpty());
}

TEST(ParseMinistral, RefusesLayersThatItCannotRun) {
  const json sliding = {"sliding_attention", "full_attention"};
  expect_refusals(
      small("ministral"),
      {{{{"layer_types", {"full_attention"}}}, kInvalid, "layer_types: found an array of 1, expected an array of 2"},
       {{{"layer_types", "full_attention"}}, kInvalid, "layer_types: found \"full_attention\""},
       {{{"layer_types", {"full_attention", "chunked_attention"}}},
        kUnsupported,
        "layer_types: found \"chunked_attention\""},
       {{{"layer_types", {"full_attention", 1}}}, kUnsupported, "layer_types: found 1"},
       {{{"layer_types", sliding}, {"sliding_window", nullptr}}, kInvalid, "sliding_window: found no window in use"},
       {{{"sliding_window", 0}}, kInvalid, "sliding_window: found 0"},  // a token that sees nothing
       {{{"sliding_window", -1}}, kInvalid, "sliding_window: found -1"},
       {{{"sliding_window", 1}}, kUnsupported, "sliding_window: found 1, expected 2 tokens or more"}});
}

TEST(ParseMistral, RefusesARotationOfPartOfTheHead) {
  expect_refusals(small("mistral"),
                  {{{{"partial_rotary_factor", 0.5}}, kUnsupported, "partial_rotary_factor: found 0.5"}});
}

// ---- Qwen ----

TEST(ParseQwen2, FillsInTheDefaults) {
  ModelSpec expected = gated_spec("qwen2", 32768);
  expected.attention_bias = true;
  EXPECT_EQ(parse(small("qwen2")).value(), expected);
  const json many_heads = {{"hidden_size", 128}, {"num_attention_heads", 64}};
  EXPECT_EQ(parse(with(smallest("qwen2"), many_heads)).value().key_value_heads, 32);
}

TEST(ParseQwen2, IgnoresTheWindowUntilItIsInUse) {
  for (const int window : {8, 0}) {
    const json keys = {{"sliding_window", window}, {"max_window_layers", 0}};
    EXPECT_THAT(parse(with(small("qwen2"), keys)).value().windows, IsEmpty());
  }
}

TEST(ParseQwen2, SlidesFromTheLayerThatIsNamed) {
  const json keys = {{"use_sliding_window", true}, {"sliding_window", 8}, {"num_hidden_layers", 4}};
  EXPECT_THAT(parse(with(with(small("qwen2"), keys), {{"max_window_layers", 3}})).value().windows,
              ElementsAre(0, 0, 0, 8));
  EXPECT_THAT(parse(with(small("qwen2"), keys)).value().windows, IsEmpty());  // 28 by default
  EXPECT_THAT(
      parse(with(with(small("qwen2"), keys), {{"sliding_window", nullptr}, {"max_window_layers", 0}})).value().windows,
      IsEmpty());
}

TEST(ParseQwen2, LetsLayerTypesDecide) {
  const json keys = {{"use_sliding_window", true}, {"layer_types", {"sliding_attention", "full_attention"}}};
  EXPECT_THAT(parse(with(small("qwen2"), keys)).value().windows, ElementsAre(4096, 0));
  expect_refusals(with(small("qwen2"), keys),
                  {{{{"use_sliding_window", false}}, kInvalid, "sliding_window: found no window in use"}});
}

TEST(ParseQwen3, FillsInTheDefaults) {
  ModelSpec expected = gated_spec("qwen3", 32768);
  expected.head_dim = expected.rope.rotated = 128;
  expected.attention_scale = 1.0 / std::sqrt(128.0);
  expected.query_key_norm = true;
  EXPECT_EQ(parse(small("qwen3")).value(), expected);
}

TEST(ParseQwen3, ReadsItsOwnKeys) {
  const json keys = {
      {"head_dim", 16}, {"attention_bias", true}, {"use_sliding_window", true}, {"max_window_layers", 1}};
  const ModelSpec spec = parse(with(small("qwen3"), keys)).value();
  EXPECT_EQ(spec.head_dim, 16);
  EXPECT_TRUE(spec.attention_bias && spec.attention_output_bias);
  EXPECT_THAT(spec.windows, ElementsAre(0, 4096));
}

// ---- Phi-3 ----

/// Longrope for heads of 16: eight pairs.
json longrope(const std::string& name) {
  return {{name, "longrope"},
          {"short_factor", json(std::vector<double>(8, 1.5))},
          {"long_factor", json(std::vector<int>(8, 4))}};
}

TEST(ParsePhi3, FillsInTheDefaults) {
  ModelSpec expected = gated_spec("phi3", 4096);
  expected.norm_epsilon = 1e-5;
  EXPECT_EQ(parse(smallest("phi3")).value(), expected);
}

TEST(ParsePhi3, SlidesEverywhereWhenItHasAWindow) {
  EXPECT_THAT(parse(with(smallest("phi3"), {{"sliding_window", 2047}})).value().windows, ElementsAre(2047, 2047));
}

TEST(ParsePhi3, ReadsBothSpellingsOfLongropeAlike) {
  const json older = {{"max_position_embeddings", 131072},
                      {"original_max_position_embeddings", 8192},
                      {"rope_theta", 20000.0},
                      {"rope_scaling", longrope("type")}};
  json newer = {{"max_position_embeddings", 131072},
                {"original_max_position_embeddings", 8192},
                {"rope_parameters", longrope("rope_type")}};
  newer["rope_parameters"]["rope_theta"] = 20000.0;
  newer["rope_parameters"]["partial_rotary_factor"] = 1.0;
  const ModelSpec spec = parse(with(smallest("phi3"), older)).value();
  EXPECT_EQ(spec, parse(with(smallest("phi3"), newer)).value());
  EXPECT_EQ(spec.rope, (RopeSpec{.kind = RopeSpec::Kind::kLongrope,
                                 .rotated = 16,
                                 .theta = 20000.0,
                                 .factor = 16.0,
                                 .original_max_positions = 8192,
                                 .short_factors = std::vector<double>(8, 1.5),
                                 .long_factors = std::vector<double>(8, 4.0)}));
}

TEST(ParsePhi3, KnowsLongropeByItsOlderNames) {
  const ModelSpec spec = parse(with(smallest("phi3"), {{"rope_scaling", longrope("type")}})).value();
  for (const std::string name : {"su", "yarn"}) {
    const json scaling = with(longrope("type"), {{"type", name}});
    EXPECT_EQ(parse(with(smallest("phi3"), {{"rope_scaling", scaling}})).value(), spec) << name;
  }
}

TEST(ParsePhi3, TakesTheOriginalMaximumFromTheTopLevelOnly) {
  const json scaling = with(longrope("type"), {{"original_max_position_embeddings", 512}});
  EXPECT_EQ(parse(with(smallest("phi3"), {{"rope_scaling", scaling}})).value().rope.original_max_positions, 4096);
}

TEST(ParsePhi3, MayTurnPartOfTheHead) {
  EXPECT_EQ(parse(with(smallest("phi3"), {{"partial_rotary_factor", 0.75}})).value().rope.rotated, 12);
  const json nested = {{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}}};
  EXPECT_EQ(parse(with(smallest("phi3"), nested)).value().rope.rotated, 8);
}

TEST(ParsePhi3, RefusesARotationThatItCannotRun) {
  const auto scaled = [](const json& keys) { return json{{"rope_scaling", with(longrope("type"), keys)}}; };
  expect_refusals(
      smallest("phi3"),
      {{scaled({{"type", "linear"}, {"factor", 2.0}}), kUnsupported,
        "rope_type: found \"linear\", expected default or longrope"},
       {scaled({{"short_factor", {1, 2}}}), kInvalid,
        "short_factor: found an array of 2, expected an array of 8 positive"},
       {scaled({{"long_factor", nullptr}}), kInvalid, "long_factor: found null"},
       {scaled({{"long_factor", {1, 1, 1, 1, 1, 1, 1, 0}}}), kInvalid, "long_factor: found an array of 8"},
       {scaled({{"long_factor", {1, 1, 1, 1, 1, 1, 1, 1, "x"}}}), kInvalid, "long_factor: found an array of 9"},
       {{{"original_max_position_embeddings", 1}, {"rope_scaling", longrope("type")}},
        kInvalid,
        "original_max_position_embeddings: found 1"}});
}

/// Ministral 3's published text config, with smaller sizes.
json ministral3() {
  const json rope = {{"beta_fast", 32.0},
                     {"beta_slow", 1.0},
                     {"factor", 16.0},
                     {"llama_4_scaling_beta", 0.1},
                     {"mscale", 1.0},
                     {"mscale_all_dim", 1.0},
                     {"original_max_position_embeddings", 16384},
                     {"max_position_embeddings", 262144},
                     {"rope_theta", 1000000.0},
                     {"rope_type", "yarn"},
                     {"type", "yarn"}};
  return whole("ministral3",
               {{"head_dim", 16}, {"rms_norm_eps", 1e-5}, {"rope_parameters", rope}, {"sliding_window", nullptr}});
}

TEST(ParseMinistral3, KnowsEveryPublishedKeyAndNoOther) { expect_knows_these_keys_only(ministral3()); }

TEST(ParseMinistral3, ScalesQueriesByTheirPosition) {
  const ModelSpec spec = parse(ministral3()).value();
  EXPECT_EQ(spec.query_scaling, (QueryScaling{.beta = 0.1, .every = 16384}));
  EXPECT_TRUE(spec.scales_queries(0));
  EXPECT_EQ(spec.rope.kind, RopeSpec::Kind::kYarn);
  json bare = ministral3();
  bare.erase("rope_parameters");
  EXPECT_EQ(parse(with(bare, {{"max_position_embeddings", 262144}})).value(),
            parse(with(ministral3(), {{"max_position_embeddings", 262144}})).value());
  json older = ministral3();
  older["rope_scaling"] = with(older["rope_parameters"], {{"factor", 2.0}});
  EXPECT_EQ(parse(older).value().rope.factor, 2.0) << "it goes before rope_parameters";
  const ModelSpec overridden = parse(with(ministral3(), {{"original_max_position_embeddings", 64}})).value();
  EXPECT_EQ(overridden.rope.original_max_positions, 64);
  EXPECT_EQ(overridden.query_scaling.every, 64);
  json llama = ministral3();
  llama["model_type"] = "llama";
  EXPECT_THAT(parse(llama).error().message, HasSubstr("llama_4_scaling_beta: found 0.1, expected none"));
}

TEST(ParseMistral3, IsItsTextModel) {
  const auto around = [](json text) {
    text.erase("tie_word_embeddings");
    return json{{"model_type", "mistral3"},
                {"architectures", {"Mistral3ForConditionalGeneration"}},
                {"text_config", std::move(text)},
                {"vision_config", {{"model_type", "pixtral"}}},
                {"image_token_index", 10},
                {"projector_hidden_act", "gelu"},
                {"multimodal_projector_bias", false},
                {"spatial_merge_size", 2},
                {"vision_feature_layer", -1},
                {"tie_word_embeddings", false},
                {"torch_dtype", "bfloat16"},
                {"transformers_version", "5.0.0"}};
  };
  EXPECT_EQ(parse(around(ministral3())).value(), parse(ministral3()).value());
  expect_knows_these_keys_only(around(ministral3()));
  const json mistral =
      with(small("mistral"), {{"rope_theta", 1e9}, {"sliding_window", nullptr}, {"torch_dtype", "bfloat16"}});
  EXPECT_EQ(parse(around(mistral)).value(), parse(mistral).value());
  json untold = around(mistral);
  untold.erase("tie_word_embeddings");
  EXPECT_TRUE(parse(untold).value().tied_embeddings);
  const json windows = {{"sliding_window", 8}, {"layer_types", {"full_attention", "full_attention"}}};
  EXPECT_THAT(parse(around(with(mistral, windows))).value().windows, ElementsAre(8, 8));
  expect_refusals(around(ministral3()), {{{{"text_config", small("mistral5")}}, kUnsupported, "found \"mistral5\""},
                                         {{{"tie_word_embeddings", nullptr}}, kInvalid, "found null"},
                                         {{{"text_config", nullptr}}, kInvalid, "text_config"}});
  EXPECT_THAT(parse(around(with(ministral3(), {{"mystery", 2}}))).error().message, HasSubstr("mystery: found 2"));
}

/// Llama 4's published text config (of the larger model), with smaller sizes.
json llama4() {
  return whole("llama4_text", {{"attention_bias", false},
                               {"attention_chunk_size", 32},
                               {"attn_scale", 0.1},
                               {"attn_temperature_tuning", true},
                               {"floor_scale", 64},
                               {"for_llm_compressor", false},
                               {"head_dim", 16},
                               {"interleave_moe_layer_step", 2},
                               {"intermediate_size_mlp", 128},
                               {"moe_layers", {1, 3}},
                               {"no_rope_layers", json::array()},
                               {"no_rope_layer_interval", 4},
                               {"num_experts_per_tok", 1},
                               {"num_hidden_layers", 4},
                               {"num_local_experts", 8},
                               {"output_router_logits", false},
                               {"rms_norm_eps", 1e-5},
                               {"rope_scaling", nullptr},
                               {"rope_theta", 500000.0},
                               {"router_aux_loss_coef", 0.001},
                               {"router_jitter_noise", 0.0},
                               {"use_qk_norm", false}});
}

TEST(ParseLlama4, KnowsEveryPublishedKeyAndNoOther) { expect_knows_these_keys_only(llama4()); }

TEST(ParseLlama4, ReadsChunksTemperatureAndExperts) {
  const ModelSpec spec = parse(llama4()).value();
  EXPECT_THAT(spec.layers_without_rope, ElementsAre(3));
  EXPECT_THAT(spec.windows, ElementsAre(32, 32, 32, 0));
  EXPECT_TRUE(spec.chunked_windows);
  EXPECT_EQ(spec.query_scaling, (QueryScaling{.beta = 0.1, .every = 64, .offset = 1}));
  EXPECT_TRUE(spec.scales_queries(3) && !spec.scales_queries(2));
  EXPECT_THAT(spec.dense_layers, ElementsAre(0, 2));
  EXPECT_EQ(spec.dense_size, 128);
  EXPECT_EQ(spec.shared_expert_size, 96);
  EXPECT_EQ(spec.router, (RouterSpec{.scores = RouterSpec::Scores::kSigmoid, .sum_to_one = false, .on_inputs = true}));
  EXPECT_EQ(spec.rope.pairs, RopeSpec::Pairs::kNeighbours);
  json stepped = llama4();
  stepped.erase("moe_layers");
  EXPECT_EQ(parse(stepped).value(), spec);
  EXPECT_EQ(parse(with(llama4(), {{"attn_temperature_tuning", false}})).value().query_scaling, QueryScaling{});
  EXPECT_EQ(parse(with(llama4(), {{"attn_temperature_tuning", 4}})).value(), spec);
  EXPECT_THAT(parse(with(llama4(), {{"attention_chunk_size", nullptr}})).value().windows, ElementsAre(0, 0, 0, 0));
  const json types = {"full_attention", "chunked_attention", "full_attention", "full_attention"};
  EXPECT_THAT(parse(with(llama4(), {{"layer_types", types}})).value().windows, ElementsAre(0, 32, 0, 0));
  EXPECT_FALSE(spec.norms_heads(0));
  for (const bool is_told : {true, false}) {
    json config = with(llama4(), {{"use_qk_norm", true}});
    if (!is_told) config.erase("use_qk_norm");
    const ModelSpec normed = parse(config).value();
    EXPECT_TRUE(normed.plain_head_norm && normed.norm_after_rope);
    EXPECT_TRUE(normed.norms_heads(0) && !normed.norms_heads(3));  // only where it rotates
  }
  expect_refusals(llama4(), {{{{"layer_types", {"full_attention"}}}, kInvalid, "layer_types"},
                             {{{"moe_layers", 1}}, kInvalid, "moe_layers: found 1, expected an array"}});
}

TEST(ParseLlama4, IsTheTextPartOfItsMultimodalConfig) {
  json text = llama4();
  text.erase("tie_word_embeddings");
  const json outer = {{"model_type", "llama4"},
                      {"text_config", text},
                      {"vision_config", {{"model_type", "llama4_vision_model"}}},
                      {"image_token_index", 200092},
                      {"boi_token_index", 200080},
                      {"eoi_token_index", 200081}};
  EXPECT_EQ(parse(outer).value(), parse(llama4()).value());
  expect_knows_these_keys_only(outer);
}

}  // namespace
}  // namespace lockstep::checkpoint
