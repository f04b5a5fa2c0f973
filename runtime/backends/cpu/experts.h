// The products of a mixture of experts. Token rows are listed by the expert that they chose; each expert then runs over
// its own rows only, and an expert that no row chose is not read.
//
//   route [T, E] ──group──► rows of expert 0 │ rows of expert 1 │ …       row t of x stands once in each expert's list
//                 gather    x, laid out for the products
//                 inner     activation(gate · x) · (up · x)               workers share (expert, columns) by cost
//                 down      for each leaf: for each expert: total[t] += route · sum;  totals merge along the tree
//
// `down` takes as many leaves at a time as their totals fit in a cache: in a decode step all of them, so that the
// weights of an expert are one stream. A total starts at +0, so that adding an expert or a leaf which has nothing for a
// row would change no bit of it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/backends/cpu/linear.h"

namespace lockstep::cpu {

/// A leaf of the sum: a stretch of K of one expert or of all.
struct ExpertLeaf {
  TreeLeaf tree;
  std::optional<int64_t> expert;  // of the rank's; absent: all
  Range steps;                    // of down's K
  bool has_bias = false;

  /// The leaves of a moe_experts node: whole experts, or `block` columns of all.
  static std::vector<ExpertLeaf> whole(const Packing& down, const BlockSplit& split, int rank);
  static std::vector<ExpertLeaf> blocks(const Packing& down, const BlockSplit& split, int rank, int64_t block);
};

/// The operands of a moe_experts node.
struct ExpertOperands {
  Tensor x;                              // [rows, d]
  Tensor route;                          // f32 [rows, experts of all ranks]
  const int32_t* slot = nullptr;         // [rows], below 0: padding, whose choice is ignored; null: no padding
  PackedWeight gate, up, down;           // parts: the rank's experts
  const std::byte* gate_bias = nullptr;  // [experts · columns], as up_bias; down_bias is [experts · d]; all or none
  const std::byte* up_bias = nullptr;
  const std::byte* down_bias = nullptr;
  int64_t first_expert = 0;
  int64_t most_per_row = 0;  // experts of this rank that a row can choose
  Activation activation;
  Tensor result;  // f32 [roots, rows, d]
};

/// The node, ready to run: the four steps above, and `arrange_inner` before `run_down` where `arranges_inner`.
class ExpertTask {
 public:
  ExpertTask(const Kernels& kernels, ExpertOperands operands, std::vector<ExpertLeaf> leaves);

  /// Bytes of the scratch that the steps share, and of each worker's own.
  int64_t shared_bytes() const { return shared_bytes_; }
  int64_t private_bytes() const;

  void group(std::byte* shared) const;
  void gather(std::byte* shared, Part part) const;
  void run_inner(std::byte* shared, std::byte* private_scratch, Part part) const;
  bool arranges_inner() const { return arranges_inner_; }
  void arrange_inner(std::byte* shared, Part part) const;
  void run_down(std::byte* shared, std::byte* private_scratch, Part part) const;

 private:
  /// What lies in the shared scratch.
  struct Lists {
    int32_t* first;  // [experts + 1]: expert e's entries are first[e] … first[e + 1] − 1 of `rows` and what follows
    int32_t* active;  // the experts that have entries, then −1
    int32_t* rows;    // of x
    float* routes;
    std::byte* x;         // arranged
    std::byte* inner;     // [·, columns] of the model's type
    std::byte* arranged;  // inner as run_down reads it

    Range entries_of(int64_t expert) const { return {first[expert], first[expert + 1]}; }
  };
  struct Tile {
    int64_t panel;
    Strips strips;
    int64_t column() const { return panel * kPanel + strips.begin * kStrip; }
  };

  Lists lists_in(std::byte* shared) const;
  void run_inner_tile(const Lists& lists, int64_t expert, Tile tile, float* sums) const;
  void run_down_tile(const Lists& lists, Tile tile, float* scratch) const;
  /// Adds an expert's parts of `leaves` to their totals, [leaves, rows in use, kPanel]. `product` has what is the same
  /// for all experts and leaves.
  void add_expert(const Lists& lists, int64_t expert, std::span<const ExpertLeaf> leaves, Product product,
                  int64_t column, float* sums, float* totals) const;
  /// Adds an expert's finished sums with its bias to the totals of a leaf.
  void add_biased(const Lists& lists, int64_t expert, int strips, int64_t column, const float* sums,
                  float* totals) const;
  /// Merges the total of a leaf into the stack; the result is the stack's top.
  float* push(const TreeLeaf& leaf, const float* total, float* stack) const;

  const Kernels& kernels_;
  ExpertOperands operands_;
  std::vector<ExpertLeaf> leaves_;
  int64_t experts_;
  int64_t entries_;  // of the lists, at most
  int levels_ = 1;
  bool arranges_inner_;
  int64_t inner_stride_, down_stride_, down_bytes_;  // of a row of inner, as run_down reads it, of an expert's weights
  ProductFunction down_product_;
  int64_t active_at_ = 0, rows_at_ = 0, routes_at_ = 0, x_at_ = 0, inner_at_ = 0, arranged_at_ = 0, shared_bytes_ = 0;
};

}  // namespace lockstep::cpu
