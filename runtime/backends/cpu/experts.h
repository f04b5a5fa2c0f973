// The products of a mixture of experts. Token rows are grouped by chosen expert; each expert runs only over its own
// rows, and an expert without rows is not read.
//
//   route [T, E] ──group──► rows of expert 0 │ rows of expert 1 │ …       row t of x is listed once per expert
//                 gather    x, laid out for the products
//                 inner     activation(gate · x) · (up · x)               workers share (expert, columns) by cost
//                 down      for each leaf: for each expert: total[t] += route · sum;  totals merge along the tree
//
// `down` processes as many leaves together as their totals fit in a cache. In a decode step these are all leaves, so
// the weights of an expert are one stream. A total starts at +0, so adding an expert or a leaf without a contribution
// to a row would not change a bit of it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/backends/cpu/expert_matrix.h"

namespace lockstep::cpu {

/// A leaf of the sum: a range of K of one expert or of all.
struct ExpertLeaf {
  TreeLeaf tree;
  std::optional<int64_t> expert;  // index among the rank's experts; empty: all
  Range range;                    // of down's K (ExpertMatrix)
  bool has_bias = false;

  /// The leaves of a moe_experts node: whole experts, or `block` columns of all.
  static std::vector<ExpertLeaf> whole(const ExpertMatrix& down, const BlockSplit& split, int rank);
  static std::vector<ExpertLeaf> blocks(const ExpertMatrix& down, const BlockSplit& split, int rank, int64_t block);
};

/// The operands of a moe_experts node.
struct ExpertOperands {
  Tensor x;                              // [rows, d]
  Tensor route;                          // f32 [rows, experts of all ranks]
  const int32_t* slot = nullptr;         // [rows], negative: padding, whose routing is ignored; null: no padding
  ExpertMatrix gate, up, down;           // of the rank's experts; gate and up read the same rows
  const std::byte* gate_bias = nullptr;  // [experts · columns], like up_bias; down_bias is [experts · d]; all or none
  const std::byte* up_bias = nullptr;
  const std::byte* down_bias = nullptr;
  int64_t first_expert = 0;
  int64_t most_per_row = 0;  // upper bound of this rank's experts for a row
  Activation activation;
  bool routes_on_inputs = false;             // a route multiplies gate · x and up · x, not the expert's sum
  std::optional<FakeQuantisation> rounding;  // of what down reads, float32
  Tensor result;                             // f32 [roots, rows, d]
};

/// The node, ready to run: the four steps above, with `arrange_inner` before `run_down` if `arranges_inner`.
class ExpertTask {
 public:
  ExpertTask(const Kernels& kernels, ExpertOperands operands, std::vector<ExpertLeaf> leaves);

  /// Bytes of the shared scratch, and of each worker's private scratch.
  int64_t shared_bytes() const { return shared_bytes_; }
  int64_t private_bytes() const;

  void group(std::byte* shared) const;
  void gather(std::byte* shared, Part part) const;
  void run_inner(std::byte* shared, std::byte* private_scratch, Part part) const;
  bool arranges_inner() const { return arranges_inner_; }
  void arrange_inner(std::byte* shared, Part part) const;
  void run_down(std::byte* shared, std::byte* private_scratch, Part part) const;

 private:
  /// The contents of the shared scratch.
  struct Lists {
    int32_t* first;  // [experts + 1]: expert e's entries are first[e] … first[e + 1] − 1 of `rows` and later arrays
    int32_t* active;      // the experts with entries, then −1
    int32_t* rows;        // of x
    float* routes;        // on the sums of the experts
    float* input_routes;  // on what they read; null: none
    std::byte* x;         // in kernel layout
    std::byte* inner;     // [·, columns] of the model's type
    std::byte* arranged;  // inner in the layout of run_down

    Range entries_of(int64_t expert) const { return {first[expert], first[expert + 1]}; }
  };
  Lists lists_in(std::byte* shared) const;
  void run_inner_tile(const Lists& lists, const ExpertTile& tile, float* sums, std::byte* scratch) const;
  void run_down_tile(const Lists& lists, ExpertTile tile, std::byte* scratch) const;
  /// Adds the parts of `leaves` of the tile's expert to their totals, [leaves, rows in use, kPanel].
  void add_expert(const Lists& lists, const ExpertTile& tile, std::span<const ExpertLeaf> leaves, float* sums,
                  float* totals, std::byte* scratch) const;
  /// The same for one row or two of weights in codes, some leaves at a time.
  void add_few(const Lists& lists, const ExpertTile& tile, std::span<const ExpertLeaf> leaves, float* sums,
               float* totals) const;
  /// Bytes of the sums of a tile.
  int64_t sums_size() const;
  /// Sums a leaf, and adds it to its totals in the product itself.
  void add_in_product(const Lists& lists, const ExpertTile& tile, Range steps, float* sums, float* totals) const;
  /// Adds an expert's finished sums, with its bias if the leaf has one, to the totals of a leaf.
  void add_routed(const Lists& lists, const ExpertTile& tile, bool has_bias, const float* sums, float* totals) const;
  ExpertRows down_rows(const Lists& lists, int64_t expert) const;
  /// Merges the total of a leaf into the stack; returns the stack's top.
  float* push(const TreeLeaf& leaf, const float* total, float* stack) const;

  const Kernels& kernels_;
  ExpertOperands operands_;
  std::vector<ExpertLeaf> leaves_;
  int64_t experts_;
  int64_t entries_;  // upper bound of the lists' length
  int levels_ = 1;
  bool has_other_layout_;  // down's rows
  bool arranges_inner_;
  int64_t inner_stride_, down_stride_;  // of a row of inner, as run_down reads it
  int64_t active_at_ = 0, rows_at_ = 0, routes_at_ = 0, input_routes_at_ = 0, x_at_ = 0, inner_at_ = 0,
          arranged_at_ = 0, shared_bytes_ = 0;
};

}  // namespace lockstep::cpu
