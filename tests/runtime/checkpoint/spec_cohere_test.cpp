// Cohere and Cohere 2. Defaults are those of transformers' configuration classes.
#include "tests/runtime/checkpoint/spec_testing.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

json published(const std::string& model_type) {
  const json common = {{"attention_bias", false}, {"layer_norm_eps", 1e-5}, {"logit_scale", 0.25},
                       {"pad_token_id", 0},       {"rope_theta", 50000},    {"use_qk_norm", false}};
  const json cohere2 = {{"_sliding_window_pattern", 4},
                        {"cache_implementation", "hybrid"},
                        {"head_dim", 16},
                        {"layer_switch", 4},
                        {"order_of_interleaved_layers", "local_attn_first"},
                        {"position_embedding_type", "rope_gptj"},
                        {"rope_scaling", nullptr},
                        {"rotary_pct", 1.0},
                        {"sliding_window", 4096},
                        {"sliding_window_pattern", 4},
                        {"use_embedding_sharing", true},
                        {"use_gated_activation", true},
                        {"use_parallel_block", true},
                        {"use_parallel_embedding", false}};
  return whole(model_type, with(common, model_type == "cohere2" ? cohere2 : json{{"model_max_length", 131072}}));
}

TEST(ParseCohere, KnowsEveryPublishedKeyAndNoOther) {
  expect_knows_these_keys_only(published("cohere"));
  expect_knows_these_keys_only(published("cohere2"));
}

TEST(ParseCohere, FillsInTheDefaults) {
  ModelSpec expected = smallest_spec("cohere");
  expected.rope.rotated = 16;
  expected.rope.theta = 500000.0;
  expected.rope.pairs = RopeSpec::Pairs::kNeighbours;
  expected.max_positions = 8192;
  expected.norm_epsilon = 1e-5;
  expected.logit_scale = 0.0625;
  expected.tied_embeddings = expected.parallel_residual = true;
  EXPECT_EQ(parse(smallest("cohere")).value(), expected);

  expected.model_type = "cohere2";
  expected.rope.theta = 10000.0;
  expected.windows = {4096, 4096};
  EXPECT_EQ(parse(smallest("cohere2")).value(), expected);
}

TEST(ParseCohere, RefusesNormsOfHeads) {
  expect_refusals(published("cohere"), {{{{"use_qk_norm", true}}, kUnsupported, "use_qk_norm: found true"}});
}

TEST(ParseCohere2, HasHeadsOfAnyWidth) {
  const ModelSpec spec = parse(with(published("cohere2"), {{"head_dim", 32}})).value();
  EXPECT_EQ(spec.head_dim, 32);
  EXPECT_EQ(spec.rope.rotated, 32);
}

TEST(ParseCohere2, RotatesTheLayersWithAWindowOnly) {
  const json six = with(published("cohere2"), {{"num_hidden_layers", 6}, {"sliding_window_pattern", 3}});
  EXPECT_THAT(parse(six).value().windows, ElementsAre(4096, 4096, 0, 4096, 4096, 0));
  EXPECT_THAT(parse(six).value().layers_without_rope, ElementsAre(2, 5));
  const json named = with(published("cohere2"), {{"layer_types", {"full_attention", "sliding_attention"}}});
  EXPECT_THAT(parse(named).value().layers_without_rope, ElementsAre(0));
}

}  // namespace
}  // namespace lockstep::checkpoint
