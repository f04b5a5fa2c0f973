// The contract of a backend besides arithmetic: refusals, addresses, memory.
#include "tests/conformance/backend/backend_test.h"

namespace lockstep::conformance {
namespace {

using graph::ValueId;
using testing::ElementsAre;

class BackendContract : public EveryBackend {};
LOCKSTEP_FOR_EVERY_BACKEND(BackendContract);

/// length[slot[t]] += 1, and y = x · wᵀ: a graph with inputs, a weight, a state and an output.
Case counting_case(int64_t rows) {
  CaseBuilder b({.name = "rows" + std::to_string(rows), .ranks = 1, .rank = 0, .rows = rows, .slots = 2});
  const ValueId x = b.input("x", random_tensor({DType::kFloat32, {rows, 3}}, 1));
  const ValueId slot = b.input("slot", int_tensor({rows}, std::vector<int32_t>(static_cast<size_t>(rows), 1)));
  b.builder.advance(b.state("length", zeros({DType::kInt32, {2}})), slot);
  b.builder.output("y", b.builder.linear(x, b.weight("w", random_tensor({DType::kFloat32, {4, 3}}, 2))));
  return std::move(b).finish();
}

std::vector<int32_t> lengths(Session& session) { return ints_of(session.outcome(0).states.at("length")); }

TEST_P(BackendContract, RefusesInputsOfAnotherTypeAndRunsNothing) {
  const Case c = counting_case(2);
  Session session(GetParam(), {c.graph});
  session.set(c.contents);
  const auto refused = [&](const char* name, TensorData data) {
    Contents inputs = c.inputs;
    inputs.insert_or_assign(name, std::move(data));
    const Result<void> run = session.run(0, inputs);
    return run.has_error() && run.error().kind == ErrorKind::kInvalidArgument;
  };
  EXPECT_TRUE(refused("x", zeros({DType::kFloat32, {1, 3}})));
  EXPECT_TRUE(refused("x", zeros({DType::kFloat32, {3, 3}})));
  EXPECT_TRUE(refused("x", zeros({DType::kFloat32, {3, 2}})));  // as many elements
  EXPECT_TRUE(refused("x", zeros({DType::kInt32, {2, 3}})));    // as many bytes
  EXPECT_TRUE(refused("slot", zeros({DType::kInt32, {4}})));
  TensorData short_bytes = c.inputs.at("x");
  short_bytes.bytes.pop_back();
  EXPECT_TRUE(refused("x", short_bytes));
  std::vector<device::HostTensor> inputs = inputs_in_order(c.graph, c.inputs);
  inputs.push_back(inputs.back());
  EXPECT_EQ(session.executable(0).run(inputs).error().kind, ErrorKind::kInvalidArgument);
  inputs.resize(1);
  EXPECT_EQ(session.executable(0).run(inputs).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(lengths(session), ElementsAre(0, 0));
  session.run(0, c.inputs).value();
  EXPECT_THAT(lengths(session), ElementsAre(0, 2));
}

TEST_P(BackendContract, KeepsStatesAtTheirAddressesAndSharesThemBetweenGraphs) {
  const Case small = counting_case(1);
  const Case large = counting_case(5);
  Session session(GetParam(), {small.graph, large.graph});
  session.set(small.contents);
  const device::StateId length = session.store().find_state("length").value();
  const void* address = session.store().state_address(length);
  EXPECT_NE(address, nullptr);
  for (int i = 0; i < 3; ++i) {
    session.run(0, small.inputs).value();
    session.run(1, large.inputs).value();
    EXPECT_EQ(session.store().state_address(length), address);
  }
  EXPECT_THAT(lengths(session), ElementsAre(0, 18));
}

TEST_P(BackendContract, StartsStatesAtZero) {
  CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = 1, .slots = 2});
  const ValueId rows = b.input("rows", zeros({DType::kFloat32, {1, 4}}));
  const ValueId slot = b.input("slot", int_tensor({1}, {-1}));
  const ValueId cache = b.cache("kv.0.k", {DType::kFloat32, {2, 1, 40, 4}});
  b.builder.kv_append(rows, cache, slot, b.input("position", int_tensor({1}, {0})));
  b.builder.mark_seen(b.builder.state("seen", {DType::kUInt8, {2, 1000}}), b.input("ids", int_tensor({1}, {0})), slot);
  const Outcome outcome = run_on(GetParam(), std::move(b).finish());
  for (const auto& [name, data] : outcome.states) EXPECT_TRUE(is_same(data, zeros(data.type))) << name;
}

// A row with an embedding instead of a token has a negative id.
TEST_P(BackendContract, MarksAndLooksUpNothingForNegativeIds) {
  CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = 2, .slots = 2});
  const ValueId ids = b.input("ids", int_tensor({2}, {-1, 3}));
  b.builder.mark_seen(b.builder.state("seen", {DType::kUInt8, {2, 5}}), ids, b.input("slot", int_tensor({2}, {1, 1})));
  const ValueId table = b.weight("table", tensor(DType::kFloat32, {5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  b.builder.output("rows", b.builder.embedding(ids, table, 0));
  const Outcome outcome = run_on(GetParam(), std::move(b).finish());
  TensorData seen = zeros({DType::kUInt8, {2, 5}});
  seen.bytes[8] = std::byte{1};  // id 3 of slot 1
  EXPECT_TRUE(is_same(outcome.states.at("seen"), seen));
  EXPECT_TRUE(is_same(outcome.outputs.at("rows"), tensor(DType::kFloat32, {1, 2, 2}, {0, 0, 7, 8})));
}

TEST_P(BackendContract, WritesAndReadsPartsOfDenseStates) {
  const Case c = counting_case(1);
  Session session(GetParam(), {c.graph});
  device::Store& store = session.store();
  const device::StateId length = store.find_state("length").value();
  const int32_t seven = 7;
  store.write_state(length, 4, std::as_bytes(std::span(&seven, 1))).value();
  EXPECT_THAT(lengths(session), ElementsAre(0, 7));
  int32_t found = 0;
  store.read_state(length, 4, std::as_writable_bytes(std::span(&found, 1))).value();
  EXPECT_EQ(found, 7);
  EXPECT_TRUE(store.write_state(length, 5, std::as_bytes(std::span(&seven, 1))).has_error());
  EXPECT_TRUE(store.write_state(length, -1, std::as_bytes(std::span(&seven, 1))).has_error());
  EXPECT_TRUE(store.read_state(length, 8, std::as_writable_bytes(std::span(&found, 1))).has_error());
}

TEST_P(BackendContract, RefusesWeightsThatItDoesNotHave) {
  const Case c = counting_case(1);
  Session session(GetParam(), {c.graph});
  const std::vector<std::byte> bytes(4 * 3 * 4);
  EXPECT_TRUE(session.store().set_weight("other", bytes).has_error());
  EXPECT_EQ(session.store().set_weight("w", std::span(bytes).first(44)).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_TRUE(session.store().set_weight("w", bytes).has_value());
}

TEST_P(BackendContract, RefusesGraphsThatDisagreeAboutAName) {
  const Case first = counting_case(1);
  CaseBuilder b({.name = "other", .ranks = 1, .rank = 0, .rows = 1, .slots = 3});
  b.builder.advance(b.state("length", zeros({DType::kInt32, {3}})), b.input("slot", int_tensor({1}, {0})));
  const Case second = std::move(b).finish();
  const device::StepGraph steps[] = {first.graph, second.graph};
  const auto backend = GetParam().make(1).value();
  EXPECT_EQ(backend->make_store(steps).error().kind, ErrorKind::kInvalidArgument);
}

TEST_P(BackendContract, KnowsNothingByNamesThatTheGraphsLack) {
  const Case c = counting_case(1);
  Session session(GetParam(), {c.graph});
  EXPECT_EQ(session.store().find_state("other"), std::nullopt);
  EXPECT_EQ(session.store().find_state("w"), std::nullopt);
  EXPECT_TRUE(session.executable(0).output("other").empty());
  EXPECT_EQ(session.executable(0).graph(), c.graph);
}

TEST_P(BackendContract, RefusesToCompileForRanksWithoutACommunicator) {
  CaseBuilder b({.name = "test", .ranks = 2, .rank = 0, .rows = 1, .slots = 1});
  b.builder.output("y", b.builder.all_gather(b.input("x", zeros({DType::kFloat32, {1, 2}})), {2, 2}));
  const Case c = std::move(b).finish();
  const auto backend = GetParam().make(1).value();
  const device::StepGraph step = c.graph;
  const auto store = backend->make_store({&step, 1}).value();
  EXPECT_TRUE(backend->compile(c.graph, *store, {}).has_error());
}

TEST_P(BackendContract, CommitsCacheMemoryAsTokensArrive) {
  constexpr int64_t kMiB = 1 << 20;
  CaseBuilder b({.name = "test", .ranks = 1, .rank = 0, .rows = 1, .slots = 4});
  const TensorType type{DType::kFloat32, {4, 2, 16384, 64}};  // 32 MiB
  const ValueId rows = b.input("rows", random_tensor({DType::kFloat32, {1, 128}}, 1));
  const ValueId slot = b.input("slot", int_tensor({1}, {1}));
  b.builder.kv_append(rows, b.cache("kv.0.k", type), slot, b.input("position", int_tensor({1}, {0})));
  Case c = std::move(b).finish();
  Session session(GetParam(), {c.graph});
  EXPECT_GE(session.store().memory().states_reserved.value, type.bytes());
  EXPECT_LT(session.store().memory().states_resident.value, 4 * kMiB);
  for (int32_t position = 0; position < 100; ++position) {
    c.inputs.at("position") = int_tensor({1}, {position});
    session.run(0, c.inputs).value();
  }
  EXPECT_LT(session.store().memory().states_resident.value, 8 * kMiB);
  EXPECT_GT(session.store().memory().states_resident.value, 0);
}

}  // namespace
}  // namespace lockstep::conformance
