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
#include <vector>

#include "runtime/backends/cpu/linear.h"

namespace lockstep::cpu {

/// Up to so many rows, each worker makes all rows of x for itself instead of meeting the others.
constexpr int64_t kRowsMadeTwice = 8;

struct FusedLinear {
  LinearTask task;
  /// If set, makes a row of x, of task.x's type, from what stands in its place; `task.arrange` is then set.
  std::function<void(int64_t row, std::byte* dst)> make_row = {};
  /// Then, in order, for the columns that the worker computed (of the result, or of each of its halves).
  std::vector<std::function<void(Range columns)>> tails = {};

  /// Bytes of scratch that each worker needs for itself.
  int64_t private_bytes() const;
  /// Computes the part's share; `arranged` as for LinearTask, where no row is made here.
  void run(const std::byte* arranged, std::byte* private_scratch, Part part) const;

 private:
  int64_t made_bytes() const;
};

}  // namespace lockstep::cpu
