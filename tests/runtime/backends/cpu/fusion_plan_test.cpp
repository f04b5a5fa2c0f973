#include "runtime/backends/cpu/fusion_plan.h"

#include <gtest/gtest.h>

#include "runtime/graph/text.h"

namespace lockstep::cpu {
namespace {

struct Sizes {
  int64_t rows = 4, slots = 4;
  int ranks = 1;
};

/// A step's header and the values that its nodes may read: x f32[rows,32] and the same y, a bias, square weights and
/// some with twice as many rows, and attention's operands (2 query heads of 16 over 1 cache head; a slot has 8
/// positions).
std::string values_of(const Sizes& sizes) {
  return fmt::format(R"(graph decode tp={1} rank=0 rows={0} slots={2} {{
  %x = input : f32[{0},32]
  %slot = input : i32[{0}]
  %other_slot = input : i32[{0}]
  %bias = weight bias[0:32] : f32[32]
  %head_norm = weight head_norm[0:16] : f32[16]
  %w = weight w[0:32,0:32] : f32[32,32]
  %w8 = weight w8[0:32,0:32] : f32[32,32] as q8g32
  %w64 = weight w64[0:64,0:32] : f32[64,32]
  %turns = constant [1,0.5] : f32[2]
  %length = state : i32[{0}]
  %k = state : f32[{2},1,8,16]
  %v = state : f32[{2},1,8,16]
)",
                     sizes.rows, sizes.ranks, sizes.slots);
}

/// The fusions in a step of these nodes.
std::string plan_of(std::string_view nodes, const Sizes& sizes = {}) {
  const auto graph = graph::parse(values_of(sizes).append(nodes).append("}\n"));
  if (!graph.has_value()) return graph.error().message;
  return to_text(graph.value(), plan_fusion(graph.value()));
}

// ---- rows -----------------------------------------------------------------------------------------------------------

constexpr const char* kNormedProduct = R"(
  %0 = rms_norm(%x, %bias) epsilon=1e-05 : f32[4,32]
  %1 = linear(%0, %w) : f32[4,32]
)";

TEST(FusedRows, AreThoseOfANormThatOneProductReads) {
  EXPECT_EQ(plan_of(kNormedProduct), "%0 rms_norm → rows of %1 linear\n");
  EXPECT_EQ(plan_of(R"(
  %0 = layer_norm(%x, %bias, %bias) epsilon=1e-05 : f32[4,32]
  %1 = linear(%0, %w8) activations="int8" : f32[4,32]
)"),
            "%0 layer_norm → rows of %1 linear\n");
}

TEST(FusedRows, MayBeFarFromTheirProduct) {
  EXPECT_EQ(plan_of(R"(
  %0 = rms_norm(%x, %bias) epsilon=1e-05 : f32[4,32]
  %1 = lookup(%slot, %w) offset=0 : f32[4,32]
  %2 = linear(%0, %w) : f32[4,32]
)"),
            "%0 rms_norm → rows of %2 linear\n");
}

TEST(FusedRows, AreAtMostEight) {
  const auto product_of = [](int rows) {
    return fmt::format("%0 = rms_norm(%x, %bias) epsilon=1e-05 : f32[{0},32]\n%1 = linear(%0, %w) : f32[{0},32]\n",
                       rows);
  };
  EXPECT_EQ(plan_of(product_of(8), {.rows = 8}), "%0 rms_norm → rows of %1 linear\n");
  EXPECT_EQ(plan_of(product_of(9), {.rows = 9}), "");
}

TEST(FusedRows, AreReadByNothingElse) {
  EXPECT_EQ(plan_of(std::string(kNormedProduct) + "  %2 = linear(%0, %w64) : f32[4,64]\n"), "");
  EXPECT_EQ(plan_of(std::string(kNormedProduct) + "  output normed = %0\n"), "");
}

TEST(FusedRows, AreNotThoseOfHeads) {
  EXPECT_EQ(plan_of(R"(
  %0 = rms_norm(%x, %head_norm) epsilon=1e-05 heads=2 : f32[4,32]
  %1 = linear(%0, %w) : f32[4,32]
)"),
            "");
}

// ---- columns --------------------------------------------------------------------------------------------------------

