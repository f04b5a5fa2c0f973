// Against transformers: goldens/rope.json, made by tools/make_llama_goldens.py.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/model_spec.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

// Powers may differ from transformers' by one unit in the last place (2^-23), which blending can double.
constexpr float kRelativeTolerance = 3e-7f;

json read_goldens() {
  std::ifstream file(LOCKSTEP_ROPE_GOLDENS);
  return json::parse(file);
}

TEST(RopeTable, HasTheFrequenciesAndTheScaleOfTransformers) {
  const json goldens = read_goldens();
  ASSERT_EQ(goldens["cases"].size(), 24u);
  for (const json& golden : goldens["cases"]) {
    const std::string config = golden["config"].dump();
    const ModelSpec spec = parse_spec(config, "golden").value();
    const RopeTable table = rope_table(spec).value();
    EXPECT_DOUBLE_EQ(table.scale, golden["scale"].get<double>()) << config;
    const auto expected = golden["frequencies"].get<std::vector<float>>();
    ASSERT_EQ(table.frequencies.size(), expected.size()) << config;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(table.frequencies[i], expected[i], kRelativeTolerance * expected[i]) << i << " of " << config;
    }
  }
}

TEST(RopeTable, StartsWithOneRadianPerPosition) {
  ModelSpec spec;
  spec.head_dim = 64;
  EXPECT_EQ(rope_table(spec).value().frequencies.front(), 1.0f);
}

TEST(RopeTable, RefusesAnOddHeadAndATableWithoutABase) {
  ModelSpec spec;
  spec.head_dim = 7;
  EXPECT_EQ(rope_table(spec).error().kind, ErrorKind::kInvalidArgument);
  spec.head_dim = 8;
  spec.rope.theta = 1.0;
  EXPECT_EQ(rope_table(spec).error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::checkpoint
