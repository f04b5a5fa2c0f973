// Checks that the rules of several operations share. Private to this folder.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/core/block_tree.h"
#include "runtime/graph/operations.h"

namespace lockstep::graph {

inline Error misfit(std::string message) { return {ErrorKind::kInvalidArgument, std::move(message)}; }

inline Error attribute_misfit(std::string_view name, const auto& found, std::string_view expected) {
  return misfit(fmt::format("attribute {}: found {}, expected {}", name, found, expected));
}

/// The attribute blocks as a split with one range for every rank of the graph.
Result<BlockSplit> read_blocks(const OperationUse& use);

/// Checks the attribute activations against operand `weight`: 8-bit integers of x have the groups of the weight, so
/// that needs codes and narrow groups.
Result<void> check_activations(const OperationUse& use, size_t weight);

Result<void> check_not_negative(const OperationUse& use, std::string_view name);

/// Checks that a text attribute is one of `allowed`; the error lists them.
Result<void> check_one_of(const OperationUse& use, std::string_view name,
                          std::initializer_list<std::string_view> allowed);

}  // namespace lockstep::graph
