#include "runtime/backends/cuda/fusion_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runtime/graph/text.h"

namespace lockstep::cuda {
namespace {

struct Sizes {
  int64_t rows = 4;
  int ranks = 1;
};

/// A step's header and the values that its nodes may read.
std::string values_of(const Sizes& sizes) {
  return fmt::format(R"(graph decode tp={1} rank=0 rows={0} slots=4 {{
  %x = input : f32[{0},32]
  %slot = input : i32[{0}]
  %bias = weight bias[0:32] : f32[32]
  %head_norm = weight head_norm[0:16] : f32[16]
  %w = weight w[0:32,0:32] : f32[32,32]
  %w2 = weight w2[0:32,0:32] : f32[32,32]
  %w64 = weight w64[0:64,0:32] : f32[64,32]
  %turns = constant [1,0.5] : f32[2]
  %position = input : i32[{0}]
  %k = state : f32[4,1,8,16]
  %v = state : f32[4,1,8,16]
  %k8 = state : i8[4,1,8,20]
  %v8 = state : i8[4,1,8,20]
  %q4 = weight q4[0:32,0:32] : f32[32,32] as q4g32
)",
                     sizes.rows, sizes.ranks);
}

/// The fusions in a step of these nodes, in which {} is the number of rows.
std::string plan_of(std::string_view nodes, const Sizes& sizes = {}) {
  const auto graph = graph::parse(values_of(sizes) + fmt::format(fmt::runtime(nodes), sizes.rows) + "}\n");
  if (!graph.has_value()) return graph.error().message;
  return to_text(graph.value(), plan_fusion(graph.value()));
}

// ---- rows -----------------------------------------------------------------------------------------------------------

constexpr const char* kNormedProduct = R"(
  %0 = rms_norm(%x, %bias) epsilon=1e-05 : f32[{0},32]
  %1 = linear(%0, %w) : f32[{0},32]
)";

TEST(CudaFusedRows, AreThoseOfANormThatAProductReadsFirst) {
  EXPECT_EQ(plan_of(kNormedProduct), "%0 rms_norm → rows of %1 linear\n");
  EXPECT_EQ(plan_of(std::string(kNormedProduct) + "  %2 = linear(%0, %w64) : f32[{0},64]\n"),
            "%0 rms_norm → rows of %1 linear\n");
}

TEST(CudaFusedRows, AreNotThoseOfAProductWithCodes) {
  EXPECT_EQ(plan_of(R"(
  %0 = rms_norm(%x, %bias) epsilon=1e-05 : f32[{0},32]
  %1 = linear(%0, %q4) : f32[{0},32]
  %2 = add(%1, %x) : f32[{0},32]
)"),
            "");
}

TEST(CudaFusedRows, AreAtMostEight) {
  EXPECT_EQ(plan_of(kNormedProduct, {.rows = 8}), "%0 rms_norm → rows of %1 linear\n");
  EXPECT_EQ(plan_of(kNormedProduct, {.rows = 9}), "");
}

TEST(CudaFusedRows, AreNotThoseThatAnEarlierLaunchReads) {
  EXPECT_EQ(plan_of(R"(
  %0 = rms_norm(%x, %bias) epsilon=1e-05 : f32[{0},32]
  %1 = scale(%0) factor=2 : f32[{0},32]
  %2 = linear(%0, %w) : f32[{0},32]
)"),
            "");
}

TEST(CudaFusedRows, MayBeSelected) {
  EXPECT_EQ(plan_of(R"(
  %0 = select_rows(%x, %slot) : f32[{0},32]
  %1 = layer_norm(%0, %bias, %bias) epsilon=1e-05 : f32[{0},32]
  %2 = linear(%1, %w) : f32[{0},32]
)"),
            "%0 select_rows → rows of %2 linear\n%1 layer_norm → rows of %2 linear\n");
}

// ---- columns --------------------------------------------------------------------------------------------------------

constexpr const char* kSum = R"(
  %0 = linear_blocks(%x, %w) block=16 blocks=[0,2] : f32[1,{0},32]
  %1 = all_reduce(%0) blocks=[0,2] dtype="f32" : f32[{0},32]
  %2 = add(%x, %1) : f32[{0},32]
)";

TEST(CudaFusedColumns, AreASumOfOneRankAndItsResidual) {
  EXPECT_EQ(plan_of(kSum), "%1 all_reduce → columns of %0 linear_blocks\n%2 add → columns of %0 linear_blocks\n");
}

TEST(CudaFusedColumns, EndWhereAnotherNodeReads) {
  EXPECT_EQ(plan_of(std::string(kSum) + "  %3 = scale(%1) factor=2 : f32[{0},32]\n"),
            "%1 all_reduce → columns of %0 linear_blocks\n");
}

TEST(CudaFusedColumns, DoNotWaitForALaterProduct) {
  EXPECT_EQ(plan_of(R"(
  %0 = linear(%x, %w) : f32[{0},32]
  %1 = linear(%x, %w2) : f32[{0},32]
  %2 = add(%0, %1) : f32[{0},32]
)"),
            "%2 add → columns of %1 linear\n");
}

