// A scalar model: every operation of OPERATIONS.md as plain loops over doubles. It is written from the definitions and
// shares no code with any backend (except sampling::choose, which is itself the definition of the next token). It runs
// the graphs of all ranks node by node, so a collective simply reads the other ranks' values.
#pragma once

#include <span>
#include <vector>

#include "runtime/graph/graph.h"
#include "tests/conformance/backend/tensor_data.h"

namespace lockstep::conformance {

/// The results of a run.
struct Outcome {
  Contents outputs;
  Contents states;  // of the graph that ran
};

class ScalarModel {
 public:
  explicit ScalarModel(int ranks = 1) : contents_(static_cast<size_t>(ranks)) {}

  /// Sets weights and states of one rank; states that are never set start at zero.
  void set(int rank, const Contents& contents);

  /// One step of all ranks; `graphs` and `inputs` by rank.
  std::vector<Outcome> run(std::span<const graph::Graph> graphs, std::span<const Contents> inputs);

 private:
  std::vector<Contents> contents_;  // weights and states by rank
};

}  // namespace lockstep::conformance
