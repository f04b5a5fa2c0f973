#include "tests/model/hashed_weights.h"

#include <gtest/gtest.h>

#include "runtime/checkpoint/checkpoint.h"
#include "tests/temporary_directory.h"

namespace lockstep::model {
namespace {

// tools/make_family_goldens.py computed the numbers; equality is exact.
TEST(HashedWeights, EqualThoseOfTheGoldenToolToTheBit) {
  EXPECT_EQ(hashed_unit(7, "model.norm.weight", 0), 0x1.d8b8p-7f);
  EXPECT_EQ(hashed_unit(7, "model.norm.weight", 3), 0x1.48ff3cp-1f);
  EXPECT_EQ(hashed_tensor(7, {"model.norm.weight", {4}, HashedFloats{1.0f, 0.5f}}),
            (std::vector<float>{0x1.01d8b8p+0f, 0x1.5e91cp+0f, 0x1.ef11e2p-1f, 0x1.523fdp+0f}));
  EXPECT_EQ(hashed_tensor(7, {"lm_head.weight", {2, 2}, HashedFloats{0.0f, 0.5f}}),
            (std::vector<float>{0x1.17e818p-3f, -0x1.16ec98p-2f, -0x1.b5efcp-4f, 0x1.8596ap-3f}));
  EXPECT_EQ(hashed_bytes(7, {"experts.down_proj_scales", {2, 3}, HashedBytes{119, 123}}),
            (std::vector<uint8_t>{123, 122, 120, 121, 119, 121}));
}

TEST(HashedWeights, DifferBetweenSeeds) {
  EXPECT_NE(hashed_unit(1, "lm_head.weight", 0), hashed_unit(2, "lm_head.weight", 0));
}

TEST(HashedWeights, MakeAModelThatOpensWithItsTensors) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "model";
  write_hashed_model(path, R"({"model_type": "llama"})", {{"norm.weight", {24}}, {"head.weight", {8, 24}}}, 1, {});
  EXPECT_TRUE(std::filesystem::exists(path / "config.json"));
  const auto opened = checkpoint::open_checkpoint(path).value();
  EXPECT_EQ(opened->tensors().size(), 2u);
  EXPECT_EQ(opened->tensors().at("head.weight").type.shape, (Shape{8, 24}));
}

}  // namespace
}  // namespace lockstep::model