TEST(CudaFusedColumns, AreHalvesOfOneWeightOrTwoWeights) {
  EXPECT_EQ(plan_of(R"(
  %0 = linear(%x, %w64) : f32[{0},64]
  %1 = gated_activation(%0) activation="silu" : f32[{0},32]
)"),
            "%1 gated_activation → columns of %0 linear\n");
  EXPECT_EQ(
      plan_of(R"(
  %0 = rms_norm(%x, %bias) epsilon=1e-05 : f32[{0},32]
  %1 = linear(%0, %w) : f32[{0},32]
  %2 = linear(%0, %w2) : f32[{0},32]
  %3 = gated_activation(%2, %1) activation="gelu" : f32[{0},32]
)"),
      "%0 rms_norm → rows of %1 linear\n%2 linear → beside %1 linear\n%3 gated_activation → columns of %1 linear\n");
}

// ---- sums over ranks ------------------------------------------------------------------------------------------------

TEST(CudaFusedResidual, IsAddedWhereRanksSum) {
  const char* const kOfTwo = R"(
  %0 = linear_blocks(%x, %w) block=16 blocks=[0,2,4] : f32[1,{0},32]
  %1 = all_reduce(%0) blocks=[0,2,4] dtype="f32" : f32[{0},32]
  %2 = add(%x, %1) : f32[{0},32]
)";
  EXPECT_EQ(plan_of(kOfTwo, {.ranks = 2}), "%2 add → residual of %1 all_reduce\n");
}

// ---- heads ----------------------------------------------------------------------------------------------------------

constexpr const char* kHeads = R"(
  %0 = rope(%x, %position, %turns) heads=2 pairs="halves" scale=1 : f32[{0},32]
  %1 = columns(%x) begin=0 end=16 : f32[{0},16]
  %2 = rms_norm(%1, %head_norm) epsilon=1e-05 heads=1 : f32[{0},16]
  %3 = rope(%2, %position, %turns) heads=1 pairs="halves" scale=1 : f32[{0},16]
  kv_append(%3, %k, %slot, %position)
  kv_append(%1, %v, %slot, %position)
)";
constexpr const char* kAttention =
    "  %4 = attention(%0, %k, %v, %slot, %position) head_map=[0,0] kernel=\"decode\" scale=1 : f32[{0},32]\n";

TEST(CudaFusedHeads, AreNormedTurnedAndAppendedAheadOfTheirAttention) {
  EXPECT_EQ(plan_of(std::string(kHeads) + kAttention, {.rows = 40}),
            "%0 rope → heads of %4 attention\n%2 rms_norm → heads of %4 attention\n%3 rope → heads of %4 attention\n"
            "%k kv_append → heads of %4 attention\n%v kv_append → heads of %4 attention\n");
}

TEST(CudaFusedHeads, AreQueriesAloneWhereCachesAreIn8Bits) {
  std::string nodes = std::string(kHeads) + kAttention;
  for (const char cache : {'k', 'v'}) {
    const std::string from = fmt::format("%{},", cache), to = fmt::format("%{}8,", cache);
    for (size_t at = nodes.find(from); at != std::string::npos; at = nodes.find(from, at + 1)) {
      nodes.replace(at, from.size(), to);
    }
  }
  EXPECT_EQ(plan_of(nodes, {.rows = 4}), "%0 rope → heads of %4 attention\n");
}

TEST(CudaFusedHeads, AreNotThoseThatOthersRead) {
  EXPECT_EQ(plan_of(std::string(kHeads) + kAttention + "  %5 = scale(%0) factor=2 : f32[{0},32]\n"),
            "%2 rms_norm → heads of %4 attention\n%3 rope → heads of %4 attention\n"
            "%k kv_append → heads of %4 attention\n%v kv_append → heads of %4 attention\n");
}

TEST(CudaFusedHeads, AreJoinedOfColumnsThatAreNormedAndTurnedApart) {
  EXPECT_EQ(plan_of(R"(
  %0 = columns(%x) begin=0 end=24 : f32[{0},24]
  %1 = columns(%x) begin=24 end=32 : f32[{0},8]
  %2 = rope(%1, %position, %turns) heads=2 pairs="halves" scale=1 : f32[{0},8]
  %3 = join_heads(%0, %2) heads=2 : f32[{0},32]
  %4 = columns(%x) begin=0 end=12 : f32[{0},12]
  %5 = rms_norm(%4) epsilon=1e-05 : f32[{0},12]
  %6 = columns(%x) begin=12 end=16 : f32[{0},4]
  %7 = rope(%6, %position, %turns) heads=1 pairs="halves" scale=1 : f32[{0},4]
  %8 = join_heads(%5, %7) heads=1 : f32[{0},16]
  kv_append(%8, %k, %slot, %position)
  %9 = attention(%3, %k, %k, %slot, %position) head_map=[0,0] kernel="decode" scale=1 value_columns=12 : f32[{0},24]
)",
                    {.rows = 40}),
            "%2 rope → heads of %9 attention\n%3 join_heads → heads of %9 attention\n"
            "%5 rms_norm → heads of %9 attention\n%7 rope → heads of %9 attention\n"
            "%8 join_heads → heads of %9 attention\n%k kv_append → heads of %9 attention\n");
}

}  // namespace
}  // namespace lockstep::cuda
