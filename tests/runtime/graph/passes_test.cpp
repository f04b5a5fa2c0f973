#include "runtime/graph/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/text.h"
#include "runtime/graph/verifier.h"
#include "tests/runtime/graph/tiny_decoder.h"

namespace lockstep::graph {
namespace {

using ::testing::HasSubstr;

std::string in_graph(const std::string& body) { return "graph g tp=1 rank=0 rows=2 slots=2 {\n" + body + "}\n"; }

std::string after(Result<Graph> (*pass)(const Graph&), const std::string& body) {
  const Graph fused = pass(parse(in_graph(body)).value()).value();
  EXPECT_TRUE(verify(fused).has_value());
  return to_text(fused);
}

TEST(FuseQkv, ReadsQueryKeyAndValueWithOneProduct) {
  EXPECT_EQ(after(fuse_qkv, R"(  %x = input : f32[2,4]
  %slot = input : i32[2]
  %f = constant [1] : f32[1]
  %l.attn.q_proj.weight = weight q[0:8,0:4] : f32[8,4]
  %0 = linear(%x, %l.attn.q_proj.weight) : f32[2,8]
  %l.attn.k_proj.weight = weight k[0:2,0:4] : f32[2,4]
  %1 = linear(%x, %l.attn.k_proj.weight) : f32[2,2]
  %l.attn.v_proj.weight = weight concat(v[4:5,0:4], v[8:9,0:4]) : f32[2,4]
  %2 = linear(%x, %l.attn.v_proj.weight) : f32[2,2]
  %k = state : f32[2,1,9,2]
  %v = state : f32[2,1,9,2]
  %3 = rope(%1, %slot, %f) heads=1 scale=1.0 : f32[2,2]
  kv_append(%3, %k, %slot, %slot)
  kv_append(%2, %v, %slot, %slot)
  %4 = rope(%0, %slot, %f) heads=4 scale=1.0 : f32[2,8]
  %5 = attention(%4, %k, %v, %slot, %slot) head_map=[0,0,0,0] kernel="decode" scale=0.5 : f32[2,8]
  output mixed = %5
)"),
            in_graph(R"(  %x = input : f32[2,4]
  %slot = input : i32[2]
  %f = constant [1] : f32[1]
  %l.attn.qkv_proj.weight = weight concat(q[0:8,0:4], k[0:2,0:4], v[4:5,0:4], v[8:9,0:4]) : f32[12,4]
  %0 = linear(%x, %l.attn.qkv_proj.weight) : f32[2,12]
  %1 = columns(%0) begin=0 end=8 : f32[2,8]
  %2 = columns(%0) begin=8 end=10 : f32[2,2]
  %3 = columns(%0) begin=10 end=12 : f32[2,2]
  %k = state : f32[2,1,9,2]
  %v = state : f32[2,1,9,2]
  %4 = rope(%2, %slot, %f) heads=1 scale=1.0 : f32[2,2]
  kv_append(%4, %k, %slot, %slot)
  kv_append(%3, %v, %slot, %slot)
  %5 = rope(%1, %slot, %f) heads=4 scale=1.0 : f32[2,8]
  %6 = attention(%5, %k, %v, %slot, %slot) head_map=[0,0,0,0] kernel="decode" scale=0.5 : f32[2,8]
  output mixed = %6
)"));
}

/// Two linears below rope; `second` is the statement of the second one and may spoil the fusion.
std::string two_linears(const std::string& second) {
  return R"(  %x = input : f32[2,4]
  %y = input : f32[2,4]
  %slot = input : i32[2]
  %f = constant [1] : f32[1]
  %q.weight = weight q[0:2,0:4] : f32[2,4]
  %k.weight = weight k[0:2,0:4] : f32[2,4]
  %q.bias = weight qb[0:2] : f32[2]
  %k.bias = weight kb[0:2] : f32[2]
  %0 = linear(%x, %q.weight, %q.bias) : f32[2,2]
  )" + second +
         R"(
  %2 = rope(%0, %slot, %f) heads=1 scale=1.0 : f32[2,2]
  %3 = rope(%1, %slot, %f) heads=1 scale=1.0 : f32[2,2]
  output q = %2
  output k = %3
)";
}

TEST(FuseQkv, JoinsBiasesToo) {
  const std::string text = after(fuse_qkv, two_linears("%1 = linear(%x, %k.weight, %k.bias) : f32[2,2]"));
  EXPECT_THAT(text, HasSubstr("%qk.weight = weight concat(q[0:2,0:4], k[0:2,0:4]) : f32[4,4]\n"));
  EXPECT_THAT(text, HasSubstr("%qk.bias = weight concat(qb[0:2], kb[0:2]) : f32[4]\n"));
  EXPECT_THAT(text, HasSubstr("%0 = linear(%x, %qk.weight, %qk.bias) : f32[2,4]\n"));
}

TEST(FuseQkv, LooksThroughNormsBiasesFactorsAndSlicesOnTheWayToAttention) {
  const std::string text = after(fuse_qkv, R"(  %x = input : f32[2,4]
  %slot = input : i32[2]
  %f = constant [1] : f32[1]
  %norm = weight n[0:2] : f32[2]
  %bias = weight b[0:2] : f32[2]
  %q = weight q[0:8,0:4] : f32[8,4]
  %0 = linear(%x, %q) : f32[2,8]
  %1 = rms_norm(%0, %norm) epsilon=1e-06 heads=4 : f32[2,8]
  %2 = rope(%1, %slot, %f) heads=4 scale=1.0 : f32[2,8]
  %k = weight k[0:2,0:4] : f32[2,4]
  %3 = linear(%x, %k) : f32[2,2]
  %4 = add(%3, %bias) : f32[2,2]
  %5 = scale(%4) factor=0.5 : f32[2,2]
  %v = weight v[0:4,0:4] : f32[4,4]
  %6 = linear(%x, %v) : f32[2,4]
  %7 = columns(%6) begin=2 end=4 : f32[2,2]
  %keys = state : f32[2,1,9,2]
  %values = state : f32[2,1,9,2]
  kv_append(%5, %keys, %slot, %slot)
  kv_append(%7, %values, %slot, %slot)
  output q = %2
)");
  EXPECT_THAT(text, HasSubstr("%qkv = weight concat(q[0:8,0:4], k[0:2,0:4], v[0:4,0:4]) : f32[14,4]\n"));
  EXPECT_THAT(text, HasSubstr("%0 = linear(%x, %qkv) : f32[2,14]\n"));
}

TEST(FuseQkv, LeavesAProductAloneThatOnlyTheResidualReads) {
  const std::string body = R"(  %x = input : f32[2,4]
  %slot = input : i32[2]
  %f = constant [1] : f32[1]
  %a = weight a[0:4,0:4] : f32[4,4]
  %b = weight b[0:4,0:4] : f32[4,4]
  %0 = linear(%x, %a) : f32[2,4]
  %1 = linear(%x, %b) : f32[2,4]
  %2 = add(%x, %0) : f32[2,4]
  %3 = add(%2, %1) : f32[2,4]
  %4 = rope(%3, %slot, %f) heads=1 scale=1.0 : f32[2,4]
  output y = %4
)";
  EXPECT_EQ(after(fuse_qkv, body), in_graph(body));
}

