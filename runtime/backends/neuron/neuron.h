// AWS Neuron (Trainium, Inferentia): a step's graphs become one HLO module, which neuronx-cc compiles ahead of time to
// a NEFF with the collectives inside. So far the module can be printed and checked; see README.md.
#pragma once

#include <span>
#include <string>

#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace lockstep::neuron {

/// The module of one step (`graphs`: that step of every rank, in order, before passes) as text: first what its
/// parameters and outputs are, then HLO. Fails as `lower` does. Pure.
Result<std::string> explain(std::span<const graph::Graph> graphs);

}  // namespace lockstep::neuron
