// Rules that only a graph in memory can break.
#include "runtime/graph/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/runtime/graph/tiny_decoder.h"

namespace lockstep::graph {
namespace {

using ::testing::HasSubstr;

struct BadGraph {
  std::function<void(Graph&)> change;
  std::string expected;
};

TEST(Verifier, FindsWhatIsWrongWithAGraphInMemory) {
  const std::vector<BadGraph> cases = {
      {[](Graph& g) { g.ranks = 0; }, "header: found rank 0 of 0"},
      {[](Graph& g) { g.rank = 2; }, "header: found rank 2 of 2"},
      {[](Graph& g) { g.rows = -1; }, "header: found -1 rows"},
      {[](Graph& g) { g.slots = int64_t{1} << 40; }, "header: found"},
      {[](Graph& g) { g.values[1].name = g.values[0].name; }, "found the name twice"},
      {[](Graph& g) {
         g.values[0].slices.push_back({"t", {{0, 2}}});
       },
       "found slices, expected them on weights only"},
      {[](Graph& g) { g.values[0].constant.push_back(1); }, "found contents, expected them on constants only"},
      {[](Graph& g) { g.nodes[0].operands[0] = ValueId(-1); }, "operand 0 (active): found value number -1"},
      {[](Graph& g) { g.nodes[0].operands[0] = ValueId(999); }, "found value number 999"},
      {[](Graph& g) { std::swap(g.nodes[1], g.nodes[2]); }, "before it exists"},
      {[](Graph& g) { g.nodes[0].operands[0] = *g.find("kv.0.k"); }, "found operand \"kv.0.k\" before it exists"},
      {[](Graph& g) { g.nodes[1].operands[0] = *g.nodes[1].result; }, "before it exists"},
      {[](Graph& g) { g.nodes.pop_back(), g.nodes.pop_back(); }, "value \"21\": found a result that no node makes"},
      {[](Graph& g) { g.nodes.insert(g.nodes.begin(), Node(g.nodes[0])); }, "results are in order"},
      {[](Graph& g) { g.nodes[1].result = ValueId(999); }, "results are in order"},
      {[](Graph& g) { g.nodes[0].result = g.find("length"), g.values[1].kind = ValueKind::kState; },
       "before it exists"},
      {[](Graph& g) { g.nodes[0].result = std::nullopt; }, "found no result, expected one"},
      {[](Graph& g) { g.nodes[1].attributes["first_row"] = 0.0; }, "attribute first_row: found something else"},
      {[](Graph& g) { g.nodes[1].attributes["last_row"] = int64_t{1}; }, "attribute \"last_row\": not one of this"},
      {[](Graph& g) { g.outputs[0].value = ValueId(999); }, "output \"logits\": found value number 999"},
      {[](Graph& g) { g.outputs[0].name.clear(); }, "found the name empty"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    Graph graph = tiny_decoder();
    cases[i].change(graph);
    const auto verified = verify(graph);
    ASSERT_FALSE(verified.has_value()) << "case " << i;
    EXPECT_THAT(verified.error().message, HasSubstr(cases[i].expected)) << "case " << i;
  }
}

TEST(Verifier, RefusesAStateAsAResult) {
  Graph graph = tiny_decoder();
  const size_t made = static_cast<size_t>(graph.nodes[0].result->value);
  graph.values[made].kind = ValueKind::kState;
  graph.values[made].name = "made";
  EXPECT_THAT(verify(graph).error().message, HasSubstr("found \"made\" as the result, expected a value that is made"));
}

TEST(Verifier, AcceptsEveryRankOfAnUnevenSplitAndANarrowLastLeaf) {
  const BlockSplit split{{0, 2, 2, 5}};  // rank 1 has no leaf
  const int64_t columns[] = {6, 0, 8};   // leaves of 3; the last one has 2
  const char* roots[] = {"f32[1,2,4]", "f32[0,2,4]", "f32[2,2,4]"};
  for (int rank = 0; rank < 3; ++rank) {
    GraphBuilder b({.name = "g", .ranks = 3, .rank = rank, .rows = 2, .slots = 1});
    const int64_t k = columns[rank];
    const ValueId x = b.input("x", {DType::kFloat32, {2, k}});
    const ValueId w = b.weight("w", {DType::kFloat32, {4, k}}, {{"w", {{0, 4}, {0, k}}}});
    const ValueId partial = b.linear_blocks(x, w, split, 3);
    EXPECT_EQ(to_string(b.type_of(partial)), roots[rank]);
    b.all_reduce(partial, split, DType::kFloat32);
    EXPECT_TRUE(verify(std::move(b).finish()).has_value());
  }
}

TEST(InferType, NamesTheOperationInItsError) {
  const Graph graph = tiny_decoder();
  const auto type = infer_type(graph, Op::kAdd, {}, {});
  ASSERT_FALSE(type.has_value());
  EXPECT_EQ(type.error().message, "[graph] add: found 0 operands, expected 2");
  EXPECT_EQ(infer_type(graph, Op::kAdvance, {*graph.find("length"), *graph.find("0")}, {}).value(), std::nullopt);
}

}  // namespace
}  // namespace lockstep::graph
