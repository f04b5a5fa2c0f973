// A product and the work around it that needs no barrier of its own, so that a step of few rows is not spent at
// barriers. What a worker reads in between it has made itself:
//
//   each worker, all rows      norm ──► its own copy of x          few rows only: each worker makes all of it
//   its share of the columns   product ──► round ──► + residual    or gate, up ──► activation(gate) · up
//   ── barrier ──
//
// A worker may be done with all of this while another still makes its copy of x: the buffer plan keeps what the group
// reads until its end.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/backends/cpu/linear_int8.h"
#include "runtime/backends/cpu/stealable_shares.h"

namespace lockstep::cpu {

/// Up to so many rows that no norm makes, each worker quantises all of them for itself.
constexpr int64_t kRowsQuantisedTwice = 2;

class FusedLinear {
 public:
  using MakeRow = std::function<void(int64_t row, std::byte* dst)>;
  using Tail = std::function<void(Range columns)>;

  explicit FusedLinear(LinearTask task) : task_(std::move(task)) {}
  explicit FusedLinear(Int8LinearTask task) : task_(std::move(task)) {}

  void set_bias(const std::byte* values, DType type);
  /// Each worker lays all rows of x out for itself.
  void arrange_alone();
  /// And makes each of them first, of x's type, from what stands in its place.
  void make_rows(MakeRow make_row);
  /// Is done afterwards, in order, for columns that the worker computed (of the result, or of each of its halves).
  void add_tail(Tail tail) { tails_.push_back(std::move(tail)); }
  bool has_tails() const { return !tails_.empty(); }

  /// Workers who are done take over panels that others have not begun.
  void steal_between(int workers) { shares_ = StealableShares(workers); }

  /// Where the sums go, which may be set anew before each step.
  Tensor& result();
  /// A worker takes the same share of both halves of the columns.
  void take_halves();
  /// Bytes of scratch that `arrange_rows` fills, if that has to be done, by all workers together, before `run`.
  int64_t shared_bytes() const;
  void arrange_rows(std::byte* arranged, Part part) const;
  /// Bytes of scratch that each worker needs for itself.
  int64_t private_bytes() const;
  std::span<const std::byte> first_weights(Part part) const;
  /// Computes the part's share, more or less; `arranged` is what `arrange_rows` made.
  void run(const std::byte* arranged, std::byte* private_scratch, Part part);

 private:
  /// Computes some columns and what follows them.
  template <typename Task>
  void run_strips(const Task& task, const std::byte* arranged, std::byte* scratch, Strips strips) const;

  std::variant<LinearTask, Int8LinearTask> task_;
  MakeRow make_row_;
  bool arranges_alone_ = false;
  StealableShares shares_{0};  // of no workers: panels stay where they are
  std::vector<Tail> tails_;
};

}  // namespace lockstep::cpu
