// The graph of one step, as a value.
//
// A `Graph` describes the computation of one rank in a prefill chunk or a decode step: its inputs, weights (and their
// checkpoint slices), states (updated in place and shared with the other graph), nodes in execution order, and outputs.
// Collectives and state updates are ordinary nodes, so the printed graph shows all communication and all memory. A
// graph can be compared, hashed, printed and parsed back; it holds no pointers.
//
//   families/*.cpp ──GraphBuilder──► Graph ──passes──► Graph ──Backend::compile──► Executable
//
// OPERATIONS.md beside this file defines each operation with its operands and attributes.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/core/block_tree.h"
#include "runtime/core/ids.h"
#include "runtime/core/shape.h"
#include "runtime/core/weight_format.h"

namespace lockstep::graph {

/// The most taps of a causal convolution, and the most rows of a block of the delta rule.
inline constexpr int64_t kMostTaps = 16;
inline constexpr int64_t kMostBlockRows = 64;

/// The operations of a language model's step. The text form uses the snake_case name ("rms_norm").
enum class Op {
  kEmbedding,
  kLinear,
  kLinearBlocks,
  kHeadLinear,
  kAllReduce,
  kAllGather,
  kLookup,
  kAdd,
  kMultiply,
  kJoinPartials,
  kJoinHeads,
  kScale,
  kScaleRows,
  kScaleByPosition,
  kSoftCap,
  kCutOff,
  kMatchMagnitude,
  kWeightedSum,
  kFakeQuantise,
  kTakeColumns,
  kRmsNorm,
  kLayerNorm,
  kRope,
  kClampPositions,
  kKvAppend,
  kAttention,
  kCausalConv,
  kGatedDeltaRule,
  kActivation,
  kGatedActivation,
  kMoeRoute,
  kMoeExperts,
  kColumns,
  kSelectRows,
  kFirstRows,
  kRunningSlots,
  kOwnSlots,
  kRowsOfOwners,
  kMarkSeen,
  kAdvance,
  kAgree,
  kSample,
  kAccept,
  kScore,
};

/// The name in the text form.
std::string_view to_string(Op op);
std::optional<Op> op_from_name(std::string_view name);
/// Whether all ranks execute it together.
bool is_collective(Op op);

/// The most terms of a weighted sum.
inline constexpr size_t kMostTerms = 8;

/// Whether it updates its operand number `operand`, a state.
bool updates_operand(Op op, size_t operand);

/// Whether it carries states of a fixed size from row to row of a slot.
bool is_recurrence(Op op);

/// The operand with the rows' slots, of operations on what slots hold; the next operand has the rows' positions.
std::optional<size_t> slot_operand(Op op);

/// A value's index in `Graph::values`.
using ValueId = StrongId<struct ValueTag, int32_t>;

enum class ValueKind { kInput, kWeight, kState, kConstant, kResult };

/// A slice of one checkpoint tensor: a range per dimension.
struct WeightSlice {
  std::string tensor;        // the checkpoint's name
  std::vector<Range> range;  // one per dimension

  friend bool operator==(const WeightSlice&, const WeightSlice&) = default;
};

/// A named tensor of the graph.
struct Value {
  ValueKind kind = ValueKind::kResult;
  std::string name;  // unique in the graph; results are numbered ("12")
  TensorType type;
  std::vector<WeightSlice> slices;                    // weights only: concatenated along dimension 0
  std::vector<float> constant;                        // constants only: f32 contents
  std::optional<WeightFormat> format = std::nullopt;  // weights only: codes, multiplied as `type`; absent: elements

  friend bool operator==(const Value&, const Value&) = default;
};

/// A parameter of an operation. Its printed form parses back to the same bits.
using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

/// One operation. Operands that it updates are states.
struct Node {
  Op op = Op::kAdd;
  std::vector<ValueId> operands;
  Attributes attributes;
  std::optional<ValueId> result;  // absent for operations that only update states

  /// The attribute `name`; a failed check when it is absent or of another type (the verifier has run before).
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<int64_t>& integers(std::string_view name) const;
  /// The same, or `otherwise` where it is absent.
  int64_t integer_or(std::string_view name, int64_t otherwise) const;
  double number_or(std::string_view name, double otherwise) const;
  bool has(std::string_view name) const { return attributes.find(name) != attributes.end(); }
  /// Whether the text attribute `name` is present and is `value`.
  bool has(std::string_view name, std::string_view value) const { return has(name) && text(name) == value; }

  friend bool operator==(const Node&, const Node&) = default;
};

/// A value that the host may read after a run.
struct Output {
  std::string name;
  ValueId value;

  friend bool operator==(const Output&, const Output&) = default;
};

/// One rank's step.
struct Graph {
  std::string name;   // "prefill" or "decode"
  int ranks = 1;      // tensor-parallel degree
  int rank = 0;       // the rank that runs this graph
  int64_t rows = 0;   // token rows of a step: the chunk in prefill, the slots in decode
  int64_t slots = 0;  // sequences that the states hold
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Output> outputs;

  const Value& value(ValueId id) const;
  /// The value named `name`, if it exists.
  std::optional<ValueId> find(std::string_view name) const;
  /// Every value of one kind, in order of creation.
  std::vector<ValueId> values_of(ValueKind kind) const;

  friend bool operator==(const Graph&, const Graph&) = default;
};

/// The states among the operands of `node` that hold what its sequences have been so far (keys and values, or what a
/// recurrent layer carries on): [slots, …], copied, handed over and kept with a slot. All other states are of the step.
std::vector<ValueId> sequence_states(const Node& node);

/// The most experts that a row is routed to: those that the moe_route of `routes` chooses, or all without one.
int64_t experts_of_row(const Graph& graph, ValueId routes);

/// A fingerprint of the whole graph: equal for equal graphs, on every machine.
uint64_t fingerprint(const Graph& graph);

/// Bytes, arithmetic and communication of one step with all rows in use; printed by `explain`.
struct StepCost {
  int64_t weight_bytes = 0;  // read once per step; of a table, one row per token; of experts, all local ones
  int64_t state_bytes = 0;   // reserved, not necessarily touched
  int64_t flops = 0;  // a multiply-add is 2; products with weights and recurrences (attention depends on the length);
                      // for experts, with evenly spread routing
  int64_t collectives = 0;       // number of collective operations
  int64_t collective_bytes = 0;  // what this rank contributes to them

  friend bool operator==(const StepCost&, const StepCost&) = default;
};
StepCost cost_of(const Graph& graph);

/// Bytes that a store keeps of `weight`: its elements, or codes and what its groups have beside them.
int64_t stored_bytes(const Graph& graph, ValueId weight);

/// The cost of one node. `cost_of` is the sum over the nodes.
struct NodeCost {
  int64_t weight_bytes = 0;  // of the weights read mostly by this node
  int64_t flops = 0;
  int64_t sent_bytes = 0;  // contributed by this rank; 0 without communication
  bool is_collective = false;

  friend bool operator==(const NodeCost&, const NodeCost&) = default;
};
/// In the order of `graph.nodes`.
std::vector<NodeCost> node_costs(const Graph& graph);

}  // namespace lockstep::graph
