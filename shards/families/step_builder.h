// The building blocks that families share: a layer's attention and MLP with their collectives, the embedding, and the
// tail that samples. A family strings them together; each block cuts its weights to the rank's part.
//
//   ids ─ embedding ─ all_reduce ─┬─ norm ─ q,k,v ─ rope ─ kv_append ─ attention ─ o (blocks) ─ all_reduce ─ + ─┐
//                                 └──────────────────────────── residual ─────────────────────────────────────┘ …
//   … ─ select_rows ─ norm ─ agree ─ head ─ all_gather ─ sample ─ tokens
#pragma once

#include <map>
#include <string>

#include "runtime/graph/builder.h"
#include "shards/families/family.h"

namespace lockstep::families {

class StepBuilder {
 public:
  /// Arguments outlive the builder. Declares the step's inputs and the slots' states.
  StepBuilder(const checkpoint::ModelSpec& spec, const partition::Partition& partition, const StepShape& shape);

  graph::GraphBuilder& graph() { return graph_; }

  /// dt[T, d]: the embedding of this step's ids; `table` is [vocabulary, d] and cut by rows.
  graph::ValueId embedding(const std::string& table);

  /// dt[R, d]; `weight` [d] is whole on every rank.
  graph::ValueId rms_norm(graph::ValueId x, const std::string& weight);

  /// dt[T, d]: grouped-query attention with rotary positions over this layer's cache, summed over the ranks. The
  /// projections are `<prefix>{q,k,v,o}_proj.{weight,bias}`.
  graph::ValueId rotary_attention(graph::ValueId x, int64_t layer, const std::string& prefix);

  /// dt[T, d]: activation(gate) · up, then down, summed over the ranks; `<prefix>{gate,up,down}_proj.{weight,bias}`.
  graph::ValueId gated_mlp(graph::ValueId x, const std::string& prefix);

  /// Ends the step: the rows whose next token is wanted are normed by `norm`, compared between ranks, projected by
  /// `head` [vocabulary, d] and sampled.
  Step finish(graph::ValueId x, const std::string& norm, const std::string& head) &&;

 private:
  enum class Bias { kNone, kPresent };

  graph::ValueId slot_state(const std::string& name, DType dtype);
  /// The slice `ranges` of the checkpoint tensor `name`, whose whole shape is `whole`.
  graph::ValueId weight(const std::string& name, const Shape& whole, std::vector<Range> ranges);
  /// x · (rows `rows` of the weight)ᵀ + (the same rows of the bias): this rank's part of a column-parallel product.
  graph::ValueId column_parallel(graph::ValueId x, const std::string& name, Range rows, const Shape& whole, Bias bias);
  /// The sum over ranks of x · (columns `columns` of the weight)ᵀ, + the bias once.
  graph::ValueId row_parallel(graph::ValueId x, const std::string& name, Range columns, const Shape& whole,
                              const BlockSplit& blocks, int64_t block, Bias bias);
  graph::ValueId next_tokens(graph::ValueId logits, graph::ValueId rows);

  const checkpoint::ModelSpec& spec_;
  const partition::Partition& partition_;
  const partition::RankPart& part_;
  StepShape shape_;
  checkpoint::RopeTable rope_;
  graph::GraphBuilder graph_;
  std::map<std::string, Shape> tensors_;

  // Row metadata, [T]: inputs of a prefill step, states (or made from states) of a decode step.
  graph::ValueId ids_, slot_, position_;
  graph::ValueId wanted_;  // [S]: the row whose next token slot s wants, or −1
};

}  // namespace lockstep::families
