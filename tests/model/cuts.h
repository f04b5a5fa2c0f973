// The partitions of a job's work, and a selection that covers every pair of choices.
#pragma once

#include <vector>

namespace lockstep::model {

/// Rows of choices, one number below `sizes[i]` for each factor i, such that every pair of choices of two factors
/// stands in some row. Deterministic; greedy, so not the fewest possible.
std::vector<std::vector<int>> covering_rows(const std::vector<int>& sizes);

/// Every combination of choices.
std::vector<std::vector<int>> all_rows(const std::vector<int>& sizes);

}  // namespace lockstep::model
