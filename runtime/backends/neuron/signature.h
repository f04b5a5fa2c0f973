// What a loader needs to know of a lowered module, as plain data: which parameter is what, where each rank's tensor
// lies in it, and which output lives where a parameter did.
//
//   parameters   inputs of the step, states, weights, and last the few numbers in which ranks differ
//   outputs      what the host reads, then every state that the step updates (aliased to its parameter)
//
// Parameter i is the device's tensor "input{i}", output i its "output{i}". All ranks run the same module: a tensor is
// as large as the largest rank's, and zero where a rank has less.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/core/shape.h"

namespace lockstep::neuron {

enum class Role : uint8_t { kInput, kState, kWeight, kRank };
/// "input", "state", "weight", "rank".
std::string_view to_string(Role role);

/// Where a host's tensor lies in a parameter: element (i, j, …) of rank r's `views[r]` is element
/// i · strides[0] + j · strides[1] + … of the parameter. Everything else in it is zero.
struct Placement {
  std::vector<Shape> views;  // by rank; a row-major view of the graph's tensor, perhaps with more dimensions
  std::vector<int64_t> strides;

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// One parameter of the module.
struct Parameter {
  std::string name;  // the graph's name of the input, state or weight
  Role role = Role::kInput;
  TensorType type;  // on the device, the same for all ranks
  Placement placement;
  std::vector<std::vector<std::byte>> contents;  // kRank: what rank r passes
  std::optional<int> output;                     // the output that is aliased to it

  friend bool operator==(const Parameter&, const Parameter&) = default;
};

struct ModuleOutput {
  std::string name;
  TensorType type;
  std::optional<int> parameter;  // whose tensor it is written to

  friend bool operator==(const ModuleOutput&, const ModuleOutput&) = default;
};

struct ModuleSignature {
  int ranks = 1;
  std::vector<Parameter> parameters;
  std::vector<ModuleOutput> outputs;

  /// The parameter called `name`, if there is one.
  const Parameter* find(std::string_view name) const;

  friend bool operator==(const ModuleSignature&, const ModuleSignature&) = default;
};

/// A line per parameter and output: number, role, type, name, alias.
std::string to_text(const ModuleSignature& signature);

/// Rank `rank`'s host tensor of a parameter as the device holds it. Fails with `kInvalidArgument` when `host` has
/// another size.
Result<std::vector<std::byte>> to_device(const Parameter& parameter, int rank, std::span<const std::byte> host);

/// The inverse: `device` has the parameter's size.
std::vector<std::byte> to_host(const Parameter& parameter, int rank, std::span<const std::byte> device);

}  // namespace lockstep::neuron
