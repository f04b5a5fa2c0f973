// The signature of a lowered module for the loader, as plain data: the meaning of each parameter, the position of each
// rank's tensor in it, and the outputs aliased to parameters.
//
//   parameters   inputs of the step, states, weights; then, as needed, 8-bit weights and rank-specific numbers
//   outputs      those for the host, then every state updated by the step (aliased to its parameter)
//
// Parameter i is the device's tensor "input{i}", output i its "output{i}". All ranks run the same module: a tensor is
// as large as the largest rank's, and padded with zeros for smaller ranks.
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

/// The position of a host tensor in a parameter: element (i, j, …) of rank r's `views[r]` is element i · strides[0] + j
/// · strides[1] + … of the parameter. All other elements are zero.
struct Placement {
  std::vector<Shape> views;  // by rank; a row-major view of the graph's tensor, possibly with more dimensions
  std::vector<int64_t> strides;

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// An 8-bit weight. The graph has one tensor [N, K]; the device has two parameters, both computed from it as in
/// runtime/core/int8_groups.h:
///
///   "<weight>.integers" i8  [N, groups · width]   each group padded to `width` columns, each leaf to whole groups
///   "<weight>.scales"   f32 [groups, N]
struct Int8Part {
  enum class Holds : uint8_t { kIntegers, kScales } holds = Holds::kIntegers;
  std::string weight;            // name of the host's tensor in the graph
  DType host = DType::kFloat32;  // type of that tensor
  int64_t leaf = 1;              // columns of the host's tensor per leaf, each cut into groups separately
  int64_t width = 4;             // columns of a group

  int64_t groups_per_leaf() const { return (leaf + width - 1) / width; }
  friend bool operator==(const Int8Part&, const Int8Part&) = default;
};

/// One parameter of the module.
struct Parameter {
  std::string name;  // the graph's name of the input, state or weight; unique
  Role role = Role::kInput;
  TensorType type;  // on the device, the same for all ranks
  Placement placement;
  std::vector<std::vector<std::byte>> contents;  // kRank: the value of rank r
  std::optional<int> output;                     // the output aliased to it
  std::optional<Int8Part> int8;  // of an 8-bit weight: its placement has the views of the host's tensor, no strides

  /// The name of the host tensor for it: a loader converts weight W with `to_device` for every parameter of that name.
  const std::string& host_name() const { return int8 ? int8->weight : name; }
  /// Whether one tensor on the device serves both: equal name, type, placement and numbers.
  bool is_same_tensor(const Parameter& other) const {
    return name == other.name && type == other.type && placement == other.placement && int8 == other.int8;
  }

  friend bool operator==(const Parameter&, const Parameter&) = default;
};

struct ModuleOutput {
  std::string name;
  TensorType type;
  std::optional<int> parameter;  // the parameter whose tensor it is written to

  friend bool operator==(const ModuleOutput&, const ModuleOutput&) = default;
};

struct ModuleSignature {
  int ranks = 1;
  std::vector<Parameter> parameters;
  std::vector<ModuleOutput> outputs;

  /// The parameter `name`, if it exists.
  const Parameter* find(std::string_view name) const;

  friend bool operator==(const ModuleSignature&, const ModuleSignature&) = default;
};

/// One line per parameter and output: number, role, type, name, alias.
std::string to_text(const ModuleSignature& signature);

/// Rank `rank`'s host tensor of a parameter (of `host_name()`) in device layout: padded, and quantised for an 8-bit
/// parameter. Fails with `kInvalidArgument` when `host` has another size.
Result<std::vector<std::byte>> to_device(const Parameter& parameter, int rank, std::span<const std::byte> host);

/// The inverse: `device` has the parameter's size. Not for 8-bit weights, which have lost bits.
std::vector<std::byte> to_host(const Parameter& parameter, int rank, std::span<const std::byte> device);

}  // namespace lockstep::neuron
