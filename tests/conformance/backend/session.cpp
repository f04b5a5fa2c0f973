#include "tests/conformance/backend/session.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "transport/loopback/loopback.h"

namespace lockstep::conformance {
namespace {

/// Weight slices of one tensor of the same name and shape.
std::vector<graph::WeightSlice> whole(const std::string& name, const Shape& shape) {
  graph::WeightSlice slice{name, {}};
  for (const int64_t size : shape.dims()) slice.range.push_back({0, size});
  return {slice};
}

void expect_all(const Contents& actual, const Contents& expected, std::string_view what,
                const std::function<testing::AssertionResult(const TensorData&, const TensorData&)>& compare) {
  EXPECT_EQ(actual.size(), expected.size()) << what;
  for (const auto& [name, data] : expected) {
    const auto found = actual.find(name);
    ASSERT_NE(found, actual.end()) << what << ": " << name;
    EXPECT_TRUE(compare(found->second, data)) << what << ": " << name;
  }
}

}  // namespace

graph::ValueId CaseBuilder::input(const std::string& name, TensorData data) {
  const graph::ValueId id = builder.input(name, data.type);
  inputs_.insert_or_assign(name, std::move(data));
  return id;
}

graph::ValueId CaseBuilder::weight(const std::string& name, TensorData data, std::optional<WeightFormat> format) {
  const graph::ValueId id = builder.weight(name, data.type, whole(name, data.type.shape), format);
  contents_.insert_or_assign(name, std::move(data));
  return id;
}

graph::ValueId CaseBuilder::state(const std::string& name, TensorData data) {
  const graph::ValueId id = builder.state(name, data.type);
  contents_.insert_or_assign(name, std::move(data));
  return id;
}

Case CaseBuilder::finish() && { return {std::move(builder).finish(), std::move(contents_), std::move(inputs_)}; }

Session::Session(const BackendUnderTest& backend, std::vector<graph::Graph> graphs, device::Communicator* communicator,
                 int threads)
    : graphs_(std::move(graphs)), backend_(backend.make(threads).value()) {
  store_ = backend_->make_store(std::vector<device::StepGraph>(graphs_.begin(), graphs_.end())).value();
  for (const graph::Graph& graph : graphs_) {
    executables_.push_back(backend_->compile(graph, *store_, {.communicator = communicator}).value());
  }
}

void Session::set(const Contents& contents) {
  for (const auto& [name, data] : contents) {
    for (const graph::Graph& graph : graphs_) {
      const std::optional<graph::ValueId> id = graph.find(name);
      if (!id) continue;
      if (graph.value(*id).kind == graph::ValueKind::kWeight) {
        store_->set_weight(name, data.bytes).value();
      } else {
        store_->write_state(store_->find_state(name).value(), 0, data.bytes).value();
      }
      break;
    }
  }
}

Result<void> Session::run(size_t graph, const Contents& inputs) {
  return executables_[graph]->run(inputs_in_order(graphs_[graph], inputs));
}

Outcome Session::outcome(size_t graph) const {
  const graph::Graph& g = graphs_[graph];
  Outcome outcome;
  for (const graph::Output& output : g.outputs) {
    const std::span<const std::byte> bytes = executables_[graph]->output(output.name);
    outcome.outputs.emplace(output.name, TensorData{g.value(output.value).type, {bytes.begin(), bytes.end()}});
  }
  for (const graph::ValueId id : g.values_of(graph::ValueKind::kState)) {
    const graph::Value& state = g.value(id);
    outcome.states.emplace(state.name, read_state(state.name, state.type, is_cache(g, id)));
  }
  return outcome;
}

TensorData Session::read_state(const std::string& name, const TensorType& type, bool is_cache) const {
  const device::StateId state = store_->find_state(name).value();
  if (is_cache) return {type, store_->read_cache(state).value()};
  TensorData data = zeros(type);
  store_->read_state(state, 0, data.bytes).value();
  return data;
}

std::vector<device::HostTensor> inputs_in_order(const graph::Graph& graph, const Contents& inputs) {
  std::vector<device::HostTensor> ordered;
  for (const graph::ValueId id : graph.values_of(graph::ValueKind::kInput)) {
    ordered.push_back(inputs.at(graph.value(id).name).view());
  }
  return ordered;
}

bool is_cache(const graph::Graph& graph, graph::ValueId state) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) {
    const std::vector<graph::ValueId> states = graph::sequence_states(node);
    return std::ranges::find(states, state) != states.end();
  });
}