TEST(FusedColumns, AreWhatFollowsAProductElementByElement) {
  EXPECT_EQ(plan_of(R"(
  %0 = linear_blocks(%x, %w) block=16 blocks=[0,2] : f32[1,4,32]
  %1 = all_reduce(%0) blocks=[0,2] dtype="f32" : f32[4,32]
  %2 = add(%1, %bias) : f32[4,32]
  %3 = add(%x, %2) : f32[4,32]
  %4 = scale(%3) factor=2.0 : f32[4,32]
  %5 = activation(%4) activation="gelu" : f32[4,32]
  %6 = soft_cap(%5) cap=3.0 : f32[4,32]
  %7 = all_gather(%6) parts=[32] : f32[4,32]
)"),
            "%1 all_reduce → columns of %0 linear_blocks\n"
            "%2 add → columns of %0 linear_blocks\n"
            "%3 add → columns of %0 linear_blocks\n"
            "%4 scale → columns of %0 linear_blocks\n"
            "%5 activation → columns of %0 linear_blocks\n"
            "%6 soft_cap → columns of %0 linear_blocks\n"
            "%7 all_gather → columns of %0 linear_blocks\n");
}

TEST(FusedColumns, MayBeFarFromTheirProduct) {
  EXPECT_EQ(plan_of(R"(
  %0 = linear(%x, %w) : f32[4,32]
  %1 = lookup(%slot, %w) offset=0 : f32[4,32]
  %2 = scale(%0) factor=2.0 : f32[4,32]
)"),
            "%2 scale → columns of %0 linear\n");
}

TEST(FusedColumns, OfTwoProductsBelongToTheLater) {
  EXPECT_EQ(plan_of(R"(
  %0 = linear(%x, %w) : f32[4,32]
  %1 = linear(%x, %w) : f32[4,32]
  %2 = scale(%0) factor=2.0 : f32[4,32]
  %3 = gated_activation(%1, %2) activation="silu" : f32[4,32]
)"),
            "%2 scale → columns of %0 linear\n"
            "%3 gated_activation → columns of %1 linear\n");
}

TEST(FusedColumns, ReadNothingThatIsMadeAfterTheirProduct) {
  EXPECT_EQ(plan_of(R"(
  %0 = linear(%x, %w) : f32[4,32]
  %1 = lookup(%slot, %w) offset=0 : f32[4,32]
  %2 = add(%0, %1) : f32[4,32]
)"),
            "");
}

TEST(FusedColumns, ReadNoColumnsThatOtherWorkersMakeMeanwhile) {
  EXPECT_EQ(plan_of(R"(
  %0 = linear(%x, %w64) : f32[4,64]
  %1 = columns(%0) begin=0 end=32 : f32[4,32]
  %2 = columns(%0) begin=32 end=64 : f32[4,32]
  %3 = add(%1, %2) : f32[4,32]
)"),
            "");
}

TEST(FusedColumns, AreNoSumsOverRanks) {
  EXPECT_EQ(plan_of(R"(
  %0 = linear_blocks(%x, %w) block=32 blocks=[0,1,2] : f32[1,4,32]
  %1 = all_reduce(%0) blocks=[0,1,2] dtype="f32" : f32[4,32]
  %2 = scale(%1) factor=2.0 : f32[4,32]
)",
                    {.ranks = 2}),
            "");
}

// ---- halves ---------------------------------------------------------------------------------------------------------

constexpr const char* kGated = R"(
  %0 = linear(%x, %w64) : f32[4,64]
  %1 = gated_activation(%0) activation="silu" : f32[4,32]
)";

TEST(FusedHalves, AreGateAndUpSideBySide) {
  EXPECT_EQ(plan_of(std::string(kGated) + "  %2 = scale(%1) factor=2.0 : f32[4,32]\n"),
            "%1 gated_activation → halves of %0 linear\n"
            "%2 scale → columns of %0 linear\n");
}

TEST(FusedHalves, AreReadByNothingElse) {
  EXPECT_EQ(plan_of(std::string(kGated) + "  %2 = scale(%0) factor=2.0 : f32[4,64]\n"),
            "%2 scale → columns of %0 linear\n");
  EXPECT_EQ(plan_of(R"(
  %0 = linear(%x, %w64) : f32[4,64]
  %1 = scale(%0) factor=2.0 : f32[4,64]
  %2 = gated_activation(%1) activation="silu" : f32[4,32]
)"),
            "%1 scale → columns of %0 linear\n");
}

