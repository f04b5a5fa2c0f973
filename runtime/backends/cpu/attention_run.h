// The rows of an attention that share its tiles, with their scratch. Private to the attention.
#pragma once

#include "runtime/backends/cpu/attention.h"

namespace lockstep::cpu {

/// Consecutive rows of one slot and query heads of one cache head, with their scratch. Row r of the scratch belongs to
/// token `begin + r / readers` and reader `r % readers`.
struct AttentionTask::Run {
  int64_t begin = 0, end = 0;  // rows of the step
  int64_t slot = 0;
  int64_t head = 0;
  int64_t first_reader = 0;       // of its query heads, the first
  int64_t heads = 0;              // and their number
  std::byte* q = nullptr;         // [rows, padded head_dim], in the layout of `score`
  std::byte* pinned_q = nullptr;  // the same
  Range* seen = nullptr;          // [rows], positions visible to a row in the current pass
  float* scores = nullptr;        // [kTileRows, kPanel]
  float* slopes = nullptr;        // [rows]
  float* maximum = nullptr;       // [rows]
  float* sum = nullptr;           // [rows, kStrip]
  float* result = nullptr;        // [rows, values.padded_dim()]
  std::byte* keys = nullptr;      // of the current tile, if they are decoded
  std::byte* values = nullptr;    // the same, or if they are columns of the keys

  int64_t rows() const { return (end - begin) * heads; }
  int64_t token(int64_t r) const { return begin + r / heads; }
};

}  // namespace lockstep::cpu
