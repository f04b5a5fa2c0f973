// 8-bit matrix products: rows of x are quantised, then each worker multiplies its panels. The order of sums is as in
// linear.h: groups in the order of K within a leaf, leaves along the tree.
#pragma once

#include <span>
#include <vector>

#include "runtime/backends/cpu/int8_packing.h"
#include "runtime/backends/cpu/linear.h"

namespace lockstep::cpu {

/// A packed weight.
struct Int8Weight {
  Int8Packing packing;
  const std::byte* data = nullptr;
};

/// A product, ready to run; members common with `LinearTask` have the same meaning.
struct Int8LinearTask : LinearResult {
  static constexpr bool arrange = true;  // x is quantised into scratch
  Int8Weight weight;
  Tensor x;  // [rows, k]
  bool has_halves = false;

  /// One sum over all of K; `result` is [rows, n].
  static Int8LinearTask plain(const Kernels& kernels, Int8Weight weight, Tensor x, Tensor result);
  /// The sums of `rank`'s leaves in `split`; `result` is [roots, rows, n].
  static Int8LinearTask blocks(const Kernels& kernels, Int8Weight weight, const BlockSplit& split, int rank, Tensor x,
                               Tensor result);

  /// Bytes of the scratch filled by `arrange_rows`.
  int64_t arranged_bytes() const { return x.rows * arranged_stride(); }
  int64_t arranged_stride() const { return arranged_stride_; }
  bool reads_rows_as_made() const { return false; }
  int64_t private_bytes() const;

  void arrange_rows(std::byte* arranged, Part part) const;
  /// Quantises one row of `x.dtype`.
  void arrange_made(ConstRow row, std::byte* to) const;
  std::span<const std::byte> first_weights(Part part) const;
  int64_t strips() const { return weight.packing.strips() / (has_halves ? 2 : 1); }
  Strips share(Part part) const { return share_of_product(strips(), x.rows, part); }
  bool has_panels_to_steal(int workers) const { return shares_are_panels(strips(), x.rows, workers); }
  void run(const std::byte* arranged, std::byte* private_scratch, Strips strips) const;

 private:
  static Int8LinearTask make(const Kernels& kernels, Int8Weight weight, Tensor x, Tensor result);
  /// Plans `leaves` in order, starting with leaf `first` of the tree.
  void plan(const std::vector<TreeLeaf>& leaves, int64_t first);
  Int8Segment segment_of(Range groups) const;
  void cut_into_slabs();
  Int8Operands operands_of(int64_t panel, Strips strips, const std::byte* arranged, Range rows) const;
  /// Few rows: all leaves of many panels in one call, so that weights are one unbroken stream.
  void stream(Strips strips, const std::byte* arranged, float* stack) const;
  /// Many rows: all rows use each slab of K while its weights are in the cache.
  void run_many(int64_t panel, Strips strips, const std::byte* arranged, float* sums) const;
  void run_segment(const Int8Segment& segment, Int8Product& product, float* stack) const;
  /// Prefetches the next slab, which is adjacent in memory: each tile of rows takes its part of it, during `segment`.
  void ask_for_next_slab(size_t slab, const Int8Segment& segment, int64_t tile, int64_t tiles,
                         Int8Product& product) const;
  /// Lines of steps and scales of a panel before a group.
  int64_t lines_before(int64_t group) const;
  int64_t slab_steps() const;
  /// Many rows are divided into tiles of equal size, up to one row.
  int64_t tile_rows() const;
  int64_t tile_floats() const;
  int64_t tile_count(int64_t rows) const;
  Range rows_of_tile(int64_t rows, int64_t tile) const;

  const Int8Kernels* int8_ = nullptr;
  std::vector<Int8Segment> leaves_;    // of the tree, in order
  std::vector<Int8Segment> segments_;  // the same, each at most a slab long
  std::vector<int64_t> slabs_;         // slab i is segments slabs_[i] … slabs_[i + 1] − 1
  int levels_ = 1;
  int64_t arranged_stride_ = 0, scales_offset_ = 0, offsets_offset_ = 0;  // of arranged rows
};

}  // namespace lockstep::cpu
