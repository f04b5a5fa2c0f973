// The table of operations: one row per operation says its operands, attributes and result. The verifier, the builder
// and the text form read this table, so a new operation is one row, one rule where a pattern cannot say it all, and one
// line in OPERATIONS.md. Used inside this folder and by its tests.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/graph/type_pattern.h"

namespace lockstep::graph {

/// The largest dimension, number of leaves or block of columns: products of two stay inside 64 bits.
inline constexpr int64_t kMaxSize = (int64_t{1} << 31) - 1;
/// The largest tensor-parallel degree that a graph may state.
inline constexpr int kMaxRanks = 1 << 16;

/// Marks of an operand; a plain one is present and only read.
enum class OperandUse { kRead, kOptional, kUpdated };

struct OperandRule {
  std::string_view name;
  std::string_view type;  // a pattern (type_pattern.h)
  OperandUse use = OperandUse::kRead;
};

/// The alternatives of `Attribute`, in its order.
enum class AttributeKind { kInteger, kNumber, kText, kIntegers };

struct AttributeRule {
  std::string_view name;
  AttributeKind kind = AttributeKind::kInteger;
  bool required = true;
};

/// One use of an operation while its rule looks at it: what is known of the patterns' letters, and the attributes,
/// which are all there and of their kinds.
struct OperationUse {
  const Graph& graph;
  const Node& node;  // without a result yet
  Symbols symbols;

  bool has_operand(size_t index) const { return index < node.operands.size(); }
};

/// Checks what patterns cannot say and binds letters of the result. The error's message is the part after the name of
/// the operation: "attribute heads: found 3, expected a divisor of 64".
using OperationRule = Result<void> (*)(OperationUse& use);

struct Operation {
  Op op = Op::kAdd;
  std::string_view name;
  std::vector<OperandRule> operands;  // optional ones last
  std::vector<AttributeRule> attributes;
  std::string_view result;  // a pattern; empty for an operation without a result
  OperationRule rule = nullptr;
  bool is_collective = false;  // every rank has to run it
};

/// All rows, in the order of `Op`.
const std::vector<Operation>& operations();

/// The row of `op`.
const Operation& operation(Op op);

}  // namespace lockstep::graph