Outcome run_on(const BackendUnderTest& backend, const Case& c) {
  Session session(backend, {c.graph});
  session.set(c.contents);
  session.run(0, c.inputs).value();
  return session.outcome(0);
}

Outcome run_on_scalar_model(const Case& c) { return run_on_scalar_model(std::vector<Case>{c}).front(); }

void run_ranks(int ranks, const std::function<void(int rank, device::Communicator& communicator)>& body) {
  AbortFlag abort;
  const SteadyClock clock;
  const transport::WaitOptions wait{.abort = &abort, .clock = &clock, .deadline = std::chrono::seconds(20)};
  const auto group = transport::loopback::make_group(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = transport::loopback::make_communicator(group, rank, wait);
      try {
        body(rank, *communicator);
      } catch (const std::exception& error) {  // ends the others' waits as well
        abort.raise({ErrorKind::kInternal, error.what(), rank});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(abort.is_raised()) << "rank " << abort.reason()->origin_rank.value_or(-1) << ": "
                                  << abort.reason()->message;
}

std::vector<Outcome> run_on_ranks(const BackendUnderTest& backend, const std::vector<Case>& cases) {
  std::vector<Outcome> outcomes(cases.size());
  run_ranks(static_cast<int>(cases.size()), [&](int rank, device::Communicator& communicator) {
    const Case& c = cases[static_cast<size_t>(rank)];
    Session session(backend, {c.graph}, &communicator);
    session.set(c.contents);
    session.run(0, c.inputs).value();
    outcomes[static_cast<size_t>(rank)] = session.outcome(0);
  });
  return outcomes;
}

std::vector<Outcome> run_on_scalar_model(const std::vector<Case>& cases) {
  ScalarModel model(static_cast<int>(cases.size()));
  std::vector<graph::Graph> graphs;
  std::vector<Contents> inputs;
  for (size_t rank = 0; rank < cases.size(); ++rank) {
    model.set(static_cast<int>(rank), cases[rank].contents);
    graphs.push_back(cases[rank].graph);
    inputs.push_back(cases[rank].inputs);
  }
  return model.run(graphs, inputs);
}

void expect_near(const Outcome& actual, const Outcome& expected, double tolerance, std::string_view what) {
  const auto near = [=](const TensorData& a, const TensorData& e) { return is_near(a, e, tolerance); };
  expect_all(actual.outputs, expected.outputs, what, near);
  expect_all(actual.states, expected.states, what, near);
}

void expect_same(const Outcome& actual, const Outcome& expected, std::string_view what) {
  expect_all(actual.outputs, expected.outputs, what, is_same);
  expect_all(actual.states, expected.states, what, is_same);
}

void expect_same_roundings(const Outcome& actual, const Outcome& expected) {
  for (const auto& [name, data] : expected.outputs) {
    if (size_of(data.type.dtype) != 2) continue;
    const std::vector<double> found = numbers_of(actual.outputs.at(name));
    const std::vector<double> wanted = numbers_of(data);
    size_t differing = 0;
    for (size_t i = 0; i < wanted.size(); ++i) differing += found[i] != wanted[i] && !std::isnan(wanted[i]) ? 1 : 0;
    EXPECT_LE(differing, 1 + wanted.size() / 50) << name << ": of " << wanted.size() << " elements";
  }
}

Compared expect_conforms(const BackendUnderTest& backend, const Case& c, double tolerance) {
  Compared compared{run_on(backend, c), run_on_scalar_model(c)};
  expect_near(compared.actual, compared.expected, tolerance, "against the scalar model");
  if (compares_with_reference() && backend.name != reference_backend().name) {
    expect_near(compared.actual, run_on(reference_backend(), c), tolerance, "against the reference backend");
  }
  return compared;
}

}  // namespace lockstep::conformance
