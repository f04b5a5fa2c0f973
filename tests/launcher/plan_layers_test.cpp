// What a plan tells of models whose layers differ: other heads without a window, latent attention, recurrences.
#include <gmock/gmock.h>

#include "tests/launcher/plan_run.h"

namespace lockstep::launcher {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// 6 layers, of which the last has no window and other heads: 1 key/value head of 8 instead of 2 of 4.
constexpr const char* kGlobalHeads = R"({
  "model_type": "gemma4_text", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 6, "vocab_size": 32,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "max_position_embeddings": 64,
  "sliding_window": 8, "attention_k_eq_v": true, "global_head_dim": 8, "num_global_key_value_heads": 1,
  "hidden_size_per_layer_input": 0, "dtype": "float32"})";

TEST_F(PlanRun, TellsTheHeadsOfAllLayersWhereTheyDiffer) {
  const Json two = planned(kGlobalHeads, small_plan(4))["degrees"][1];
  EXPECT_EQ(two["key_value_heads"], (Json{{"least", 1}, {"most", 1}}));
  EXPECT_EQ(two["shared_key_value_heads"], Json::array());
  EXPECT_EQ(two["global_key_value_heads"], (Json{{"least", 1}, {"most", 1}}));
  EXPECT_EQ(two["shared_global_key_value_heads"], Json::array({0}));
  EXPECT_EQ(two["ranks"][1]["global_key_value_heads"], Json::array({0, 1}));
  EXPECT_THAT(text(), AllOf(HasSubstr("\n     2        2     1 | 1     none | 0           16"),
                            HasSubstr("\n     4        1     1 | 1      0-1 | 0            8"),
                            HasSubstr("kv heads and those shared: of layers with a window | without one\n")));
  EXPECT_TRUE(planned(kNineHeads, small_plan(1))["degrees"][0]["global_key_value_heads"].is_null());
  EXPECT_THAT(text(), Not(HasSubstr("|")));
}

// Latent attention: a token's row of 16 + 4 elements is key and value, on every rank.
TEST_F(PlanRun, CostsALatentCacheItsOneRowOfAToken) {
  constexpr const char* kLatent = R"({
    "model_type": "deepseek_v3", "hidden_size": 16, "intermediate_size": 32, "moe_intermediate_size": 16,
    "num_hidden_layers": 3, "vocab_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2, "q_lora_rank": null,
    "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "max_position_embeddings": 64,
    "dtype": "float32"})";
  PlanCommand command = small_plan(2);
  command.engine.slots = 3;
  command.engine.capacity = 64;
  const Json plan = planned(kLatent, command);
  for (const Json& degree : plan["degrees"]) {
    EXPECT_EQ(degree["memory"]["cache"], 3 * 64 * 3 * (16 + 4) * 4);
    EXPECT_EQ(degree["memory"]["recurrences"], 0);
    EXPECT_EQ(degree["key_value_heads"], (Json{{"least", 1}, {"most", 1}}));
  }
}

// Three layers of the delta rule and one with attention: 2 key/value heads of 4.
TEST_F(PlanRun, TellsWhatRecurrentLayersCarryWhateverTheLength) {
  constexpr const char* kRecurrent = R"({
    "model_type": "qwen3_5_text", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 4, "vocab_size": 32,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "max_position_embeddings": 64,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 4, "linear_value_head_dim": 4,
    "linear_conv_kernel_dim": 4, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
    "partial_rotary_factor": 0.5}, "dtype": "float32"})";
  PlanCommand command = small_plan(2);
  int64_t carried = 0;
  for (const int64_t capacity : {32, 64}) {
    command.engine.capacity = capacity;
    const Json degrees = planned(kRecurrent, command)["degrees"];
    const Json& memory = degrees[0]["memory"];
    EXPECT_EQ(memory["cache"].get<int64_t>() - memory["recurrences"].get<int64_t>(), capacity * 2 * 2 * 4 * 4);
    EXPECT_EQ(degrees[1]["memory"]["recurrences"].get<int64_t>() * 2, memory["recurrences"].get<int64_t>());
    EXPECT_EQ(degrees[1]["delta_heads"], (Json{{"least", 2}, {"most", 2}}));
    if (carried == 0) carried = memory["recurrences"];
    EXPECT_EQ(memory["recurrences"], carried);
    EXPECT_GT(carried, 0);
  }
  EXPECT_THAT(text(), AllOf(HasSubstr("delta heads"), HasSubstr("of KV are what recurrent layers carry")));
}

}  // namespace
}  // namespace lockstep::launcher
