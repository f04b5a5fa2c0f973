// Which outputs of a stored matrix are the rows of a tensor. Private to this folder.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/checkpoint/model_spec.h"
#include "runtime/checkpoint/stored_names.h"

namespace lockstep::checkpoint {

/// The stored outputs of a tensor: row r is output first + r / group · group_step + r mod group · step.
struct OutputRows {
  int64_t first = 0;
  int64_t count = 0;
  int64_t step = 1;
  int64_t group = 0;  // 0: all rows form one group
  int64_t group_step = 0;
  int64_t set = 0;  // groups; as in TensorView
  int64_t set_step = 0;

  int64_t output_of(int64_t row) const {
    if (group == 0) return first + row * step;
    if (set != 0) return first + row / group / set * set_step + row / group % set * group_step + row % group * step;
    return first + row / group * group_step + row % group * step;
  }
  /// How many rows from `row` on are neighbouring outputs; at most `most`.
  int64_t run(int64_t row, int64_t most) const {
    if (step != 1) return 1;
    return group == 0 || most < group - row % group ? most : group - row % group;
  }
};

/// The rows selected by `outputs` from `total`; empty when `total` is not divisible accordingly.
std::optional<OutputRows> choose_rows(Outputs outputs, int64_t total, const ModelSpec& spec);

/// The halves of each head, whose rows alternate in the file; empty when `total` is not a number of such heads.
std::optional<OutputRows> halves_of_heads(int64_t total, int64_t head);

}  // namespace lockstep::checkpoint
