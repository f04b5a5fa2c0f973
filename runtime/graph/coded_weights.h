// Which operands of a node are weights in codes, and how their columns are cut into groups.
#pragma once

#include <optional>

#include "runtime/core/column_groups.h"
#include "runtime/core/weight_format.h"
#include "runtime/graph/graph.h"

namespace lockstep::graph {

/// Whether `op` may read operand `operand` in codes: a matrix of a product or of experts, or a table of embeddings.
bool may_be_coded(Op op, size_t operand);

/// The format of operand `operand` of `node`; empty if it has elements.
std::optional<WeightFormat> format_of(const Graph& graph, const Node& node, size_t operand);

/// The groups of such an operand's columns: its leaves, each cut into groups.
ColumnGroups column_groups(const Graph& graph, const Node& node, size_t operand);

/// Whether `node` quantises its rows to 8-bit integers, in the groups of its weight.
bool has_int8_activations(const Node& node);

/// The group of a product of 8-bit integers as runtime/core/int8_groups.h defines them: int8 activations, and weights
/// of the format q8g… without offsets and with float32 scales. 0: another product.
int64_t int8_group(const Graph& graph, const Node& node);

/// Bytes of `rows` rows in `format`, whose columns are cut into `groups`; the largest integer beyond it.
int64_t coded_bytes(int64_t rows, const ColumnGroups& groups, const WeightFormat& format);

}  // namespace lockstep::graph
