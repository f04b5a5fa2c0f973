// Cases that must give the same result on the reference backend and as a lowered module: small graphs of one operation,
// and whole prefill and decode steps of every family. The default tests lower all of them; the program
// neuron_oracle_cases runs them on the reference backend, too, and writes what tools/check_hlo.py gives to XLA.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/backends/neuron/lowering.h"
#include "tests/conformance/backend/session.h"

namespace lockstep::neuron {

/// One run of one of the graphs.
struct ScriptedStep {
  size_t graph = 0;
  std::vector<conformance::Contents> inputs;  // by rank
};

struct OracleCase {
  std::string name;         // letters, digits and _
  double tolerance = 1e-4;  // of the largest expected magnitude
  LoweringOptions options;
  std::vector<std::vector<graph::Graph>> graphs;  // [graph][rank]
  std::vector<ScriptedStep> script;               // run in order; states stay from one to the next
  /// Weights and states by rank; slow for families.
  std::function<std::vector<conformance::Contents>()> contents;

  int ranks() const { return static_cast<int>(graphs.front().size()); }
};

/// Every case, in a fixed order.
std::vector<OracleCase> oracle_cases();

// By kind; each in the file of its name.
std::vector<OracleCase> dense_cases();
std::vector<OracleCase> attention_cases();
std::vector<OracleCase> slot_cases();
std::vector<OracleCase> family_cases();

/// A case of one graph that runs once; one conformance case per rank.
OracleCase single_step(std::string name, std::vector<conformance::Case> by_rank, double tolerance = 1e-5);

/// Lowers all graphs of a case; failures are failed checks.
std::vector<LoweredStep> lower_all(const OracleCase& c);

}  // namespace lockstep::neuron
