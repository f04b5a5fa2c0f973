// An HLO module as a program for the host, in place of a device. It computes the same as XLA's CPU client, except that
// an index out of range is an error, as on the device, and that sums have another order.
//
//   hlo::Module ──compile──► Program: a flat list of steps over memory that is reserved once
//                            run(inputs, outputs) as often as one likes
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/backends/neuron/hlo/module.h"
#include "runtime/core/result.h"
#include "tests/neuron_stand_in/interpreter/exchange.h"
#include "tests/neuron_stand_in/interpreter/step.h"

namespace lockstep::stand_in {

/// Whether a NaN in an output ends the run as the device would.
enum class NanCheck { kOff, kOutputs };

class Program {
 public:
  /// Compiles `module` for `rank`. Fails with `kUnsupported` for an instruction that this backend's lowering does not
  /// write, and with `kInvalidArgument` for a module that does not hold together; the message names the instruction.
  static Result<std::unique_ptr<Program>> compile(hlo::Module module, int rank);

  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Types by number; of a parameter, the output that is aliased to it.
  const std::vector<hlo::Type>& inputs() const { return inputs_; }
  const std::vector<hlo::Type>& outputs() const { return outputs_; }
  const std::vector<std::optional<int>>& aliased_outputs() const { return aliased_outputs_; }

  bool has_collectives() const { return has_collectives_; }
  /// Memory that the program holds besides its inputs and outputs.
  size_t workspace_bytes() const { return workspace_bytes_; }

  /// Runs once, on one thread at a time. `inputs[i]` and `outputs[i]` have the sizes of their types and are aligned to
  /// 4 bytes; an aliased output has its parameter's memory. `exchange` may be null without collectives. After a fault
  /// the outputs are undefined. @collective @blocking
  Outcome run(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, Exchange* exchange,
              NanCheck nans = NanCheck::kOutputs);

 private:
  Program() = default;

  Result<void> build(int rank);
  Result<void> add_step(size_t index, int rank);
  void reserve(const std::vector<size_t>& bytes);
  Outcome check_for_nans(size_t output, const std::byte* values) const;

  hlo::Module module_;
  std::vector<hlo::Type> inputs_, outputs_;
  std::vector<std::optional<int>> aliased_outputs_;
  bool has_collectives_ = false;
  size_t workspace_bytes_ = 0;
  std::vector<std::vector<int>> storages_;  // by instruction
  std::vector<int> input_storages_, output_storages_;
  std::vector<bool> is_constant_;  // by instruction
  std::vector<Run> steps_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  Memory memory_;
};

}  // namespace lockstep::stand_in
