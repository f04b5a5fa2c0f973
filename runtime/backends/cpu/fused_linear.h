// A product fused with the work around it. There are no barriers in between, which would dominate steps with few rows:
// every intermediate value is read by the worker that computed it.
//
//   each worker, all rows      norm ──► its own copy of x          few rows only: each worker computes all of it
//   its share of the columns   product ──► round ──► + residual    or gate, up ──► activation(gate) · up
//   ── barrier ──
//
// A worker may finish all of this while another still fills its copy of x, so the buffer plan keeps the group's inputs
// until its end.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/backends/cpu/linear_coded.h"
#include "runtime/backends/cpu/stealable_shares.h"

namespace lockstep::cpu {

/// Up to this many rows without a fused norm, each worker quantises or sums all of them itself.
constexpr int64_t kRowsQuantisedTwice = 2;

class FusedLinear {
 public:
  using MakeRow = std::function<void(int64_t row, std::byte* dst)>;
  using Tail = std::function<void(Range columns)>;

  explicit FusedLinear(LinearTask task) : task_(std::move(task)) {}
  explicit FusedLinear(CodedLinearTask task) : task_(std::move(task)) {}

  void set_bias(const std::byte* values, DType type);
  /// Each worker arranges all rows of x itself.
  void arrange_alone();
  /// Each worker also computes these rows first, with x's type, from the data in x's place.
  void make_rows(MakeRow make_row);
  /// Work done afterwards, in order, on columns that the worker computed (of the result, or of each of its halves).
  void add_tail(Tail tail) { tails_.push_back(std::move(tail)); }
  bool has_tails() const { return !tails_.empty(); }

  /// Workers that have finished take over panels that others have not begun.
  void steal_between(int workers) { shares_ = StealableShares(workers); }

  /// The destination of the sums; may change before each step.
  Tensor& result();
  /// Gives a worker the same share of both halves of the columns.
  void take_halves();
  /// Bytes of scratch for `arrange_rows`. If not 0, all workers must call it together before `run`.
  int64_t shared_bytes() const;
  void arrange_rows(std::byte* arranged, Part part) const;
  /// Bytes of scratch for each worker.
  int64_t private_bytes() const;
  std::span<const std::byte> first_weights(Part part) const;
  /// Computes the part's share, with panels stolen from and by others; `arranged` was filled by `arrange_rows`.
  void run(const std::byte* arranged, std::byte* private_scratch, Part part);

 private:
  /// Computes some columns and the work after them.
  template <typename Task>
  void run_strips(const Task& task, const std::byte* arranged, std::byte* scratch, Strips strips) const;

  std::variant<LinearTask, CodedLinearTask> task_;
  MakeRow make_row_;
  bool arranges_alone_ = false;
  StealableShares shares_{0};  // without workers: no panels move
  std::vector<Tail> tails_;
};

}  // namespace lockstep::cpu