TEST(FuseQkv, LeavesAloneWhatCannotBeOneProduct) {
  const std::string statements[] = {
      "%1 = linear(%y, %k.weight, %k.bias) : f32[2,2]",                // another operand
      "%1 = linear(%x, %k.weight) : f32[2,2]",                         // one bias only
      "%1 = linear(%x, %q.weight, %k.bias) : f32[2,2]",                // a weight that is read twice
      "%1 = linear(%x, %k.weight, %q.bias) : f32[2,2]",                // a bias that is read twice
      "%1 = linear(%x, %k.weight, %k.bias) dtype=\"f32\" : f32[2,2]",  // results of another type
      "%s = state : f32[2,4]\n  %1 = linear(%s, %k.weight, %k.bias) : f32[2,2]",
  };
  for (const std::string& statement : statements) {
    const std::string text = after(fuse_qkv, two_linears(statement));
    EXPECT_THAT(text, ::testing::Not(HasSubstr("columns"))) << statement;
    EXPECT_THAT(text, HasSubstr("%q.weight = weight q[0:2,0:4] : f32[2,4]\n")) << statement;
  }
}

TEST(FuseQkv, FindsAFreeNameForTheJoinedWeight) {
  std::string body = two_linears("%1 = linear(%x, %k.weight, %k.bias) : f32[2,2]");
  body += "  %qk.weight = input : f32[1]\n";
  EXPECT_THAT(after(fuse_qkv, body), HasSubstr("%qk.weight_ = weight concat("));
}

