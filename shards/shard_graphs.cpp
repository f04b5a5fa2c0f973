#include "shards/shard_graphs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::shards {
namespace {

using families::StepKind;
using families::StepShape;

Error invalid(std::string message) { return {ErrorKind::kInvalidArgument, "[shards] " + std::move(message)}; }

Result<void> require_at_least(std::string_view name, int64_t value, int64_t least) {
  if (value >= least) return ok();
  return invalid(fmt::format("cannot size a shard: found {} {}, expected at least {}", name, value, least));
}

Result<void> require_buckets(std::string_view name, const std::vector<int64_t>& buckets, int64_t last) {
  const bool rise = std::ranges::adjacent_find(buckets, std::greater_equal()) == buckets.end();
  if (buckets.empty() || (rise && buckets.front() >= 1 && buckets.back() == last)) return ok();
  return invalid(fmt::format("cannot size a shard: found {} {}, expected numbers that rise to {}", name,
                             fmt::join(buckets, ","), last));
}

/// Builds the graphs and collects their tensors.
class GraphSet {
 public:
  GraphSet(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
           const std::vector<graph::Pass>& passes)
      : spec_(spec), partition_(partition), passes_(passes) {}

  /// `sizes` end the name of a graph that is not the only one of its phase.
  Result<graph::Graph> build(const StepShape& shape, const std::string& sizes) {
    LOCKSTEP_TRY(families::Step step, families::build_step(spec_, partition_, shape));
    tensors_.merge(step.tensors);
    LOCKSTEP_TRY(graph::Graph graph, graph::run_passes(step.graph, passes_));
    graph.name += sizes;
    return graph;
  }

  std::map<std::string, Shape> tensors() && { return std::move(tensors_); }

 private:
  const checkpoint::ModelSpec& spec_;
  const partition::Partition& partition_;
  const std::vector<graph::Pass>& passes_;
  std::map<std::string, Shape> tensors_;
};

/// One graph without buckets.
std::vector<int64_t> or_one(const std::vector<int64_t>& buckets) {
  return buckets.empty() ? std::vector<int64_t>{0} : buckets;
}

std::string with_size(std::string_view letter, int64_t size) {
  return size > 0 ? fmt::format("_{}{}", letter, size) : "";
}

Result<void> add_prefill(GraphSet& set, const ShardOptions& options, StepShape shape, ShardGraphs& graphs) {
  shape.kind = StepKind::kPrefill;
  const std::vector<PrefillSize> sizes = options.prefill_sizes();
  for (const PrefillSize& size : sizes) {
    shape.chunk = size.rows;
    shape.bound = size.bound < options.capacity ? size.bound : 0;
    std::string name = with_size("", options.context_buckets.empty() ? 0 : size.rows);
    if (std::ranges::count(sizes, size.rows, &PrefillSize::rows) > 1) name += with_size("l", size.bound);
    LOCKSTEP_TRY(graphs.prefill.emplace_back(), set.build(shape, name));
  }
  return ok();
}

Result<void> add_decode(GraphSet& set, const ShardOptions& options, StepShape shape, ShardGraphs& graphs) {
  shape.kind = StepKind::kDecode;
  for (const int64_t batch : or_one(options.batch_sizes)) {
    for (const int64_t bucket : or_one(options.token_buckets)) {
      shape.batch = batch;
      shape.bound = bucket;
      LOCKSTEP_TRY(graphs.decode.emplace_back(), set.build(shape, with_size("b", batch) + with_size("", bucket)));
    }
  }
  return ok();
}

/// One graph, or one per token bucket if attention costs the whole bucket.
Result<void> add_bucketed(GraphSet& set, const ShardOptions& options, StepShape shape,
                          std::vector<graph::Graph>& graphs) {
  const bool is_bucketed = options.bucketed == BucketedSteps::kAll;
  for (const int64_t bucket : or_one(is_bucketed ? options.token_buckets : std::vector<int64_t>())) {
    shape.bound = bucket;
    LOCKSTEP_TRY(graphs.emplace_back(), set.build(shape, with_size("", bucket)));
  }
  return ok();
}

Result<void> add_verify(GraphSet& set, const ShardOptions& options, StepShape shape, ShardGraphs& graphs) {
  if (options.drafts == 0) return ok();
  shape.kind = StepKind::kVerify;
  return add_bucketed(set, options, shape, graphs.verify);
}

Result<void> add_score(GraphSet& set, const ShardOptions& options, StepShape shape, ShardGraphs& graphs) {
  if (options.score_rows == 0) return ok();
  shape.kind = StepKind::kScore;
  shape.chunk = options.score_rows;
  shape.top = options.score_top;
  shape.logits = options.score_logits;
  return add_bucketed(set, options, shape, graphs.score);
}

int64_t long_rope_after(const checkpoint::ModelSpec& spec) {
  const checkpoint::RopeSpec& rope = spec.rope;
  const bool changes =
      spec.positions == checkpoint::Positions::kRotary && rope.kind == checkpoint::RopeSpec::Kind::kLongrope;
  return changes ? rope.original_max_positions.value_or(spec.max_positions) : 0;
}

}  // namespace

