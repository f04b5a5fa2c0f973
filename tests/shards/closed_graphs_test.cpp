// Compilations after warm-up: refused in strict mode, counted otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device/graph_register.h"
#include "tests/shards/fake_backend.h"

namespace lockstep::shards {
namespace {

using device::GraphRegister;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// The graphs of a tiny shard, and a store for both.
class ClosedGraphsTest : public ::testing::Test {
 protected:
  ClosedGraphsTest() {
    const auto spec = tiny_spec();
    const auto partition = partition::make_partition(spec, 1).value();
    graphs_ = build_graphs(spec, partition, 0, kOptions, graph::default_passes()).value();
    const std::vector<device::StepGraph> steps = {graphs_.prefill.front(), graphs_.decode.front()};
    store_ = backend_.make_store(steps).value();
  }

  Result<void> compile(GraphRegister& graphs, const graph::Graph& graph) {
    LOCKSTEP_TRY_VOID(graphs.compile(graph, *store_, {}));
    return ok();
  }

  FakeBackend backend_;
  ShardGraphs graphs_;
  std::unique_ptr<device::Store> store_;
};

TEST_F(ClosedGraphsTest, RefuseACompilationByNameInStrictMode) {
  GraphRegister graphs(backend_, GraphRegister::AfterClose::kRefuse);
  ASSERT_TRUE(compile(graphs, graphs_.prefill.front()).has_value());
  graphs.close();
  const Result<void> refused = compile(graphs, graphs_.decode.front());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("found a request for the graph " + graphs_.decode.front().name), HasSubstr("rows="),
                    HasSubstr("(" + graphs_.prefill.front().name), HasSubstr("--no-strict")));
  EXPECT_THAT(backend_.executables, SizeIs(1));
  EXPECT_THAT(graphs.compiled(), SizeIs(1));
  EXPECT_THAT(graphs.compiled_after_close(), SizeIs(0));
}

TEST_F(ClosedGraphsTest, CountACompilationApartOtherwise) {
  GraphRegister graphs(backend_, GraphRegister::AfterClose::kCount);
  int notices = 0;
  graphs.before_compile([&] { ++notices; });
  ASSERT_TRUE(compile(graphs, graphs_.prefill.front()).has_value());
  graphs.close();
  ASSERT_TRUE(compile(graphs, graphs_.decode.front()).has_value());
  EXPECT_THAT(graphs.compiled(), ElementsAre(HasSubstr(graphs_.prefill.front().name)));
  EXPECT_THAT(graphs.compiled_after_close(), ElementsAre(HasSubstr(graphs_.decode.front().name)));
  EXPECT_EQ(notices, 1);
}

}  // namespace
}  // namespace lockstep::shards
