#include "tests/model/hashed_weights.h"

#include <gtest/gtest.h>

#include "runtime/checkpoint/checkpoint.h"
#include "tests/runtime/checkpoint/temporary_directory.h"

namespace lockstep::model {
namespace {

constexpr std::string_view kConfig =
    R"({"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "vocab_size": 11,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "attention_bias": true})";

// The numbers are what tools/make_llama_goldens.py computes; equality is exact.
TEST(HashedWeights, EqualThoseOfTheGoldenToolToTheBit) {
  EXPECT_EQ(hashed_unit(7, "model.norm.weight", 0), 0x1.d8b8p-7f);
  EXPECT_EQ(hashed_unit(7, "model.norm.weight", 3), 0x1.48ff3cp-1f);
  const WeightRecipe recipe{.seed = 7};
  EXPECT_EQ(hashed_tensor(recipe, {"model.norm.weight", {4}}),
            (std::vector<float>{0x1.01d8b8p+0f, 0x1.5e91cp+0f, 0x1.ef11e2p-1f, 0x1.523fdp+0f}));
  EXPECT_EQ(hashed_tensor(recipe, {"model.layers.0.self_attn.q_proj.bias", {2}}),
            (std::vector<float>{0x1.f371p-7f, 0x1.7ea4dp-3f}));
  EXPECT_EQ(hashed_tensor(recipe, {"lm_head.weight", {2, 2}}),
            (std::vector<float>{0x1.17e818p-3f, -0x1.16ec98p-2f, -0x1.b5efcp-4f, 0x1.8596ap-3f}));
}

TEST(HashedWeights, DifferBetweenSeeds) {
  EXPECT_NE(hashed_unit(1, "lm_head.weight", 0), hashed_unit(2, "lm_head.weight", 0));
}

TEST(HashedWeights, MakeAModelThatOpensWithEveryTensorOfTheFamily) {
  const checkpoint::TemporaryDirectory directory;
  const auto path = directory.path() / "model";
  ASSERT_TRUE(write_hashed_model(path, kConfig, {}, {}).has_value());
  const auto spec = checkpoint::read_spec(path / "config.json").value();
  const auto opened = checkpoint::open_checkpoint(path).value();
  // embedding, final norm, head; per layer 2 norms, 7 weights and 4 attention biases
  EXPECT_EQ(opened->tensors().size(), 3u + 2u * 13u);
  EXPECT_EQ(opened->tensors().at("model.layers.1.self_attn.o_proj.weight").type.shape, (Shape{8, 24}));
  EXPECT_EQ(opened->tensors().at("model.layers.0.self_attn.k_proj.bias").type.shape, (Shape{12}));
}

}  // namespace
}  // namespace lockstep::model