Result<void> ShardOptions::validate() const {
  LOCKSTEP_TRY_VOID(require_at_least("slots", slots, 1));
  LOCKSTEP_TRY_VOID(require_at_least("chunk", chunk, 1));
  LOCKSTEP_TRY_VOID(require_at_least("capacity", capacity, 1));
  LOCKSTEP_TRY_VOID(require_at_least("drafts", drafts, 0));
  LOCKSTEP_TRY_VOID(require_at_least("scored rows", score_rows, 0));
  LOCKSTEP_TRY_VOID(require_at_least("chunk", chunk, score_rows));
  LOCKSTEP_TRY_VOID(require_buckets("batch sizes", batch_sizes, slots));
  LOCKSTEP_TRY_VOID(require_buckets("context buckets", context_buckets, chunk));
  LOCKSTEP_TRY_VOID(require_buckets("token buckets", token_buckets, capacity));
  if (!is_float(dtype))
    return invalid(fmt::format("cannot compute in {}; use a floating-point type", to_string(dtype)));
  return ok();
}

BucketedSteps bucketed_steps(const device::Capabilities& backend) {
  return backend.bounded_attention ? BucketedSteps::kDecode : BucketedSteps::kAll;
}

std::vector<PrefillSize> ShardOptions::prefill_sizes() const {
  const std::vector<int64_t> rows = context_buckets.empty() ? std::vector<int64_t>{chunk} : context_buckets;
  if (bucketed == BucketedSteps::kAll && !token_buckets.empty()) return shards::prefill_sizes(rows, token_buckets);
  return shards::prefill_sizes(rows, {capacity});
}

int64_t ShardGraphs::vocabulary() const {
  const graph::Graph& graph = decode.front();
  return graph.value(graph.find("seen").value()).type.shape[1];
}

int64_t ShardGraphs::cache_slots() const {
  const graph::Graph& graph = decode.front();
  for (const graph::Node& node : graph.nodes) {
    if (node.op == graph::Op::kKvAppend) return graph.value(node.operands[1]).type.shape[0];
  }
  return graph.slots;
}

std::vector<const graph::Graph*> ShardGraphs::all() const {
  std::vector<const graph::Graph*> graphs;
  for (const graph::Graph& graph : prefill) graphs.push_back(&graph);
  for (const graph::Graph& graph : decode) graphs.push_back(&graph);
  for (const graph::Graph& graph : verify) graphs.push_back(&graph);
  for (const graph::Graph& graph : score) graphs.push_back(&graph);
  return graphs;
}

