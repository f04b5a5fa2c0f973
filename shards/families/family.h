// Model families: how the spec of a model and the partition of a rank become a graph. One file a family; what families
// share is in step_builder.h. To add one: write `families/<name>.cpp` with a `build_<name>`, add its row to the table
// in family.cpp and its config keys to runtime/checkpoint.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/result.h"
#include "runtime/graph/graph.h"
#include "shards/partition/partition.h"

namespace lockstep::families {

enum class Phase { kPrefill, kDecode };

/// Which step of which rank is built, and how large its static shapes are.
struct StepShape {
  Phase phase = Phase::kDecode;
  int rank = 0;
  int64_t slots = 1;
  int64_t chunk = 1;     // rows of a prefill step; a decode step has one row a slot
  int64_t capacity = 1;  // tokens that a slot holds
  DType dtype = DType::kFloat32;
  enum class Logits { kDropped, kOutput } logits = Logits::kDropped;

  int64_t rows() const { return phase == Phase::kPrefill ? chunk : slots; }
};

/// A step's graph and the whole shape of every checkpoint tensor that it takes slices of.
struct Step {
  graph::Graph graph;
  std::map<std::string, Shape> tensors;
};

/// Builds one step of one rank. Pure: every rank can build every rank's graph.
using BuildStep = Result<Step> (*)(const checkpoint::ModelSpec&, const partition::Partition&, const StepShape&);

/// The builder for `spec.model_type`. Fails with `kUnsupported`, naming the families that there are.
Result<BuildStep> find_family(const checkpoint::ModelSpec& spec);

/// Llama 2, 3, 3.1, 3.2 and everything shaped like it (SmolLM2, TinyLlama …).
Result<Step> build_llama(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                         const StepShape& shape);

}  // namespace lockstep::families