TEST(FusedHalves, AreWholeStrips) {
  EXPECT_EQ(plan_of(R"(
  %0 = linear(%x, %w) : f32[4,32]
  %1 = gated_activation(%0) activation="silu" : f32[4,16]
)"),
            "%1 gated_activation → halves of %0 linear\n");
  EXPECT_EQ(plan_of(R"(
  %w24 = weight w24[0:24,0:32] : f32[24,32]
  %0 = linear(%x, %w24) : f32[4,24]
  %1 = gated_activation(%0) activation="silu" : f32[4,12]
)"),
            "");
}

// ---- heads ----------------------------------------------------------------------------------------------------------

/// Queries, keys and values of one product, turned, appended and attended to.
constexpr const char* kAttention = R"(
  %0 = linear(%x, %w64) : f32[4,64]
  %1 = columns(%0) begin=0 end=32 : f32[4,32]
  %2 = columns(%0) begin=32 end=48 : f32[4,16]
  %3 = columns(%0) begin=48 end=64 : f32[4,16]
  %4 = rope(%1, %length, %turns) heads=2 scale=1.0 : f32[4,32]
  %5 = rope(%2, %length, %turns) heads=1 scale=1.0 : f32[4,16]
  kv_append(%5, %k, %slot, %length)
  kv_append(%3, %v, %slot, %length)
  %6 = attention(%4, %k, %v, %slot, %length) head_map=[0,0] kernel="decode" scale=0.25 : f32[4,32]
)";
constexpr const char* kFusedHeads =
    "%4 rope → query heads of %6 attention\n"
    "%5 rope → cache heads of %6 attention\n"
    "%k kv_append → cache heads of %6 attention\n"
    "%v kv_append → cache heads of %6 attention\n";

constexpr const char* kAppendedValues = "%v kv_append → cache heads of %6 attention\n";

