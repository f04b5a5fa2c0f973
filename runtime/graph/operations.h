// The table of operations: operands, attributes and result of each, one row per operation.
//
// The verifier, the builder and the text form read this table. A new operation is one row, one rule if patterns cannot
// express it, and one line in OPERATIONS.md. Used inside this folder and by its tests.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/graph/type_pattern.h"

namespace lockstep::graph {

/// The largest dimension, number of leaves or block of columns: products of two stay inside 64 bits.
inline constexpr int64_t kMaxSize = (int64_t{1} << 31) - 1;
/// The largest tensor-parallel degree of a graph.
inline constexpr int kMaxRanks = 1 << 16;

/// How an operand is used. A plain operand is required and only read.
enum class OperandUse { kRead, kOptional, kUpdated };

struct OperandRule {
  std::string_view name;
  std::string_view type;  // a pattern (type_pattern.h)
  OperandUse use = OperandUse::kRead;
};

/// The alternatives of `Attribute`, in the same order.
enum class AttributeKind { kInteger, kNumber, kText, kIntegers };

struct AttributeRule {
  std::string_view name;
  AttributeKind kind = AttributeKind::kInteger;
  bool required = true;
};

/// One use of an operation, as its rule sees it: the bindings of the patterns' letters so far, and the attributes,
/// already checked to be complete and of the right kinds.
struct OperationUse {
  const Graph& graph;
  const Node& node;  // without a result yet
  Symbols symbols;

  bool has_operand(size_t index) const { return index < node.operands.size(); }
};

/// Checks what patterns cannot express and binds letters of the result. The error's message is the part after the name
/// of the operation: "attribute heads: found 3, expected a divisor of 64".
using OperationRule = Result<void> (*)(OperationUse& use);

struct Operation {
  Op op = Op::kAdd;
  std::string_view name;
  std::vector<OperandRule> operands;  // optional ones last
  std::vector<AttributeRule> attributes;
  std::string_view result;  // a pattern; empty for an operation without a result
  OperationRule rule = nullptr;
  bool is_collective = false;  // all ranks execute it together
};

/// All rows, in the order of `Op`.
const std::vector<Operation>& operations();

/// The row of `op`.
const Operation& operation(Op op);

}  // namespace lockstep::graph
