// Model families: how the spec of a model and the partition of a rank become a graph. A family is a row of the table in
// family.cpp, which says how its layers are put together; all else follows from the spec. To add one: see README.md.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/result.h"
#include "runtime/graph/graph.h"
#include "shards/partition/partition.h"

namespace lockstep::families {

/// Positions of a block of the gated delta rule, as in transformers' chunked form; also how far a slot may go back.
inline constexpr int64_t kRecurrenceBlock = 64;

/// A prompt's chunk; one token per slot; a slot's last token and the drafts after it, all verified at once; a chunk of
/// texts whose tokens are scored.
enum class StepKind { kPrefill, kDecode, kVerify, kScore };

/// Which step of which rank is built, and how large its static shapes are.
struct StepShape {
  StepKind kind = StepKind::kDecode;
  int rank = 0;
  int64_t slots = 1;
  int64_t chunk = 1;      // rows of a prefill or score step; a decode step has one row a slot that it runs
  int64_t batch = 0;      // of a decode step: it runs the first `batch` slots only; 0: all of them
  int64_t drafts = 0;     // of a slot in a verify step, which has 1 + drafts rows a slot
  int64_t top = 0;        // likeliest ids that a score step names for each row
  int64_t most_rows = 1;  // that one slot has in any step over the same states: rings hold as many beside the window
  int64_t capacity = 1;   // tokens that a slot holds
  int64_t bound = 0;      // positions stay below it (a length bucket); 0: below the capacity
  DType dtype = DType::kFloat32;
  enum class Logits { kDropped, kOutput } logits = Logits::kDropped;
  enum class Embeddings {
    kOfIds,
    kMixed
  } embeddings = Embeddings::kOfIds;  // kMixed: prefill rows with negative ids
                                      // take theirs from the input

  int64_t rows() const;
};

/// A step's graph and the whole shape of every checkpoint tensor that it takes slices of.
struct Step {
  graph::Graph graph;
  std::map<std::string, Shape> tensors;
};

/// Builds one step of one rank. Pure: every rank can build every rank's graph. Fails with `kUnsupported`, naming the
/// families that there are, when `spec.model_type` is none of them, and as `checkpoint::rope_table`.
Result<Step> build_step(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                        const StepShape& shape);

/// Which families there are: the model types of config.json.
std::vector<std::string> family_names();

}  // namespace lockstep::families
