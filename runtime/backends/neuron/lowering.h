// A step's graphs, one per rank, as one HLO module that every rank runs.
//
//   graphs of ranks 0 … p−1 ──lower──► hlo::Module  ──hlo/wire.h──► bytes for neuronx-cc
//                                      ModuleSignature               what each parameter is, for the loader
//
// Shapes are those of the largest rank; smaller ranks are padded with zeros, which add nothing. Where ranks differ in
// numbers (first vocabulary row, which cache head a query head reads) the numbers are parameters.
#pragma once

#include <span>
#include <string>

#include "runtime/backends/neuron/hlo/module.h"
#include "runtime/backends/neuron/signature.h"
#include "runtime/graph/graph.h"

namespace lockstep::neuron {

struct LoweringOptions {
  /// What the module can do for slots that sample: choose the highest score only (a slot's `do_sample` is not looked
  /// at), or everything that runtime/sampling defines, which sorts the vocabulary twice a step.
  enum class Sampling { kGreedy, kDraw } sampling = Sampling::kDraw;

  /// Tests: every index that the module gathers or scatters by is an output "index<n> below <limit>[,<limit>]", because
  /// one outside is an error on the device and passes unseen on XLA's CPU client.
  enum class Indices { kInside, kOutput } indices = Indices::kInside;
};

struct LoweredStep {
  hlo::Module module;
  ModuleSignature signature;
};

/// Lowers one step. `graphs` are the same step of every rank, in order, as the families build it: passes that join
/// weights of ranks with different shares (fuse_qkv, fuse_gate_up) come too early for padding. All rows of a prefill
/// chunk belong to one slot. Pure.
///
/// Fails with `kInvalidArgument` when the graphs are not the same step, and with `kUnsupported` for a graph that cannot
/// be padded; the message names the node.
Result<LoweredStep> lower(std::span<const graph::Graph> graphs, const LoweringOptions& options = {});

}  // namespace lockstep::neuron
