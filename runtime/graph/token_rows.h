// Which values of a step have a row for each of its tokens, and which of these rows are padding.
#pragma once

#include <optional>
#include <vector>

#include "runtime/graph/graph.h"

namespace lockstep::graph {

/// By ValueId: whether the value is a result with a row for each token row of the step.
std::vector<bool> token_rows(const Graph& graph);

/// The value that marks padding rows of a step: the slot operand shared by all cache operations, if it is known before
/// any row is computed.
std::optional<ValueId> slot_of_rows(const Graph& graph);

}  // namespace lockstep::graph
