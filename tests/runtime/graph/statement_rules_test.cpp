// Rules that a text can break.
#include <gtest/gtest.h>

#include <string>

#include "tests/runtime/graph/refused_text.h"

namespace lockstep::graph {
namespace {

/// One statement in rank 1's graph of two ranks, and the verifier's message.
struct BadStatement {
  std::string statement;
  std::string expected;
};

/// Values that the statements use; rank 1 of 2, four rows, three slots.
std::string with_values(const std::string& statement) {
  return "graph g tp=2 rank=1 rows=4 slots=3 {\n"
         "  %x = input : f32[4,6]\n"
         "  %b = input : bf16[4,6]\n"
         "  %ids = input : i32[4]\n"
         "  %rows = input : i32[3]\n"
         "  %w = weight w[0:5,0:6] : f32[5,6]\n"
         "  %w4 = weight w4[0:5,0:6] : f32[5,6] as q4g6\n"
         "  %w8 = weight w8[0:5,0:6] : f32[5,6] as q8g2048\n"
         "  %norm = weight norm[0:6] : f32[6]\n"
         "  %bias = weight bias[0:5] : f32[5]\n"
         "  %f = constant [1,2] : f32[2]\n"
         "  %cache = state : f32[3,2,8,3]\n"
         "  %two = state : f32[2,2,8,3]\n"
         "  %codes = state : i8[3,2,8,7]\n"
         "  %e4m3 = state : u8[3,2,8,7]\n"
         "  %seen = state : u8[3,7]\n"
         "  %length = state : i32[3]\n"
         "  %partial = input : f32[1,4,6]\n" +
         statement + "\n}\n";
}

class StatementRules : public ::testing::TestWithParam<BadStatement> {};

TEST_P(StatementRules, AreNamedWhenBroken) { expect_refused(with_values(GetParam().statement), GetParam().expected); }

INSTANTIATE_TEST_SUITE_P(
    Operands, StatementRules,
    ::testing::Values(
        BadStatement{"%0 = linear(%x) : f32[4,5]", "node 0 (linear): found 1 operands, expected 2 to 3"},
        BadStatement{"%0 = add(%x, %x, %x) : f32[4,6]", "found 3 operands, expected 2"},
        BadStatement{"%0 = linear(%b, %w) : f32[4,5]",
                     "operand 1 (weight): found \"w\" of type f32[5,6], expected dt[N,K] with K=6, dt=bf16"},
        BadStatement{"%0 = linear(%x, %w, %norm) : f32[4,5]", "operand 2 (bias): found \"norm\""},
        BadStatement{"%0 = embedding(%x, %w) first_row=0 : f32[1,4,6]", "operand 0 (ids)"},
        BadStatement{"%0 = embedding(%ids, %seen) first_row=0 : f32[1,4,7]", "operand 1 (table): found \"seen\""},
        BadStatement{"%0 = add(%x, %bias) : f32[4,6]", "expected dt[R,N]|dt[N] with N=6, R=4, dt=f32"},
        BadStatement{"%0 = rms_norm(%x, %w) epsilon=1e-5 : f32[4,6]", "operand 1 (weight)"},
        BadStatement{"%0 = rope(%x, %rows, %f) heads=1 scale=1 : f32[4,6]", "operand 1 (position)"},
        BadStatement{"%0 = select_rows(%x, %ids) : f32[3,6]", "operand 1 (rows): found \"ids\" of type i32[4]"},
        BadStatement{"kv_append(%x, %two, %ids, %ids)", "operand 1 (cache): found \"two\""},
        BadStatement{"kv_append(%norm, %cache, %ids, %ids)", "operand 0 (rows)"},
        BadStatement{"%n = input : f32[4,5]\n kv_append(%n, %cache, %ids, %ids)", "found 5 columns, expected 6"},
        BadStatement{"kv_append(%b, %cache, %ids, %ids)",
                     "operand 1 (a cache): found \"cache\" of type f32[3,2,8,3], expected elements bf16, or i8 or u8"},
        BadStatement{"%n = input : f32[4,8]\n kv_append(%n, %codes, %ids, %ids)", "found 8 columns, expected 6"},
        BadStatement{"%none = state : i8[3,2,8,4]\n kv_append(%x, %none, %ids, %ids)",
                     "expected rows of 1 to 1024 codes and 4 bytes of their scale"},
        BadStatement{"%long = state : u8[3,2,8,1029]\n kv_append(%x, %long, %ids, %ids)", "expected rows of 1 to 1024"},
        BadStatement{"advance(%rows, %ids)", "operand 0 (length): found \"rows\", expected a state"},
        BadStatement{"mark_seen(%seen, %ids, %rows)", "operand 2 (slot)"},
        BadStatement{"%0 = all_reduce(%x) blocks=[0,1,2] dtype=\"f32\" : f32[4,6]", "operand 0 (partial)"},
        BadStatement{"%0 = running_slots(%ids, %rows) : i32[3]", "operand 0 (active)"},
        BadStatement{"%o = input : f32[4,5]\n %0 = gated_activation(%o) activation=\"silu\" : f32[4,2]",
                     "found 5 columns, expected gate and up side by side"},
        BadStatement{"%0 = gated_activation(%x, %b) activation=\"silu\" : f32[4,6]", "operand 1 (up)"}));

INSTANTIATE_TEST_SUITE_P(
    Attributes, StatementRules,
    ::testing::Values(
        BadStatement{"%0 = rms_norm(%x, %norm) : f32[4,6]", "attribute epsilon: found none, expected a finite number"},
        BadStatement{"%0 = rms_norm(%x, %norm) epsilon=-1 : f32[4,6]", "attribute epsilon: found -1"},
        BadStatement{"%0 = rms_norm(%x, %norm) epsilon=inf : f32[4,6]", "attribute epsilon"},
        BadStatement{"%0 = embedding(%ids, %w) first_row=-1 : f32[1,4,6]", "attribute first_row: found -1"},
        BadStatement{"%0 = linear(%x, %w) dtype=\"i32\" : i32[4,5]", "attribute dtype: found i32, expected f32, bf16"},
        BadStatement{"%0 = rope(%x, %ids, %f) heads=4 scale=1 : f32[4,6]", "attribute heads: found 4"},
        BadStatement{"%0 = rope(%x, %ids, %f) heads=0 scale=1 : f32[4,6]", "attribute heads: found 0"},
        BadStatement{"%0 = rope(%x, %ids, %f) heads=3 scale=1 : f32[4,6]", "expected at most 1, half of head_dim"},
        BadStatement{"%0 = columns(%x) begin=2 end=7 : f32[4,5]", "found 2:7, expected a range of 0:6"},
        BadStatement{"%0 = columns(%x) begin=3 end=2 : f32[4,1]", "found 3:2"},
        BadStatement{"%0 = gated_activation(%x, %x) activation=\"tanh\" : f32[4,6]",
                     "attribute activation: found tanh, expected silu, sigmoid, gelu, gelu_tanh, relu, squared_relu"},
        BadStatement{"%0 = all_gather(%x) parts=[6] : f32[4,6]", "attribute parts: found 1 parts, expected 2"},
        BadStatement{"%0 = all_gather(%x) parts=[6,5] : f32[4,11]", "found 5 for rank 1, expected 6"},
        BadStatement{"%0 = all_gather(%x) parts=[-1,6] : f32[4,5]", "attribute parts: found -1"},
        BadStatement{"%0 = all_gather(%x) parts=[9223372036854775807,6] : f32[4,5]", "attribute parts"},
        BadStatement{"%0 = all_reduce(%partial) blocks=[0,1] dtype=\"f32\" : f32[4,6]", "found 2 bounds, expected 3"},
        BadStatement{"%0 = all_reduce(%partial) blocks=[0,2,1] dtype=\"f32\" : f32[4,6]", "attribute blocks"},
        BadStatement{"%0 = all_reduce(%partial) blocks=[1,2,3] dtype=\"f32\" : f32[4,6]", "attribute blocks"},
        BadStatement{"%0 = all_reduce(%partial) blocks=[0,0,0] dtype=\"f32\" : f32[4,6]", "attribute blocks"},
        BadStatement{"%0 = all_reduce(%partial) blocks=[0,1,9223372036854775807] dtype=\"f32\" : f32[4,6]",
                     "attribute blocks"},
        BadStatement{"%0 = all_reduce(%partial) blocks=[0,1,4] dtype=\"f32\" : f32[4,6]",
                     "found 1 roots, expected 2 (rank 1 holds leaves 1:4 of 4)"},
        BadStatement{"%0 = linear_blocks(%x, %w) blocks=[0,1,3] block=2 : f32[2,4,5]",
                     "found 6 columns, expected 3 to 4 (leaves 1:3 of 2 columns each)"},
        BadStatement{"%0 = linear_blocks(%x, %w) blocks=[0,1,3] block=6 : f32[2,4,5]", "expected 7 to 12"},
        BadStatement{"%0 = linear(%x, %w) activations=\"int8\" : f32[4,5]",
                     "attribute activations: found int8, expected a weight in codes beside it"},
        BadStatement{"%0 = linear(%x, %w4) activations=\"int4\" : f32[4,5]", "attribute activations: found int4"},
        BadStatement{"%0 = linear(%x, %w4) activations=\"int8\" : f32[4,5]",
                     "found int8 in groups of 6, expected groups of a multiple of 4 up to 1024"},
        BadStatement{"%0 = linear_blocks(%x, %w8) activations=\"int8\" blocks=[0,1,3] block=3 : f32[2,4,5]",
                     "found int8 in groups of 2048"},
        BadStatement{"%0 = head_linear(%x, %w4) heads=1 : f32[4,5]",
                     "operand 1 (weight): found \"w4\" in q4g6, expected elements"},
        BadStatement{"%v = weight v[0:5] : f32[5] as q4g2", "expected it on weights that are matrices"},
        BadStatement{"%v = weight v[0:5,0:2] : i32[5,2] as q4g2", "expected it on weights that are matrices"},
        BadStatement{"%0 = linear_blocks(%x, %w) blocks=[0,1,3] block=0 : f32[2,4,5]", "attribute block: found 0"}));

INSTANTIATE_TEST_SUITE_P(
    Attention, StatementRules,
    ::testing::Values(
        BadStatement{"%0 = attention(%x, %cache, %two, %ids, %ids) head_map=[0,1] scale=1 kernel=\"decode\" : f32[4,6]",
                     "operand 2 (v)"},
        BadStatement{
            "%0 = attention(%x, %codes, %e4m3, %ids, %ids) head_map=[0,1] scale=1 kernel=\"decode\" : f32[4,6]",
            "operand 2 (v)"},
        BadStatement{"%0 = attention(%x, %codes, %codes, %ids, %ids) head_map=[0] scale=1 kernel=\"decode\" : f32[4,6]",
                     "attribute head_map: found 1 heads, expected 6 columns of q / head_dim 3"},
        BadStatement{"%0 = attention(%x, %cache, %cache, %ids, %ids) head_map=[0] scale=1 kernel=\"decode\" : f32[4,6]",
                     "attribute head_map: found 1 heads, expected 6 columns of q / head_dim 3"},
        BadStatement{"%0 = attention(%x, %cache, %cache, %ids, %ids) head_map=[0,2] scale=1 kernel=\"decode\" : "
                     "f32[4,6]",
                     "attribute head_map: found 2, expected cache heads 0 to 1"},
        BadStatement{"%0 = attention(%x, %cache, %cache, %ids, %ids) head_map=[0,1] scale=1 kernel=\"fast\" : f32[4,6]",
                     "attribute kernel: found fast, expected prefill, decode"}));

/// `rest` behind the required operands of an attention that is otherwise sound.
std::string attention(const std::string& more_operands, const std::string& attributes) {
  return "%per_head = weight s[0:2] : f32[2]\n %pinned_q = input : f32[4,6]\n"
         " %0 = attention(%x, %cache, %cache, %ids, %ids" +
         more_operands + ") head_map=[0,1] scale=1 kernel=\"decode\" " + attributes + " : f32[4,6]";
}

INSTANTIATE_TEST_SUITE_P(
    Windows, StatementRules,
    ::testing::Values(
        BadStatement{"kv_append(%x, %cache, %ids, %ids) window=0", "attribute window: found 0, expected 1 or more"},
        BadStatement{attention("", "chunked=1"), "attribute chunked: found 1, expected 1, with a window and without"},
        BadStatement{attention("", "window=4 chunked=2"), "attribute chunked: found 2, expected 1"},
        BadStatement{"kv_append(%x, %cache, %ids, %ids) pinned=2", "attribute pinned: found 2, expected a window"},
        BadStatement{"kv_append(%x, %cache, %ids, %ids) window=4 pinned=8",
                     "attribute pinned: found 8, expected 0 to the cache's rows"},
        BadStatement{"kv_append(%x, %cache, %ids, %ids) window=4 pinned=-1", "attribute pinned: found -1"},
        BadStatement{attention("", "value_columns=4"), "attribute value_columns: found 4, expected 1 to 3"},
        BadStatement{attention("", "value_columns=0"), "attribute value_columns: found 0"},
        BadStatement{"%v = state : f32[3,2,8,3]\n %0 = attention(%x, %cache, %v, %ids, %ids) head_map=[0,1] scale=1 "
                     "kernel=\"decode\" value_columns=2 : f32[4,4]",
                     "operand 2 (v): found \"v\", expected the cache of the keys"},
        BadStatement{attention("", "window=-3"), "attribute window: found -3"},
        BadStatement{attention("", "window=4 pinned=1"), "found 5 operands, expected 6 (attributes per_head, pinned)"},
        BadStatement{attention(", %per_head", ""), "found 6 operands, expected 5 (attributes per_head, pinned)"},
        BadStatement{attention(", %per_head", "per_head=\"sinks\" window=4 pinned=1"), "found 6 operands, expected 7"},
        BadStatement{attention(", %per_head", "per_head=\"biases\""),
                     "attribute per_head: found biases, expected sinks, slopes"},
        BadStatement{attention(", %f", "per_head=\"sinks\" soft_cap=-1"), "attribute soft_cap: found -1"},
        BadStatement{attention(", %norm", "per_head=\"slopes\""),
                     "operand 5 (per_head): found f32[6], expected one number for each of 2 query heads"},
        BadStatement{"%i = input : i32[2]\n " + attention(", %i", "per_head=\"slopes\""),
                     "operand 5 (per_head): found i32[2], expected one number"},
        BadStatement{attention(", %pinned_q", "per_head=\"slopes\""), "operand 5 (per_head)"},
        BadStatement{attention(", %b, %b", "per_head=\"sinks\" window=4 pinned=1"), "operand 5 (per_head)"},
        BadStatement{attention(", %per_head, %b", "per_head=\"sinks\" window=4 pinned=1"), "operand 6 (pinned_q)"},
        BadStatement{attention("", "bound=0"), "attribute bound: found 0, expected 1 or more"}));

INSTANTIATE_TEST_SUITE_P(
    Rows, StatementRules,
    ::testing::Values(
        BadStatement{"%0 = lookup(%ids, %w) offset=-1 : f32[4,6]", "attribute offset: found -1, expected 0 or more"},
        BadStatement{"%0 = lookup(%ids, %w) offset=0 otherwise=5 : f32[4,6]",
                     "attribute otherwise: found 5, expected a row of 5"},
        BadStatement{"%0 = lookup(%ids, %cache) offset=0 : f32[4,3]", "operand 1 (table): found \"cache\""},
        BadStatement{"%0 = head_linear(%x, %w) heads=2 : f32[4,5]",
                     "attribute heads: found 2, expected a divisor of the 5"},
        BadStatement{"%0 = head_linear(%x, %w) heads=5 : f32[4,5]",
                     "found 6 columns, expected those of weight (6) for"},
        BadStatement{"%0 = join_heads(%x, %x) heads=4 : f32[4,12]",
                     "attribute heads: found 4, expected a divisor of the 6"},
        BadStatement{"%o = input : f32[4,2147483646]\n %0 = join_heads(%x, %o) heads=2 : f32[4,6]",
                     "found 6 and 2147483646 columns"},
        BadStatement{"%0 = join_partials(%partial, %x) : f32[1,4,12]", "operand 1 (y): found \"x\""},
        BadStatement{"%o = input : f32[2,4,6]\n %0 = join_partials(%partial, %o) : f32[1,4,12]", "operand 1 (y)"},
        BadStatement{"%o = input : f32[1,4,2147483647]\n %0 = join_partials(%partial, %o) : f32[1,4,6]",
                     "found 6 and 2147483647 columns, expected at most 2147483647 together"},
        BadStatement{"%0 = scale(%x) : f32[4,6]", "attribute factor: found none"},
        BadStatement{"%0 = scale(%ids) factor=2.0 : i32[4]", "operand 0 (x)"},
        BadStatement{"%0 = fake_quantise(%x) codes=\"int4\" : f32[4,6]", "attribute codes: found int4"},
        BadStatement{"%0 = fake_quantise(%x) codes=\"int8\" group=0 : f32[4,6]",
                     "attribute group: found 0, expected above 0"},
        BadStatement{"%0 = match_magnitude(%x, %x) least=0.0 : f32[4,6]", "attribute least: found 0, expected above 0"},
        BadStatement{"%0 = match_magnitude(%x, %b) least=1.0 : f32[4,6]", "operand 1 (like)"},
        BadStatement{"%0 = weighted_sum(%x, %x, %x) first=5 : f32[4,6]",
                     "attribute first: found 5, expected 2 of 6 factors"},
        BadStatement{"%0 = weighted_sum(%x, %x, %x) first=-1 : f32[4,6]", "attribute first: found -1"},
        BadStatement{"%0 = soft_cap(%x) cap=0.0 : f32[4,6]", "attribute cap: found 0, expected above 0"},
        BadStatement{"%0 = rms_norm(%x, %norm) epsilon=1e-5 heads=2 : f32[4,6]",
                     "attribute heads: found 2, expected columns of x (6) / elements of weight (6)"},
        BadStatement{"%0 = rms_norm(%x, %norm) epsilon=1e-5 heads=-1 : f32[4,6]", "attribute heads: found -1"},
        BadStatement{"%0 = layer_norm(%x, %norm, %norm) epsilon=-1 : f32[4,6]", "attribute epsilon: found -1"},
        BadStatement{"%0 = layer_norm(%x, %norm, %bias) epsilon=1e-5 : f32[4,6]", "operand 2 (bias)"},
        BadStatement{"%0 = rope(%x, %ids, %f) heads=1 scale=1 pairs=\"thirds\" : f32[4,6]",
                     "attribute pairs: found thirds, expected halves, neighbours"},
        BadStatement{"%0 = rope(%x, %ids, %f, %f) heads=1 scale=1 : f32[4,6]",
                     "found 4 operands, expected 3, or 6 with long_frequencies, is_long and slot"},
        BadStatement{"%0 = rope(%x, %ids, %f, %norm, %rows, %ids) heads=1 scale=1 : f32[4,6]",
                     "operand 3 (long_frequencies)"},
        BadStatement{"%0 = first_rows(%x) : i32[4]", "operand 0 (x)"},
        BadStatement{"%0 = own_slots(%ids) first_slot=2 slots=2 : i32[4]",
                     "attributes first_slot and slots: found 2 and 2, expected a range of the 3 slots"},
        BadStatement{"%0 = own_slots(%x) first_slot=0 slots=1 : i32[4]", "operand 0 (slot)"},
        BadStatement{"%0 = rows_of_owners(%x, %ids) slots=2 parts=[3,3] : f32[4,3]",
                     "attribute slots: found 2, expected 3 slots / 2 ranks"},
        BadStatement{"%0 = clamp_positions(%ids) most=-1 : i32[4]", "attribute most: found -1, expected 0 or more"},
        BadStatement{"%0 = clamp_positions(%x) most=1 : i32[4]", "operand 0 (position)"},
        BadStatement{
            "%0 = activation(%x) activation=\"swish\" : f32[4,6]",
            "attribute activation: found swish, expected silu, sigmoid, gelu, gelu_tanh, relu, squared_relu"}));

INSTANTIATE_TEST_SUITE_P(
    Drafts, StatementRules,
    ::testing::Values(
        BadStatement{"%numbers = state : f32[3,7]\n %integers = state : i32[3,5]\n %seed = state : i32[3,2]\n"
                     "%eos = state : i32[3,2]\n %logits = input : f32[4,7]\n"
                     "%0 = accept(%logits, %ids, %ids, %length, %length, %length, %length, %seen, %numbers, %integers, "
                     "%seed, %eos) : i32[4]",
                     "operand 0 (logits): found 4 rows, expected a multiple of the 3 slots"},
        BadStatement{"%numbers = state : f32[3,7]\n %integers = input : i32[3,5]\n %logits = input : f32[3,8]\n"
                     "%0 = sample(%logits, %rows, %length, %length, %length, %seen, %numbers, %integers, %integers, "
                     "%integers) : i32[3]",
                     "operand 5 (seen)"},
        BadStatement{"%logits = input : f32[4,7]\n %0 = score(%logits, %ids) top=8 : f32[4,17]",
                     "attribute top: found 8, expected 0 to 7 ids"}));

// ---- experts ------------------------------------------------------------------------------------------------------

/// Rank 1 of 2: four rows of six columns, five experts, a gate and an up of `gate_rows` rows and a down of `down`.
std::string experts(int gate_rows, const std::string& down, const std::string& attributes) {
  const std::string gate = "g[0:" + std::to_string(gate_rows) + ",0:6] : f32[" + std::to_string(gate_rows) + ",6]\n";
  return "%logits = input : f32[4,5]\n %g = weight " + gate + " %u = weight " + gate + " %d = weight " + down +
         "\n %0 = moe_experts(%x, %logits, %g, %u, %d) " + attributes + " : f32[1,4,6]";
}
/// The routes of six experts, two of which are chosen.
std::string route(const std::string& attributes) { return "%0 = moe_route(%x) chosen=2 " + attributes + " : f32[4,6]"; }
const std::string kDown = "d[0:30,0:4] : f32[30,4]";  // five experts of four columns
const std::string kAll = "first_expert=0 experts=5 activation=\"silu\" ";
const std::string kColumns = "leaf=\"columns\" blocks=[0,2,4] block=2 ";

INSTANTIATE_TEST_SUITE_P(
    Experts, StatementRules,
    ::testing::Values(
        BadStatement{"%logits = input : f32[4,5]\n %0 = moe_route(%logits) chosen=0 : f32[4,5]",
                     "attribute chosen: found 0, expected 1 to 5 experts"},
        BadStatement{"%logits = input : f32[4,5]\n %0 = moe_route(%logits) chosen=6 : f32[4,5]",
                     "attribute chosen: found 6"},
        BadStatement{"%logits = input : f32[4,5]\n %0 = moe_route(%logits) chosen=2 over=\"none\" : f32[4,5]",
                     "attribute over: found none, expected chosen, all"},
        BadStatement{"%0 = moe_route(%b) chosen=1 : f32[4,6]", "operand 0 (logits)"},
        BadStatement{route("scores=\"tanh\""), "attribute scores: found tanh, expected softmax, sigmoid"},
        BadStatement{route("least_sum=-1"), "attribute least_sum: found -1"},
        BadStatement{route("groups=4 kept_groups=1 group_score=\"best\""),
                     "attribute groups: found 4, expected a divisor of the 6 experts"},
        BadStatement{route("groups=3"), "attribute groups: found 3, expected the attributes kept_groups"},
        BadStatement{route("groups=3 kept_groups=4 group_score=\"best\""),
                     "attribute kept_groups: found 4, expected 1 to 3 groups that hold the 2 chosen"},
        BadStatement{route("groups=6 kept_groups=1 group_score=\"best\""), "attribute kept_groups: found 1"},
        BadStatement{route("groups=6 kept_groups=2 group_score=\"best_two\""),
                     "attribute group_score: found best_two, expected best, in groups of one expert"},
        BadStatement{"%0 = scale_by_position(%x, %ids, %f) every=0 : f32[4,6]", "attribute every: found 0"},
        BadStatement{"%0 = scale_rows(%x, %x) : f32[4,6]", "operand 1 (factors)"},
        BadStatement{experts(20, kDown, "first_expert=0 experts=5 activation=\"relu\" " + kColumns),
                     "attribute activation: found relu, expected silu, gelu, gelu_tanh, clamped_swiglu"},
        BadStatement{experts(20, kDown, kAll + "leaf=\"rows\" blocks=[0,2,4] block=2"),
                     "attribute leaf: found rows, expected columns, expert"},
        BadStatement{experts(20, kDown, "first_expert=1 experts=5 activation=\"silu\" " + kColumns),
                     "attributes first_expert and experts: found 1 and 5, expected a range of 0:5"},
        BadStatement{experts(20, kDown, "first_expert=9223372036854775807 experts=5 activation=\"silu\" " + kColumns),
                     "found 9223372036854775807 and 5, expected a range of 0:5"},
        BadStatement{experts(20, kDown, "first_expert=0 experts=5 activation=\"clamped_swiglu\" " + kColumns),
                     "attribute activation: found clamped_swiglu, expected the attributes limit and alpha beside it"},
        BadStatement{
            experts(20, kDown, kAll + kColumns) + "\n%1 = all_reduce(%0) blocks=[0,2,3] dtype=\"f32\" : f32[4,6]",
            "found bounds unlike those of the moe_experts below"},
        BadStatement{experts(19, kDown, kAll + kColumns),
                     "found 19 gate and 30 down rows for 5 experts of 4 columns, expected 20"},
        BadStatement{experts(20, "d[0:35,0:4] : f32[35,4]", kAll + kColumns),
                     "operand 4 (down): found 35 rows, expected 6 for each of 5 experts"},
        BadStatement{experts(20, kDown, kAll + "leaf=\"columns\" blocks=[0,2] block=2"), "attribute blocks"},
        BadStatement{experts(20, kDown, kAll + "leaf=\"columns\" blocks=[0,2,4] block=0"),
                     "attribute block: found 0, expected 1 or more columns"},
        BadStatement{experts(20, kDown, kAll + "leaf=\"columns\" blocks=[0,2,5] block=2"),
                     "found leaves 2:5 of 2 columns each for 5 experts of 4 columns, expected them to match"},
        BadStatement{experts(20, kDown, kAll + "leaf=\"columns\" blocks=[0,3,4] block=2"), "found leaves 3:4"},
        BadStatement{experts(20, kDown, kAll + "leaf=\"expert\" blocks=[0,2,5] block=1"), "found leaves 2:5"},
        BadStatement{"%logits = input : f32[4,5]\n %g = weight g[0:20,0:6] : f32[20,6]\n"
                     " %d = weight d[0:30,0:4] : f32[30,4]\n %gb = weight gb[0:20] : f32[20]\n"
                     " %0 = moe_experts(%x, %logits, %g, %g, %d, %gb) " +
                         kAll + kColumns + " : f32[1,4,6]",
                     "found 6 operands, expected 5, or 8 with the three biases"}));

INSTANTIATE_TEST_SUITE_P(
    Results, StatementRules,
    ::testing::Values(
        BadStatement{"%0 = linear(%x, %w) : f32[4,6]", "found result \"0\" of type f32[4,6], expected f32[4,5]"},
        BadStatement{"%0 = linear(%x, %w) dtype=\"bf16\" : f32[4,5]", "expected bf16[4,5]"},
        BadStatement{"%0 = all_reduce(%partial) blocks=[0,1,2] dtype=\"bf16\" : f32[4,6]", "expected bf16[4,6]"},
        BadStatement{"%0 = linear_blocks(%x, %w) blocks=[0,1,4] block=2 : f32[3,4,5]", "expected f32[2,4,5]"},
        BadStatement{"%0 = linear_blocks(%x, %w) blocks=[0,1,4] block=2 : f32[2,4,5]\n"
                     "%1 = all_reduce(%0) blocks=[0,2,5] dtype=\"f32\" : f32[4,5]",
                     "found bounds unlike those of the linear_blocks below"},
        BadStatement{"%0 = linear_blocks(%x, %w) blocks=[0,2,5] block=2 : f32[2,4,5]\n"
                     "%1 = linear_blocks(%x, %w) blocks=[0,3,6] block=2 : f32[2,4,5]\n"
                     "%2 = join_partials(%0, %1) : f32[2,4,10]",
                     "node 2 (join_partials): attribute blocks: found bounds unlike those of the linear_blocks"},
        BadStatement{"%0 = linear_blocks(%x, %w) blocks=[0,2,5] block=2 : f32[2,4,5]\n"
                     "%1 = linear_blocks(%x, %w) blocks=[0,2,5] block=2 : f32[2,4,5]\n"
                     "%2 = join_partials(%0, %1) : f32[2,4,10]\n"
                     "%3 = all_reduce(%2) blocks=[0,3,6] dtype=\"f32\" : f32[4,10]",
                     "node 3 (all_reduce): attribute blocks: found bounds unlike those of the linear_blocks"}));

INSTANTIATE_TEST_SUITE_P(
    Values, StatementRules,
    ::testing::Values(
        BadStatement{"%v = weight a[0:2,0:6] : f32[5,6]", "value \"v\": slices: found 2 rows together, expected 5"},
        BadStatement{"%v = weight concat(a[0:3,0:6], b[0:3,0:6]) : f32[5,6]", "found 6 rows together, expected 5"},
        BadStatement{"%v = weight a[0:5,1:6] : f32[5,6]", "found 1:6 in dimension 1, expected 6 indices"},
        BadStatement{"%v = weight a[3:1,0:6] : f32[5,6]", "found 3:1 in dimension 0"},
        BadStatement{"%v = weight a[-5:0,0:6] : f32[5,6]", "found -5:0 in dimension 0"},
        BadStatement{"%v = weight a[0:5] : f32[5,6]", "found 1 ranges, expected one for each of 2 dimensions"},
        BadStatement{"%v = weight a[] : f32[]", "found 0 ranges"},
        BadStatement{"%v = weight concat() : f32[5,6]", "found a weight without slices"},
        BadStatement{"%v = constant [1,2] : f32[3]", "found 2 elements for type f32[3], expected f32[2]"},
        BadStatement{"%v = constant [1,2] : i32[2]", "expected f32[2]"},
        BadStatement{"%v = input : f32[-1]", "found type f32[-1], expected dimensions"},
        BadStatement{"%v = input : f32[2147483648]", "expected dimensions"},
        BadStatement{"%v = input : f32[2147483647,2147483647]", "bytes that fit 63 bits"},
        BadStatement{"%v = input : f32[0,2147483647,2147483647]", "bytes that fit 63 bits"},
        BadStatement{"%7 = input : f32[1]", "found a name of digits"},
        BadStatement{"%\"\" = input : f32[1]", "found an empty name"},
        BadStatement{"output a = %x\n output a = %x", "output \"a\": found the name empty or twice"}));

}  // namespace
}  // namespace lockstep::graph