/// `text` with every `from` replaced.
std::string with(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

TEST(FusedHeads, AreTurnedAndAppendedBeforeTheAttentionThatReadsThem) { EXPECT_EQ(plan_of(kAttention), kFusedHeads); }

TEST(FusedHeads, AreNormedBeforeTheyAreTurned) {
  const std::string norms =
      "  %7 = rms_norm(%1, %head_norm) epsilon=1e-05 heads=2 : f32[4,32]\n"
      "  %8 = rms_norm(%2, %head_norm) epsilon=1e-05 : f32[4,16]\n  %4 =";
  const std::string normed = with(with(with(kAttention, "rope(%1", "rope(%7"), "rope(%2", "rope(%8"), "  %4 =", norms);
  const std::string fused_norms =
      "%7 rms_norm → query heads of %6 attention\n"
      "%8 rms_norm → cache heads of %6 attention\n";
  EXPECT_EQ(plan_of(normed), fused_norms + kFusedHeads);
  // The cache's heads are appended elsewhere: their norm is a separate stage, like their rope.
  const std::string elsewhere = with(normed, "(%5, %k, %slot", "(%5, %k, %other_slot");
  EXPECT_EQ(plan_of(elsewhere),
            "%7 rms_norm → query heads of %6 attention\n"
            "%4 rope → query heads of %6 attention\n"
            "%v kv_append → cache heads of %6 attention\n");
}

TEST(FusedHeads, AreThoseThatMeetPinnedKeysToo) {
  const std::string pinned =
      with(with(kAttention, "%length) head_map=[0,0]", "%length, %7) head_map=[0,0] pinned=2 window=4"),
           "  %4 =", "  %7 = rope(%1, %slot, %turns) heads=2 scale=1.0 : f32[4,32]\n  %4 =");
  EXPECT_EQ(plan_of(with(pinned, "%length)\n", "%length) pinned=2 window=4\n")),
            std::string("%7 rope → query heads of %6 attention\n") + kFusedHeads);
}

TEST(FusedHeads, MayBeFarFromTheirAttention) {
  EXPECT_EQ(
      plan_of(with(kAttention, "  kv_append(%3", "  %7 = lookup(%slot, %w) offset=0 : f32[4,32]\n  kv_append(%3")),
      kFusedHeads);
}

TEST(FusedHeads, HaveARowPerSlot) {
  EXPECT_EQ(plan_of(with(kAttention, "\"decode\"", "\"prefill\"")), "");
  EXPECT_EQ(plan_of(kAttention, {.slots = 2}), "");
  const std::string first_slots = "  %all = input : i32[6]\n  %7 = first_rows(%all) : i32[4]\n";
  EXPECT_EQ(plan_of(first_slots + with(kAttention, "%slot", "%7"), {.slots = 6}), kFusedHeads);
}

TEST(FusedHeads, AreAppendedToTheSlotsThatAreAttendedTo) {
  EXPECT_EQ(plan_of(with(kAttention, "(%3, %v, %slot", "(%3, %v, %other_slot")),
            with(kFusedHeads, kAppendedValues, ""));
}

TEST(FusedHeads, AreAppendedToCachesThatNothingReadsBefore) {
  const std::string reads_values =
      "  %7 = attention(%1, %v, %v, %slot, %length) head_map=[0,0] kernel=\"prefill\" scale=0.25 : f32[4,32]\n";
  EXPECT_EQ(plan_of(with(kAttention, "  %6 =", reads_values + "  %6 =")), with(kFusedHeads, kAppendedValues, ""));
}

TEST(FusedHeads, AreNotAppendedAfterTheirPositionHasMoved) {
  EXPECT_EQ(plan_of(with(kAttention, "  %6 =", "  advance(%length, %slot)\n  %6 =")), "");
}

TEST(FusedHeads, AreReadByNothingElseBefore) {
  EXPECT_EQ(plan_of(with(kAttention, "  %6 =", "  %7 = scale(%4) factor=2.0 : f32[4,32]\n  %6 =")),
            with(kFusedHeads, "%4 rope → query heads of %6 attention\n", ""));
  EXPECT_EQ(plan_of(kAttention + std::string("  %7 = scale(%4) factor=2.0 : f32[4,32]\n")), kFusedHeads);
}

TEST(FusedHeads, AreAllOfTheRows) {  // not a part of each head, as if there were more of them
  EXPECT_EQ(plan_of(with(kAttention, "%turns) heads=1", "%turns) heads=2")),
            with(kFusedHeads, "%5 rope → cache heads of %6 attention\n", ""));
  EXPECT_EQ(plan_of(with(kAttention, "%turns) heads=2", "%turns) heads=4")),
            with(kFusedHeads, "%4 rope → query heads of %6 attention\n", ""));
}

// ---- roots ----------------------------------------------------------------------------------------------------------

/// Two sums over two ranks.
constexpr const char* kSums = R"(
  %0 = linear_blocks(%x, %w) block=32 blocks=[0,1,2] : f32[1,4,32]
  %1 = all_reduce(%0) blocks=[0,1,2] dtype="f32" : f32[4,32]
  %2 = linear_blocks(%1, %w) block=32 blocks=[0,1,2] : f32[1,4,32]
  %3 = all_reduce(%2) blocks=[0,1,2] dtype="f32" : f32[4,32]
)";
constexpr const char* kRootsInPlace = "%3 all_reduce → roots in place of %2 linear_blocks\n";

TEST(RootsInPlace, AreThoseOfAProductThatBeginsAfterACollective) {
  EXPECT_EQ(plan_of(kSums, {.ranks = 2}), kRootsInPlace);
}

TEST(RootsInPlace, MayBeFarFromTheirSum) {
  const char* const between = "  %4 = lookup(%slot, %w) offset=0 : f32[4,32]\n  %3 =";
  EXPECT_EQ(plan_of(with(kSums, "  %3 =", between), {.ranks = 2}), kRootsInPlace);
}

TEST(RootsInPlace, AreReadByNothingElse) {
  EXPECT_EQ(plan_of(kSums + std::string("  output roots = %2\n"), {.ranks = 2}), "");
}

TEST(RootsInPlace, AreSummedByTheNextCollective) {
  const char* const between = "  %4 = all_gather(%x) parts=[32,32] : f32[4,64]\n  %3 =";
  EXPECT_EQ(plan_of(with(kSums, "  %3 =", between), {.ranks = 2}), "");
}

}  // namespace
}  // namespace lockstep::cpu
