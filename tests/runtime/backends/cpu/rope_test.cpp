// Rotary positions: the kernels, and the lowering of the operands.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/backends/cpu/cpu.h"
#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/graph/builder.h"

namespace lockstep::cpu {
namespace {

class Rope : public ::testing::TestWithParam<Isa> {
 protected:
  static std::vector<float> turned(RopeFunction function, std::vector<float>& x, const std::vector<float>& cosines,
                                   const std::vector<float>& sines, int64_t rotated) {
    std::vector<float> found(x.size());
    function({reinterpret_cast<const std::byte*>(x.data()), DType::kFloat32}, cosines.data(), sines.data(),
             {reinterpret_cast<std::byte*>(found.data()), DType::kFloat32}, rotated, static_cast<int64_t>(x.size()));
    return found;
  }
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, Rope, ::testing::ValuesIn(available_isas()),
                         [](const auto& test) { return std::string(to_string(test.param)); });

std::vector<float> a_head(int64_t head_dim) {
  std::vector<float> x;
  for (int64_t i = 0; i < head_dim; ++i) x.push_back(static_cast<float>(i % 9) - 4.0f);
  return x;
}

TEST_P(Rope, TurnsHalvesAndCopiesTheRest) {
  for (int64_t rotated : {2, 10, 32, 64, 66}) {
    const int64_t half = rotated / 2;
    std::vector<float> x = a_head(rotated + 6), cosines, sines;
    for (int64_t i = 0; i < half; ++i) {
      cosines.push_back(std::cos(0.3f * static_cast<float>(i)));
      sines.push_back(std::sin(0.3f * static_cast<float>(i)));
    }
    const std::vector<float> found = turned(kernels_for(GetParam()).rope_halves, x, cosines, sines, rotated);
    for (int64_t i = 0; i < half; ++i) {
      EXPECT_EQ(found[i], x[i] * cosines[i] - x[half + i] * sines[i]);
      EXPECT_EQ(found[half + i], x[half + i] * cosines[i] + x[i] * sines[i]);
    }
    for (int64_t i = rotated; i < rotated + 6; ++i) EXPECT_EQ(found[i], x[i]);
  }
}

TEST_P(Rope, TurnsNeighboursAndCopiesTheRest) {
  for (int64_t rotated : {2, 10, 32, 64, 66}) {
    std::vector<float> x = a_head(rotated + 6), cosines, sines;
    for (int64_t i = 0; i < rotated / 2; ++i) {
      const float cosine = std::cos(0.3f * static_cast<float>(i)), sine = std::sin(0.3f * static_cast<float>(i));
      cosines.insert(cosines.end(), {cosine, cosine});
      sines.insert(sines.end(), {-sine, sine});
    }
    const std::vector<float> found = turned(kernels_for(GetParam()).rope_neighbours, x, cosines, sines, rotated);
    for (int64_t i = 0; i < rotated; i += 2) {
      EXPECT_EQ(found[i], x[i] * cosines[i] - x[i + 1] * sines[i + 1]);
      EXPECT_EQ(found[i + 1], x[i + 1] * cosines[i] + x[i] * sines[i + 1]);
    }
    for (int64_t i = rotated; i < rotated + 6; ++i) EXPECT_EQ(found[i], x[i]);
  }
}

/// Runs a graph with inputs x [rows, 8], position, slot and is_long [slots]; the result is its output y.
std::vector<float> run_rope(graph::Graph graph, std::vector<float> x, std::vector<int32_t> position,
                            std::vector<int32_t> slot, std::vector<int32_t> is_long) {
  const device::StepGraph steps[] = {graph};
  const auto backend = make_backend({}).value();
  const auto store = backend->make_store(steps).value();
  const auto executable = backend->compile(graph, *store, {}).value();
  std::vector<device::HostTensor> inputs;
  for (const graph::ValueId id : graph.values_of(graph::ValueKind::kInput)) {
    const graph::Value& value = graph.value(id);
    std::span<const std::byte> bytes = std::as_bytes(std::span(x));
    if (value.name == "position") bytes = std::as_bytes(std::span(position));
    if (value.name == "slot") bytes = std::as_bytes(std::span(slot));
    if (value.name == "is_long") bytes = std::as_bytes(std::span(is_long));
    inputs.push_back({value.type, bytes});
  }
  EXPECT_TRUE(executable->run(inputs).has_value());
  const auto* y = reinterpret_cast<const float*>(executable->output("y").data());
  return {y, y + x.size()};
}

TEST(RopeLowering, TurnsRowsOfLongSlotsByLongFrequencies) {
  graph::GraphBuilder b({.name = "prefill", .rows = 3, .slots = 2});
  const auto x = b.input("x", {DType::kFloat32, {3, 4}});
  const auto position = b.input("position", {DType::kInt32, {3}});
  const auto slot = b.input("slot", {DType::kInt32, {3}});
  const auto is_long = b.input("is_long", {DType::kInt32, {2}});
  const auto short_frequencies = b.constant("short", {1.0f, 0.5f}),
             long_frequencies = b.constant("long", {0.25f, 0.125f});
  b.output("y", b.rope({x, position, short_frequencies, long_frequencies, is_long, slot}, 1, 2.0, "neighbours"));
  const std::vector<float> y =
      run_rope(std::move(b).finish(), {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0}, {3, 5, 7}, {1, 0, -1}, {0, 1});
  const std::vector<float> angles = {3 * 0.25f, 3 * 0.125f, 5 * 1.0f, 5 * 0.5f};
  for (size_t i = 0; i < angles.size(); ++i) {
    EXPECT_FLOAT_EQ(y[2 * i], 2 * std::cos(angles[i])) << i;
    EXPECT_FLOAT_EQ(y[2 * i + 1], 2 * std::sin(angles[i])) << i;
  }
}

TEST(RopeLowering, ClampsPositions) {
  graph::GraphBuilder b({.name = "prefill", .rows = 3, .slots = 1});
  const auto x = b.input("x", {DType::kFloat32, {3, 2}});
  const auto position = b.input("position", {DType::kInt32, {3}});
  b.output("y", b.rope({x, b.clamp_positions(position, 9), b.constant("frequencies", {0.5f})}, 1, 1.0));
  const std::vector<float> y = run_rope(std::move(b).finish(), {1, 0, 1, 0, 1, 0}, {2, 9, 1000}, {}, {});
  EXPECT_FLOAT_EQ(y[0], std::cos(1.0f));
  EXPECT_FLOAT_EQ(y[2], std::cos(4.5f));
  EXPECT_EQ(y[4], y[2]);
  EXPECT_EQ(y[5], y[3]);
}

}  // namespace
}  // namespace lockstep::cpu