std::vector<device::StepGraph> ShardGraphs::steps() const {
  const std::vector<const graph::Graph*> own = all();
  std::vector<device::StepGraph> steps;
  for (size_t i = 0; i < own.size(); ++i) {
    steps.emplace_back(*own[i], group.empty() ? std::span<const graph::Graph>() : group[i]);
  }
  return steps;
}

Result<ShardGraphs> build_graphs(const checkpoint::ModelSpec& spec, const partition::Partition& partition, int rank,
                                 const ShardOptions& options, const std::vector<graph::Pass>& passes) {
  LOCKSTEP_TRY_VOID(options.validate());
  if (partition.gqa == partition::GqaMode::kBatch && options.slots % partition.ranks() != 0) {
    return invalid(
        fmt::format("cannot divide slots: found {} over {} ranks, expected a multiple; take another mode of "
                    "--gqa or number of slots",
                    options.slots, partition.ranks()));
  }
  if (!spec.delta_layers.empty() && options.drafts > families::kRecurrenceBlock) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[shards] cannot draft: found {} tokens at once, expected at most {}, which recurrent "
                             "layers can take back; draft fewer",
                             options.drafts, families::kRecurrenceBlock)};
  }
  const StepShape whole{.rank = rank,
                        .slots = options.slots,
                        .chunk = options.chunk,
                        .drafts = options.drafts,
                        .most_rows = std::max(options.chunk, options.drafts + 1),
                        .capacity = options.capacity,
                        .dtype = options.dtype,
                        .logits = options.logits,
                        .embeddings = options.embeddings};
  GraphSet set(spec, partition, passes);
  ShardGraphs graphs;
  LOCKSTEP_TRY_VOID(add_prefill(set, options, whole, graphs));
  LOCKSTEP_TRY_VOID(add_decode(set, options, whole, graphs));
  LOCKSTEP_TRY_VOID(add_verify(set, options, whole, graphs));
  LOCKSTEP_TRY_VOID(add_score(set, options, whole, graphs));
  graphs.tensors = std::move(set).tensors();
  graphs.long_rope_after = long_rope_after(spec);
  return graphs;
}

Result<std::vector<std::vector<graph::Graph>>> graphs_of_group(const checkpoint::ModelSpec& spec,
                                                               const partition::Partition& partition,
                                                               const ShardOptions& options) {
  std::vector<std::vector<graph::Graph>> steps;  // [step][rank]
  for (int rank = 0; rank < partition.ranks(); ++rank) {
    LOCKSTEP_TRY(const ShardGraphs own, build_graphs(spec, partition, rank, options, {}));
    const std::vector<const graph::Graph*> graphs = own.all();
    steps.resize(graphs.size());
    for (size_t i = 0; i < graphs.size(); ++i) steps[i].push_back(*graphs[i]);
  }
  return steps;
}

std::string collective_list(const ShardGraphs& graphs) {
  std::string text;
  for (const graph::Graph* graph : graphs.all()) {
    for (const graph::Node& node : graph->nodes) {
      const Shape& operand = graph->value(node.operands.front()).type.shape;
      if (node.op == graph::Op::kAllReduce) {
        text += fmt::format("{} all_reduce {}x{} blocks {}\n", graph->name, operand[1], operand[2],
                            fmt::join(node.integers("blocks"), ","));
      } else if (node.op == graph::Op::kAllGather) {
        text += fmt::format("{} all_gather {} rows, columns {}\n", graph->name, operand[0],
                            fmt::join(node.integers("parts"), ","));
      } else if (node.op == graph::Op::kRowsOfOwners) {
        text += fmt::format("{} rows_of_owners {} rows of {} columns, {} slots each, columns {}\n", graph->name,
                            operand[0], operand[1], node.integer("slots"), fmt::join(node.integers("parts"), ","));
      } else if (node.op == graph::Op::kAgree) {
        text += fmt::format("{} agree {} slots\n", graph->name, graph->slots);
      }
    }
  }
  return text;
}

}  // namespace lockstep::shards
