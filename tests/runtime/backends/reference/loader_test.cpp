// Tests that the module is found, refused and run; tests/conformance/backend tests its operations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/backends/reference/reference.h"
#include "runtime/graph/builder.h"
#include "tests/temporary_directory.h"

namespace lockstep::reference {
namespace {

using ::testing::HasSubstr;

TEST(MakeBackend, FindsTheModuleBesideTheProgramByDefault) {
  const auto backend = make_backend({});
  ASSERT_TRUE(backend.has_value()) << backend.error().message;
  EXPECT_EQ(backend.value()->name(), "reference");
}

TEST(MakeBackend, OffersEveryFloatingPointTypeAndPromisesNoOrderOfSums) {
  const device::Capabilities capabilities = make_backend({}).value()->capabilities();
  EXPECT_THAT(capabilities.dtypes, testing::UnorderedElementsAre(DType::kFloat32, DType::kBFloat16, DType::kFloat16));
  EXPECT_FALSE(capabilities.invariant_sums);
}

TEST(MakeBackend, RefusesAThreadCountBelowOne) {
  EXPECT_EQ(make_backend({.threads = 0}).error().kind, ErrorKind::kInvalidArgument);
}

TEST(MakeBackend, NamesThePathOfAModuleThatIsNotThere) {
  const TemporaryDirectory folder;
  const auto backend = make_backend({.module_directory = folder.path()});
  ASSERT_TRUE(backend.has_error());
  EXPECT_EQ(backend.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(backend.error().message, HasSubstr((folder.path() / module_file_name()).string()));
  EXPECT_THAT(backend.error().message, HasSubstr("build the target lockstep_backend_reference"));
}

TEST(MakeBackend, RefusesAFileThatIsNoModule) {
  const TemporaryDirectory folder;
  std::ofstream(folder.path() / module_file_name()) << "text";
  EXPECT_EQ(make_backend({.module_directory = folder.path()}).error().kind, ErrorKind::kUnavailable);
}

TEST(MakeBackend, RefusesTheModuleOfAnotherBuild) {
  const auto backend = make_backend({.module_directory = STRANGE_MODULE_DIRECTORY});
  ASSERT_TRUE(backend.has_error());
  EXPECT_EQ(backend.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(backend.error().message, HasSubstr("a module from the future"));
}

/// y = x · wᵀ.
graph::Graph product_graph() {
  graph::GraphBuilder b({.name = "product", .ranks = 1, .rank = 0, .rows = 1, .slots = 1});
  const auto x = b.input("x", {DType::kFloat32, {1, 2}});
  b.output("y", b.linear(x, b.weight("w", {DType::kFloat32, {3, 2}}, {{"w", {{0, 3}, {0, 2}}}})));
  return std::move(b).finish();
}

TEST(ReferenceBackend, RefusesToRunBeforeEveryWeightIsSet) {
  const auto backend = make_backend({}).value();
  const graph::Graph graph = product_graph();
  const device::StepGraph steps[] = {graph};
  const auto store = backend->make_store(steps).value();
  const auto executable = backend->compile(graph, *store, {}).value();
  const std::vector<std::byte> x(8);
  const device::HostTensor input{{DType::kFloat32, {1, 2}}, x};
  const auto run = executable->run({&input, 1});
  ASSERT_TRUE(run.has_error());
  EXPECT_EQ(run.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(run.error().message, HasSubstr("weight w"));
  store->set_weight("w", std::vector<std::byte>(24)).value();
  EXPECT_TRUE(executable->run({&input, 1}).has_value());
}

TEST(ReferenceBackend, RefusesAStoreThatWasMadeForOtherGraphs) {
  const auto backend = make_backend({}).value();
  const auto store = backend->make_store({}).value();
  const auto executable = backend->compile(product_graph(), *store, {});
  ASSERT_TRUE(executable.has_error());
  EXPECT_EQ(executable.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(executable.error().message, HasSubstr("w f32[3,2]"));
}

TEST(ReferenceBackend, ReportsItsWorkspace) {
  const auto backend = make_backend({}).value();
  const graph::Graph graph = product_graph();
  const device::StepGraph steps[] = {graph};
  const auto store = backend->make_store(steps).value();
  EXPECT_EQ(store->memory().workspace.value, 0);
  const auto executable = backend->compile(graph, *store, {}).value();
  EXPECT_EQ(store->memory().workspace.value, 2 * 4 + 3 * 4 + 3 * 4);  // x, y and the copy of y that the host reads
}

}  // namespace
}  // namespace lockstep::reference
