// A stacked weight of experts, as elements or in codes, and its sums for some rows.
#pragma once

#include <optional>
#include <span>
#include <variant>

#include "runtime/backends/cpu/coded_packing.h"
#include "runtime/backends/cpu/linear.h"

namespace lockstep::cpu {

/// Some strips of a panel of one expert's matrix.
struct ExpertTile {
  int64_t expert = 0;
  int64_t panel = 0;
  Strips strips;

  int64_t column() const { return panel * kPanel + strips.begin * kStrip; }
};

/// Arranged rows of x.
struct ExpertRows {
  const std::byte* first = nullptr;
  int64_t stride = 0;  // bytes between rows
  int64_t count = 0;
};

class ExpertMatrix {
 public:
  ExpertMatrix() = default;
  ExpertMatrix(PackedWeight weight) : weight_(weight) {}  // NOLINT: either kind of weight is a matrix
  ExpertMatrix(CodedWeight weight) : weight_(weight) {}   // NOLINT

  int64_t n() const;  // of one expert
  int64_t k() const;
  int64_t experts() const;
  int64_t strips() const { return (n() + kStrip - 1) / kStrip; }
  int64_t panels() const { return (strips() + kPanelStrips - 1) / kPanelStrips; }
  /// Null if the weight is in codes.
  const PackedWeight* packed() const { return std::get_if<PackedWeight>(&weight_); }
  const CodedWeight* coded() const { return std::get_if<CodedWeight>(&weight_); }

  /// Rows of x in the layout of the kernels.
  int64_t arranged_bytes() const;
  bool needs_arranging(DType dtype) const;
  void arrange(const Kernels& kernels, ConstRow x, std::byte* dst) const;
  /// Whether `other` reads rows in the same layout.
  bool reads_same_rows(const ExpertMatrix& other) const;

  /// A range of K: of leaf `own` of `block` columns, or all. In steps, or in groups of a weight in codes.
  Range range_of_leaf(int64_t own, int64_t block) const;
  Range range() const;

  /// Bytes of scratch that `sum` needs.
  int64_t scratch_bytes() const;
  /// Sums `range` for all rows into `sums`, [tiles, kTileRows, kPanel].
  void sum(const Kernels& kernels, const ExpertTile& tile, Range range, const ExpertRows& x, float* sums,
           std::byte* scratch) const;

  /// The most ranges of one call of `sum_few`.
  static constexpr size_t kMostRanges = 8;
  /// The same for one row or two of a weight in codes and several ranges at once: sums [ranges, kFewRowsTile, kPanel].
  void sum_few(const Kernels& kernels, const ExpertTile& tile, std::span<const Range> groups, const ExpertRows& x,
               float* sums) const;
  /// Prefetches the first codes of a tile, because their stream is not the one that is read before.
  void ask_for(const ExpertTile& tile) const;

 private:
  CodedWeights codes_of(const ExpertTile& tile) const;
  void sum_coded(const CodedWeight& weight, const CodedKernels& coded, const ExpertTile& tile, Range groups,
                 const ExpertRows& x, float* sums, std::byte* scratch) const;

  std::variant<PackedWeight, CodedWeight> weight_;
};

}  // namespace lockstep::cpu
