// Attention over the tiles of a slot's cache, from the first to the one that holds the row's own position. A row and a
// head take one tile after the other, alone in their arithmetic: prefill and decode differ only in how many rows share
// the reading of a tile.
//
//   tile 0  tile 1  tile 2          rows of a block at positions 130 … 133: tiles 0 and 1 are complete for all of
//   ██████  ██████  ███·····        them and are read once; in tile 2 each token reads up to itself
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/backends/cpu/kv_layout.h"
#include "runtime/backends/cpu/tensor.h"
#include "runtime/backends/cpu/thread_team.h"

namespace lockstep::cpu {

/// An attention node that is ready to run.
struct AttentionTask {
  const Kernels* kernels = nullptr;
  ProductFunction score = nullptr;  // over tiles of keys
  ProductFunction weigh = nullptr;  // over tiles of values
  CacheLayout keys, values;
  Tensor q;                           // [rows, heads · head_dim]
  const int32_t* slot = nullptr;      // [rows]
  const int32_t* position = nullptr;  // [rows]
  float scale = 1;
  Tensor result;                          // [rows, heads · head_dim]
  std::vector<std::vector<int>> readers;  // per cache head, the query heads that read it
  int64_t block_tokens = 1;               // token rows that share the reading of a tile

  static AttentionTask make(const Kernels& kernels, const CacheLayout& keys, const CacheLayout& values,
                            const std::vector<int64_t>& head_map, int64_t rows);

  /// Bytes of scratch that each worker needs for itself.
  int64_t private_bytes() const;
  /// Computes the part's share of (block of rows, cache head). Padding rows become zeros.
  void run(std::byte* private_scratch, Part part) const;

 private:
  struct Run;
  int64_t most_rows() const;
  void run_block(int64_t begin, int64_t end, int64_t head, std::byte* scratch) const;
  void run_tokens(const Run& run) const;
  void run_tile(const Run& run, int64_t tile, int64_t first_row, int64_t rows, int64_t valid) const;
};

}  // namespace lockstep::cpu
