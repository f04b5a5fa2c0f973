// Matrix products with weights in codes. The order of sums is as in linear.h: groups in the order of K within a leaf,
// leaves along the tree.
//
//   few rows     all leaves of many panels in one call: codes are one unbroken stream, expanded in registers
//   more rows    slab by slab of a panel: codes ──expand──► steps in the first-level cache, read by all tiles of rows
#pragma once

#include <span>
#include <vector>

#include "runtime/backends/cpu/coded_packing.h"
#include "runtime/backends/cpu/linear.h"

namespace lockstep::cpu {

/// A product, ready to run; members common with `LinearTask` have the same meaning.
struct CodedLinearTask : LinearResult {
  CodedWeight weight;
  Tensor x;  // [rows, k]
  bool arrange = true;
  bool has_halves = false;

  /// One sum over all of K; `result` is [rows, n]. Null: the machine's best `coded` kernels.
  static CodedLinearTask plain(const Kernels& kernels, CodedWeight weight, Tensor x, Tensor result,
                               const CodedKernels* coded = nullptr);
  /// The sums of `rank`'s leaves in `split`; `result` is [roots, rows, n].
  static CodedLinearTask blocks(const Kernels& kernels, CodedWeight weight, const BlockSplit& split, int rank, Tensor x,
                                Tensor result, const CodedKernels* coded = nullptr);

  /// Bytes of the scratch filled by `arrange_rows`.
  int64_t arranged_bytes() const { return arrange ? x.rows * arranged_stride() : 0; }
  int64_t arranged_stride() const { return arranged_stride_; }
  bool reads_rows_as_made() const { return !weight.packing.needs_arranging(x.dtype); }
  int64_t private_bytes() const;

  void arrange_rows(std::byte* arranged, Part part) const;
  /// Arranges one row of `x.dtype`.
  void arrange_made(ConstRow row, std::byte* to) const;
  std::span<const std::byte> first_weights(Part part) const;
  int64_t strips() const { return weight.packing.strips() / (has_halves ? 2 : 1); }
  Strips share(Part part) const { return share_of_product(strips(), x.rows, part); }
  bool has_panels_to_steal(int workers) const { return shares_are_panels(strips(), x.rows, workers); }
  void run(const std::byte* arranged, std::byte* private_scratch, Strips strips) const;

 private:
  static CodedLinearTask make(const Kernels& kernels, CodedWeight weight, Tensor x, Tensor result,
                              const CodedKernels* coded);
  /// Plans `leaves` in order, starting with leaf `first` of the tree.
  void plan(const std::vector<TreeLeaf>& leaves, int64_t first);
  CodedSegment segment_of(Range groups) const;
  void cut_into_slabs();
  ArrangedRows rows_of(const std::byte* arranged, Range rows) const;
  void stream(Strips strips, const std::byte* arranged, float* stack) const;
  void run_many(int64_t panel, Strips strips, const std::byte* arranged, std::byte* scratch) const;
  /// The weights of a slab in steps: expanded into `scratch`, or those of the panel.
  const std::byte* steps_of_slab(size_t slab, const CodedWeights& weights, std::byte* scratch) const;
  /// A tile of rows, of `count`.
  struct TileOf {
    int64_t index;
    int64_t count;
  };
  /// Multiplies one tile of rows by a slab in steps.
  void run_tile(size_t slab, const CodedWeights& weights, const std::byte* steps, const std::byte* arranged,
                TileOf tile, int64_t column, GroupProduct& product, float* stack) const;
  void run_segment(const CodedSegment& segment, GroupProduct& product, float* stack) const;
  /// Prefetches the next slab, which is adjacent in memory: each tile of rows takes its part of it, during `segment`.
  void ask_for_next_slab(size_t slab, const CodedWeights& weights, const CodedSegment& segment, TileOf tile,
                         GroupProduct& product) const;
  int64_t lines_in(const CodedSegment& segment) const;

  /// Steps, scales and offsets, in lines of the slab, from one segment of a slab to another.
  int64_t expanded_lines(const CodedSegment& from, const CodedSegment& to) const;
  bool is_tiled() const { return coded_->tiled_product != nullptr && weight.packing.dots == DotKind::kBytes; }
  int64_t slab_steps() const;
  /// Bytes of a slab in steps; 0: it is read from the panel.
  int64_t expanded_bytes() const;
  /// Many rows are divided into tiles of equal size, up to one row.
  int64_t tile_rows() const;
  int64_t tile_floats() const;
  int64_t tile_count(int64_t rows) const;
  Range rows_of_tile(int64_t rows, int64_t tile) const;

  const CodedKernels* coded_ = nullptr;
  std::vector<CodedSegment> leaves_;    // of the tree, in order
  std::vector<CodedSegment> segments_;  // the same, each at most a slab long
  std::vector<int64_t> slabs_;          // slab i is segments slabs_[i] … slabs_[i + 1] − 1
  int levels_ = 1;
  int64_t arranged_stride_ = 0;
};

}  // namespace lockstep::cpu
