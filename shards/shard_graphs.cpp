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

/// Builds one graph after the other and gathers their tensors.
class GraphSet {
 public:
  GraphSet(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
           const std::vector<graph::Pass>& passes)
      : spec_(spec), partition_(partition), passes_(passes) {}

  /// `bucket` 0: of no length, and `shape.batch` 0: of all slots, which needs no word in the name.
  Result<graph::Graph> build(const StepShape& shape, int64_t bucket) {
    LOCKSTEP_TRY(families::Step step, families::build_step(spec_, partition_, shape));
    tensors_.merge(step.tensors);
    LOCKSTEP_TRY(graph::Graph graph, graph::run_passes(step.graph, passes_));
    if (shape.batch > 0) graph.name += fmt::format("_b{}", shape.batch);
    if (bucket > 0) graph.name += fmt::format("_{}", bucket);
    return graph;
  }

  std::map<std::string, Shape> tensors() && { return std::move(tensors_); }

 private:
  const checkpoint::ModelSpec& spec_;
  const partition::Partition& partition_;
  const std::vector<graph::Pass>& passes_;
  std::map<std::string, Shape> tensors_;
};

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
  LOCKSTEP_TRY_VOID(require_buckets("batch sizes", batch_sizes, slots));
  LOCKSTEP_TRY_VOID(require_buckets("context buckets", context_buckets, chunk));
  LOCKSTEP_TRY_VOID(require_buckets("token buckets", token_buckets, capacity));
  if (!is_float(dtype))
    return invalid(fmt::format("cannot compute in {}; use a floating-point type", to_string(dtype)));
  return ok();
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
  if (verify) graphs.push_back(&*verify);
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
  const StepShape whole{.rank = rank,
                        .slots = options.slots,
                        .chunk = options.chunk,
                        .drafts = options.drafts,
                        .most_rows = std::max(options.chunk, options.drafts + 1),
                        .capacity = options.capacity,
                        .dtype = options.dtype,
                        .logits = options.logits};
  GraphSet set(spec, partition, passes);
  ShardGraphs graphs;
  const auto or_one = [](const std::vector<int64_t>& buckets) {
    return buckets.empty() ? std::vector<int64_t>{0} : buckets;
  };
  for (const int64_t bucket : or_one(options.context_buckets)) {
    StepShape shape = whole;
    shape.kind = StepKind::kPrefill;
    if (bucket > 0) shape.chunk = bucket;
    LOCKSTEP_TRY(graphs.prefill.emplace_back(), set.build(shape, bucket));
  }
  for (const int64_t batch : or_one(options.batch_sizes)) {
    for (const int64_t bucket : or_one(options.token_buckets)) {
      StepShape shape = whole;
      shape.kind = StepKind::kDecode;
      shape.batch = batch;
      shape.bound = bucket;
      LOCKSTEP_TRY(graphs.decode.emplace_back(), set.build(shape, bucket));
    }
  }
  if (options.drafts > 0) {
    StepShape shape = whole;
    shape.kind = StepKind::kVerify;
    LOCKSTEP_TRY(graphs.verify, set.build(shape, 0));
  }
  graphs.tensors = std::move(set).tensors();
  graphs.long_rope_after = long_rope_after(spec);
  return graphs;
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
