// Attention over the tiles of a slot's cache.
//
// The tiles are those from the first visible key to the row's position. Each row and head processes one tile after the
// other, with arithmetic independent of other rows. Prefill and decode differ only in how many rows share a read.
//
//   tile 0  tile 1  tile 2  tile 3      window 100, a block of rows at positions 194 … 197: tile 0 is skipped;
//   ······  ····██  ██████  ██····      all rows see all of tile 2; at both edges each token is summed separately
//
// Pinned keys are processed first, in a separate pass over their tiles, since they may share a tile with the window and
// may use another query.
//
// Tiles in 8 bits are multiplied as integers (kernels/attend_codes.h), where the machine has products of bytes and q is
// in 16 bits; elsewhere they are decoded to float32 first, once for all rows of a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "runtime/backends/cpu/kernels/coded.h"
#include "runtime/backends/cpu/kv_layout.h"
#include "runtime/backends/cpu/tensor.h"
#include "runtime/backends/cpu/thread_team.h"
#include "runtime/core/block_tree.h"

namespace lockstep::cpu {

/// The visible keys of a row and the formula of a score from q · k; absent parts are off.
struct AttentionRule {
  float scale = 1;
  int64_t window = std::numeric_limits<int64_t>::max();  // keys that a row sees, including itself
  bool chunked = false;                                  // only those since the last multiple of the window
  int64_t pinned = 0;                                    // first positions, visible to every row
  float soft_cap = 0;

  /// The positions beyond the pinned ones that are visible to the row at `position`.
  Range keys_of(int64_t position) const;
  /// The pinned positions visible to it.
  Range pinned_keys_of(int64_t position) const;
};

/// An attention node, ready to run.
struct AttentionTask {
  const Kernels* kernels = nullptr;
  const CodedKernels* integers = nullptr;
  ProductFunction score = nullptr;  // over tiles of keys
  ProductFunction weigh = nullptr;  // over tiles of values
  CacheLayout keys, values;
  bool values_in_keys = false;  // values are the first columns of the keys, copied tile by tile in their own layout
  AttentionRule rule;
  Tensor q;                               // [rows, heads · head_dim]
  Tensor pinned_q;                        // the same, for the pinned keys
  Tensor sinks;                           // [heads]: a logit with dropped probability; no data: none
  Tensor slopes;                          // [heads]: times (key − position) is added to a score; no data: none
  const int32_t* slot = nullptr;          // [rows]
  const int32_t* position = nullptr;      // [rows]
  Tensor result;                          // [rows, heads · head_dim of the values]
  std::vector<std::vector<int>> readers;  // per cache head, the query heads that read it
  int64_t block_tokens = 1;               // token rows that share a read of a tile
  int64_t reader_shares = 1;              // into which the readers of a cache head are divided
  /// If set, called for each row and cache head first. Not with several shares, which would call it once each.
  std::function<void(int64_t row, int64_t head)> prepare;

  static AttentionTask make(const Kernels& kernels, const CacheLayout& keys, const CacheLayout& values,
                            const std::vector<int64_t>& head_map);
  /// The same if the first `value_columns` of a key are its value.
  static AttentionTask make_latent(const Kernels& kernels, const CacheLayout& keys, int64_t value_columns,
                                   const std::vector<int64_t>& head_map);
  /// Chooses blocks of rows for steps of up to `rows` rows, with neighbours from one sequence: many rows share a read
  /// of a tile.
  void block_for_prefill(int64_t rows);
  /// Chooses blocks for steps with `rows_per_slot` rows of each sequence: as many units of work as possible.
  void block_for_decode(int64_t rows_per_slot);

  /// Divides the query heads of a cache head if there are fewer units of work than workers.
  void share_readers(int64_t rows, int workers);

  /// Bytes of scratch for each worker.
  int64_t private_bytes() const;
  /// Computes the part's share of (block of rows, cache head, share of its readers). Padding rows become zeros.
  void run(std::byte* private_scratch, Part part) const;

 private:
  struct Run;
  size_t most_readers() const;
  int64_t query_head(const Run& run, int64_t r) const;  // of row r of its scratch
  int64_t q_row_bytes() const;
  bool is_paired() const { return keys.pairs && values.pairs; }
  /// Whether tiles in 8 bits are multiplied as they are.
  bool multiplies_codes() const;
  /// Whether tiles in 8 bits are decoded first.
  bool decodes() const { return keys.is_coded() && !multiplies_codes(); }
  /// Whether one kernel takes a tile of keys and values; a row's maximum is then an origin
  /// (kernels/attend_exponents.h).
  bool has_origins() const { return is_paired() || multiplies_codes(); }
  int rows_of_kernel() const { return is_paired() ? kernels->attended_rows : kTileRows; }
  int64_t lay_out(std::byte* scratch, Run& run) const;
  void run_block(Run& run) const;
  void run_tokens(const Run& run) const;
  void open_row(const Run& run, int64_t r) const;
  void split_query(ConstRow query, std::byte* dst) const;
  void decode_tile(const Run& run, int64_t tile) const;
  void load_query(const Tensor& from, int64_t row, int64_t column, std::byte* dst) const;
  /// A tile of keys or of values: of their cache, or the run's copy.
  const std::byte* keys_of(const Run& run, int64_t tile) const;
  const std::byte* values_of(const Run& run, int64_t tile) const;
  /// Makes the run's copies of a tile, if it has any.
  void copy_tile(const Run& run, int64_t tile) const;
  DType elements_of(const CacheLayout& cache) const { return decodes() ? DType::kFloat32 : cache.dtype; }
  void run_pass(const Run& run, const std::byte* queries, Range (AttentionRule::*visible)(int64_t) const) const;
  void run_tile(const Run& run, const std::byte* queries, int64_t tile) const;
  void run_joint_tile(const Run& run, const std::byte* queries, int64_t tile, Range common) const;
  void weigh_rows(const Run& run, int64_t tile, float* scores, Range rows, Range seen) const;
};

}  // namespace lockstep::cpu
