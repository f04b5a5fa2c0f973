// Matrix products in 8 bits: rows of x are quantised once by all workers, then each worker multiplies its panels. The
// order of sums is that of linear.h: groups in the order of K within a leaf, leaves along the tree.
#pragma once

#include <vector>

#include "runtime/backends/cpu/int8_packing.h"
#include "runtime/backends/cpu/linear.h"

namespace lockstep::cpu {

/// A packed weight.
struct Int8Weight {
  Int8Packing packing;
  const std::byte* data = nullptr;
};

/// A product that is ready to run.
class Int8LinearTask {
 public:
  /// One sum over all of K; `result` is [rows, n].
  static Int8LinearTask plain(const Kernels& kernels, Int8Weight weight, Tensor x, Tensor result);
  /// The sums of the leaves that `split` gives to `rank`; `result` is [roots, rows, n].
  static Int8LinearTask blocks(const Kernels& kernels, Int8Weight weight, const BlockSplit& split, int rank, Tensor x,
                               Tensor result);

  void set_bias(const std::byte* bias, DType type) {
    bias_ = bias;
    bias_type_ = type;
  }

  /// Bytes of the scratch that `arrange` fills, shared by the workers.
  int64_t arranged_bytes() const { return x_.rows * weight_.packing.arranged_bytes(); }
  /// Bytes of scratch that each worker needs for itself.
  int64_t private_bytes() const;

  /// Quantises the part's share of x; before `run`.
  void arrange(std::byte* arranged, Part part) const;
  /// Computes the part's share of the columns.
  void run(const std::byte* arranged, std::byte* private_scratch, Part part) const;

 private:
  Int8LinearTask(const Kernels& kernels, Int8Weight weight, Tensor x, Tensor result);
  /// Adds the segments of a leaf's groups, at `level` of the stack.
  void add_leaf(Range groups, int level);
  void cut_into_slabs();
  void run_panel(int64_t panel, Strips strips, const std::byte* arranged, float* sums) const;
  void run_segment(const Segment& segment, Int8Product product, float* stack, int64_t row, int64_t column) const;

  const Kernels* kernels_;
  const Int8Kernels* int8_;
  Int8Weight weight_;
  std::vector<Segment> segments_;  // in groups
  std::vector<int64_t> slabs_;     // slab i is segments slabs_[i] … slabs_[i + 1] − 1
  int levels_ = 1;
  Tensor x_;
  Tensor result_;
  const std::byte* bias_ = nullptr;
  DType bias_type_ = DType::kFloat32;
};

}  // namespace lockstep::cpu
