// What a loader needs to know of a lowered module, as plain data: which parameter is what, where each rank's tensor
// lies in it, and which output lives where a parameter did.
//
//   parameters   inputs of the step, states, weights; then, as the step needs them, weights in 8 bits and the few
//                numbers in which ranks differ
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

/// Weights in 8 bits. The graph knows one tensor [N, K]; the device has two parameters, which are both made of it as
/// runtime/core/int8_groups.h says:
///
///   "<weight>.integers" i8  [N, groups · width]   each group padded to `width` columns, each leaf to whole groups
///   "<weight>.scales"   f32 [groups, N]
struct Int8Part {
  enum class Holds : uint8_t { kIntegers, kScales } holds = Holds::kIntegers;
  std::string weight;            // its name in the graph, by which a host's tensor comes
  DType host = DType::kFloat32;  // what that tensor holds
  int64_t leaf = 1;              // columns of the host's tensor that are cut into groups by themselves
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
  std::vector<std::vector<std::byte>> contents;  // kRank: what rank r passes
  std::optional<int> output;                     // the output that is aliased to it
  std::optional<Int8Part> int8;  // of a weight in 8 bits: its placement has the views of the host's tensor, no strides

  /// Whose bytes the host passes for it: a loader that is given weight W fills every parameter of that name by
  /// `to_device`.
  const std::string& host_name() const { return int8 ? int8->weight : name; }
  /// Whether one tensor on the device serves both: the same name, type, places and numbers.
  bool is_same_tensor(const Parameter& other) const {
    return name == other.name && type == other.type && placement == other.placement && int8 == other.int8;
  }

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

/// Rank `rank`'s host tensor of a parameter (of `host_name()`) as the device holds it: padded, and in 8 bits where the
/// parameter is. Fails with `kInvalidArgument` when `host` has another size.
Result<std::vector<std::byte>> to_device(const Parameter& parameter, int rank, std::span<const std::byte> host);

/// The inverse: `device` has the parameter's size. Not of a weight in 8 bits, which has lost bits.
std::vector<std::byte> to_host(const Parameter& parameter, int rank, std::span<const std::byte> device);

}  // namespace lockstep::neuron
