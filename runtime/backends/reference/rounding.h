// Rounding of rows to codes in 8 bits (fake_quantise in runtime/graph/OPERATIONS.md).
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::reference {

struct CodeRounding {
  bool is_e4m3 = false;          // else integers
  int64_t group = 0;             // columns that share a scale
  const float* scale = nullptr;  // one for all; null: of each group's largest magnitude
};

/// Writes row.size() values; dst may be the row.
void round_row(std::span<const float> row, const CodeRounding& how, float* dst);

}  // namespace lockstep::reference
