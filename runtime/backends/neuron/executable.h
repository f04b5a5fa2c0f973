// A compiled step: a module on the core with its tensors bound once. An updated state is the same tensor among inputs
// and outputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/backends/neuron/store.h"

namespace lockstep::neuron {

/// Parameters of a step's wait.
struct StepOptions {
  Duration deadline = std::chrono::minutes(1);
  const AbortFlag* abort = nullptr;  // may be null
};

class Executable final : public device::Executable {
 public:
  /// Binds the tensors of a loaded module. Fails with `kFailedPrecondition` when the module's tensors differ from
  /// `signature`, and with `kInvalidArgument` when the store was not made for it.
  static Result<std::unique_ptr<Executable>> make(graph::Graph graph, ModuleSignature signature, nrt::Model model,
                                                  Store& store, const StepOptions& options);

  const graph::Graph& graph() const override { return graph_; }
  Result<void> run(std::span<const device::HostTensor> inputs) override;
  std::span<const std::byte> output(std::string_view name) const override;

  /// Bytes of its tensors, and of its outputs on the host.
  int64_t workspace_bytes() const;

 private:
  /// A tensor written by the host before a step.
  struct OwnInput {
    size_t input = 0;      // of the graph
    size_t parameter = 0;  // of the module
    nrt::Tensor tensor;
  };
  /// A tensor read by the host after a step.
  struct OwnOutput {
    std::string name;
    Parameter layout;  // position of this rank's tensor in it
    nrt::Tensor tensor;
    std::vector<std::byte> device;  // as read from the device
    std::vector<std::byte> host;    // in the graph's layout; empty if equal

    std::span<const std::byte> bytes() const { return host.empty() ? device : host; }
  };

  Executable(graph::Graph graph, ModuleSignature signature, nrt::Model model, nrt::TensorSet inputs,
             nrt::TensorSet outputs, Store& store, const StepOptions& options);

  Result<void> bind();
  Result<const nrt::Tensor*> tensor_of(size_t parameter);
  Result<void> add_own_output(size_t index);
  Result<void> check_inputs(std::span<const device::HostTensor> inputs) const;
  Result<void> write_inputs(std::span<const device::HostTensor> inputs);
  Result<void> read_outputs();
  Result<void> check_agreement();

  const graph::Graph graph_;
  const ModuleSignature signature_;
  Store& store_;
  const StepOptions options_;
  nrt::Model model_;
  std::vector<graph::ValueId> input_values_;
  std::vector<std::unique_ptr<OwnInput>> inputs_;  // bound by address
  std::vector<OwnOutput> outputs_;
  std::vector<std::unique_ptr<nrt::Tensor>> rank_numbers_;
  std::vector<device::StateId> updated_;   // states
  nrt::TensorSet input_set_, output_set_;  // destroyed before the tensors
};

}  // namespace lockstep::neuron
