// Against transformers: goldens/rope.json, made by tools/make_rope_goldens.py.
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

/// The golden's list of that name; empty if it has none.
std::vector<float> list_of(const json& golden, const char* name) {
  return golden.contains(name) ? golden[name].get<std::vector<float>>() : std::vector<float>();
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], kRelativeTolerance * expected[i]) << i << " of " << what;
  }
}

TEST(RopeTable, HasTheFrequenciesAndTheScaleOfTransformers) {
  const json goldens = read_goldens();
  ASSERT_EQ(goldens["cases"].size(), 46u);
  for (const json& golden : goldens["cases"]) {
    const std::string config = golden["config"].dump();
    const ModelSpec spec = parse_spec(config, "golden").value();
    const RopeTable table = rope_table(spec, spec.rope).value();
    EXPECT_DOUBLE_EQ(table.scale, golden["scale"].get<double>()) << config;
    expect_near(table.frequencies, list_of(golden, "frequencies"), config);
    expect_near(table.long_frequencies, list_of(golden, "long_frequencies"), "the long table of " + config);
    ASSERT_EQ(spec.local_rope.has_value(), golden.contains("local_frequencies")) << config;
    if (!spec.local_rope) continue;
    const RopeTable local = rope_table(spec, *spec.local_rope).value();
    expect_near(local.frequencies, list_of(golden, "local_frequencies"), "the local table of " + config);
  }
}

TEST(RopeTable, StartsWithOneRadianPerPosition) {
  EXPECT_EQ(rope_table({}, {.rotated = 64}).value().frequencies.front(), 1.0f);
}

TEST(RopeTable, HasOneFrequencyForEachPairThatTurns) {
  ModelSpec spec;
  spec.head_dim = 64;
  EXPECT_EQ(rope_table(spec, {.rotated = 16}).value().frequencies.size(), 8u);
}

TEST(RopeTable, RefusesARotationThatHasNoTable) {
  const RopeSpec cases[] = {
      {.rotated = 7},
      {.rotated = 0},
      {.rotated = 8, .theta = 1.0},
      {.rotated = 8, .factor = 0.0},
      {.kind = RopeSpec::Kind::kLongrope,
       .rotated = 4,
       .original_max_positions = 1,
       .short_factors = {1, 1},
       .long_factors = {1, 1}},
      {.kind = RopeSpec::Kind::kLongrope,
       .rotated = 4,
       .original_max_positions = 9,
       .short_factors = {1, 1},
       .long_factors = {1}},
  };
  for (const RopeSpec& rope : cases) {
    const auto table = rope_table({}, rope);
    ASSERT_FALSE(table.has_value());
    EXPECT_EQ(table.error().kind, ErrorKind::kInvalidArgument);
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
