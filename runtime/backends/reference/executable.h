// A compiled graph: its nodes in order, each with its kernel and tensors.
#pragma once

#include <string>
#include <vector>

#include "runtime/backends/reference/kernels.h"
#include "runtime/backends/reference/store.h"

namespace lockstep::reference {

class Executable final : public device::Executable {
 public:
  /// Fails with `kInvalidArgument` when the store or the communicator does not fit the graph.
  static Result<std::unique_ptr<Executable>> make(const graph::Graph& graph, Store& store,
                                                  const device::CompileOptions& options);

  const graph::Graph& graph() const override { return graph_; }
  Result<void> run(std::span<const device::HostTensor> inputs) override;
  std::span<const std::byte> output(std::string_view name) const override;

  /// Bytes of its activations and outputs.
  int64_t workspace_bytes() const;

 private:
  struct Step {
    Kernel kernel = nullptr;
    Call call;
  };
  struct OutputCopy {
    std::string name;
    Tensor source;
    std::vector<std::byte> bytes;  // in the graph's type
  };

  Executable(const graph::Graph& graph, Store& store) : graph_(graph), store_(store) {}

  Result<void> place_values();
  void add_steps();
  Result<void> check_inputs(std::span<const device::HostTensor> inputs) const;
  Result<void> check_communicator(const device::CompileOptions& options) const;
  const Tensor& tensor(graph::ValueId id) const { return tensors_[static_cast<size_t>(id.value)]; }

  const graph::Graph graph_;
  Store& store_;
  Environment environment_;
  std::vector<graph::ValueId> inputs_;
  std::vector<Tensor> tensors_;                  // one per value
  std::vector<std::vector<std::byte>> buffers_;  // of inputs, constants and results; reused between results
  std::unique_ptr<sampling::Scratch> scratch_;
  std::vector<Step> steps_;
  std::vector<OutputCopy> outputs_;
};

}  // namespace lockstep::reference