TEST(FuseGateUp, PacksGateAndUpBelowTheActivation) {
  EXPECT_EQ(after(fuse_gate_up, R"(  %x = input : bf16[2,4]
  %mlp.up_proj.weight = weight u[6:9,0:4] : bf16[3,4]
  %mlp.up_proj.bias = weight ub[6:9] : bf16[3]
  %0 = linear(%x, %mlp.up_proj.weight, %mlp.up_proj.bias) : bf16[2,3]
  %mlp.gate_proj.weight = weight g[6:9,0:4] : bf16[3,4]
  %mlp.gate_proj.bias = weight gb[6:9] : bf16[3]
  %1 = linear(%x, %mlp.gate_proj.weight, %mlp.gate_proj.bias) : bf16[2,3]
  %2 = gated_activation(%1, %0) activation="silu" : bf16[2,3]
  output gated = %2
)"),
            in_graph(R"(  %x = input : bf16[2,4]
  %mlp.gate_up_proj.weight = weight concat(g[6:9,0:4], u[6:9,0:4]) : bf16[6,4]
  %mlp.gate_up_proj.bias = weight concat(gb[6:9], ub[6:9]) : bf16[6]
  %0 = linear(%x, %mlp.gate_up_proj.weight, %mlp.gate_up_proj.bias) : bf16[2,6]
  %1 = gated_activation(%0) activation="silu" : bf16[2,3]
  output gated = %1
)"));
}

TEST(FuseGateUp, LeavesAGateAloneThatIsReadElsewhere) {
  const std::string body = R"(  %x = input : f32[2,4]
  %g = weight g[0:3,0:4] : f32[3,4]
  %u = weight u[0:3,0:4] : f32[3,4]
  %0 = linear(%x, %g) : f32[2,3]
  %1 = linear(%x, %u) : f32[2,3]
  %2 = gated_activation(%0, %1) activation="silu" : f32[2,3]
  output gated = %2
)";
  const std::string with_output = body + "  output gate = %0\n";
  EXPECT_EQ(after(fuse_gate_up, with_output), in_graph(with_output));
  EXPECT_NE(after(fuse_gate_up, body), in_graph(body));
}

TEST(Passes, DropWeightsThatNothingReadsAndKeepInputsAndStates) {
  const std::string body = R"(  %x = input : f32[2,4]
  %s = state : f32[2,4]
  %w = weight w[0:3,0:4] : f32[3,4]
  %c = constant [1] : f32[1]
)";
  EXPECT_EQ(after(fuse_qkv, body), in_graph("  %x = input : f32[2,4]\n  %s = state : f32[2,4]\n"));
}

TEST(Passes, DoNothingTheSecondTime) {
  const Graph once = run_passes(tiny_decoder(), default_passes()).value();
  EXPECT_EQ(run_passes(once, default_passes()).value(), once);
}

TEST(Passes, KeepTheCostOfTheStep) {
  const Graph graph = tiny_decoder(/*has_biases=*/true);
  const Graph fused = run_passes(graph, default_passes()).value();
  EXPECT_EQ(fused.nodes.size(), graph.nodes.size() - 3 + 1 + 3 - 2 + 1);
  EXPECT_EQ(cost_of(fused), cost_of(graph));
}

TEST(RunPasses, NamesThePassThatLeavesAnUnsoundGraph) {
  const Pass breaks{"break_it", [](const Graph& graph) -> Result<Graph> {
                      Graph broken = graph;
                      broken.nodes[0].operands.clear();
                      return broken;
                    }};
  const auto result = run_passes(tiny_decoder(), {breaks});
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, HasSubstr("pass break_it: [graph] node 0 (running_slots)"));
}

TEST(RunPasses, RefusesAnUnsoundGraph) {
  Graph broken = tiny_decoder();
  broken.nodes[0].operands.clear();
  EXPECT_THAT(run_passes(broken, default_passes()).error().message, HasSubstr("pass fuse_qkv"));
}

}  // namespace
}  // namespace lockstep::graph
