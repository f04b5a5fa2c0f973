// Lowers a step's graphs, one per rank, to one HLO module for all ranks.
//
//   graphs of ranks 0 … p−1 ──lower──► hlo::Module  ──hlo/wire.h──► bytes for neuronx-cc
//                                      ModuleSignature               the meaning of each parameter, for the loader
//
// Shapes are those of the largest rank; smaller ranks are padded with zeros, which add nothing. Numbers that differ
// between ranks (first vocabulary row, cache head of a query head) are parameters.
#pragma once

#include <span>
#include <string>

#include "runtime/backends/neuron/hlo/module.h"
#include "runtime/backends/neuron/signature.h"
#include "runtime/graph/graph.h"

namespace lockstep::neuron {

struct LoweringOptions {
  /// How the module samples: always greedily (ignoring a slot's `do_sample`), or with everything defined in
  /// runtime/sampling, which sorts the vocabulary twice per step.
  enum class Sampling { kGreedy, kDraw } sampling = Sampling::kDraw;

  /// For tests: outputs every index of a gather or scatter as "index<n> below <limit>[,<limit>]". An index out of range
  /// is an error on the device but not on XLA's CPU client.
  enum class Indices { kInside, kOutput } indices = Indices::kInside;
};

struct LoweredStep {
  hlo::Module module;
  ModuleSignature signature;
};

/// Lowers one step. `graphs` are the same step of every rank, in order, as the families build it: passes that join
/// weights of unequal ranks (fuse_qkv, fuse_gate_up) must not run before padding. All rows of a prefill chunk belong to
/// one slot. Pure.
///
/// Fails with `kInvalidArgument` when the graphs are not the same step, and with `kUnsupported` for a graph that cannot
/// be padded; the message names the node.
Result<LoweredStep> lower(std::span<const graph::Graph> graphs, const LoweringOptions& options = {});

}  // namespace lockstep::neuron
