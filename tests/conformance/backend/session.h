// Graphs with their contents, and the ways to run them: on one backend, on several ranks as threads, on the scalar
// model.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/graph/builder.h"
#include "tests/conformance/backend/backends.h"
#include "tests/conformance/backend/scalar_model.h"
#include "tests/conformance/backend/tensor_data.h"

namespace lockstep::conformance {

/// A graph and everything that one run of it reads.
struct Case {
  graph::Graph graph;
  Contents contents;  // weights, and states that do not start at zero
  Contents inputs;
};

/// Builds a case: each value is declared together with its contents.
class CaseBuilder {
 public:
  explicit CaseBuilder(graph::GraphHeader header) : builder(std::move(header)) {}

  graph::ValueId input(const std::string& name, TensorData data);
  /// With a format, a backend quantises the elements of `data`.
  graph::ValueId weight(const std::string& name, TensorData data, std::optional<WeightFormat> format = std::nullopt);
  graph::ValueId state(const std::string& name, TensorData data);
  /// A KV cache: zero before the first run.
  graph::ValueId cache(const std::string& name, TensorType type) { return builder.state(name, std::move(type)); }

  Case finish() &&;

  graph::GraphBuilder builder;

 private:
  Contents contents_;
  Contents inputs_;
};

/// One rank of a backend with some graphs compiled. Failures of the backend are failed checks here, except `run`.
class Session {
 public:
  Session(const BackendUnderTest& backend, std::vector<graph::Graph> graphs,
          device::Communicator* communicator = nullptr, int threads = 1);

  /// Sets weights and dense states; names that the graphs do not have are left out.
  void set(const Contents& contents);
  Result<void> run(size_t graph, const Contents& inputs);
  /// Outputs of a graph as its last run left them, and its states.
  Outcome outcome(size_t graph) const;

  device::Backend& backend() { return *backend_; }
  device::Store& store() { return *store_; }
  device::Executable& executable(size_t graph) { return *executables_[graph]; }

 private:
  TensorData read_state(const std::string& name, const TensorType& type, bool is_cache) const;

  std::vector<graph::Graph> graphs_;
  std::unique_ptr<device::Backend> backend_;
  std::unique_ptr<device::Store> store_;
  std::vector<std::unique_ptr<device::Executable>> executables_;
};

/// The inputs of a graph in its order. The tensors outlive the result.
std::vector<device::HostTensor> inputs_in_order(const graph::Graph& graph, const Contents& inputs);

/// Whether `state` is of the slots' sequences in `graph`: a KV cache, or what a recurrence carries on.
bool is_cache(const graph::Graph& graph, graph::ValueId state);

/// Runs a case of a group of one.
Outcome run_on(const BackendUnderTest& backend, const Case& c);
Outcome run_on_scalar_model(const Case& c);

/// Runs `body(rank, communicator)` on a thread per rank, over loopback. Waits end after a deadline.
void run_ranks(int ranks, const std::function<void(int rank, device::Communicator& communicator)>& body);

/// Runs one step of all ranks, one case each.
std::vector<Outcome> run_on_ranks(const BackendUnderTest& backend, const std::vector<Case>& cases);
std::vector<Outcome> run_on_scalar_model(const std::vector<Case>& cases);

/// Expects all outputs and states of `actual` to be near those of `expected`.
void expect_near(const Outcome& actual, const Outcome& expected, double tolerance, std::string_view what);
void expect_same(const Outcome& actual, const Outcome& expected, std::string_view what);

/// Expects all but one in fifty of the bf16 and f16 elements of `actual` to have the bits of `expected`: arithmetic in
/// f32 moves few values over a rounding border, a rounding too many or too few moves many.
void expect_same_roundings(const Outcome& actual, const Outcome& expected);

/// What a backend and the scalar model make of one case.
struct Compared {
  Outcome actual;
  Outcome expected;
};
/// Holds the backend against the scalar model and against the reference backend.
Compared expect_conforms(const BackendUnderTest& backend, const Case& c, double tolerance);

}  // namespace lockstep::conformance
