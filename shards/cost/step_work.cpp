#include "shards/cost/step_work.h"

#include <algorithm>
#include <cmath>

namespace lockstep::cost {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;

Experts experts_of(const Graph& graph, const Node& node) {
  const graph::ValueId route = node.operands[1];
  return {.held = node.integer("experts"),
          .all = graph.value(route).type.shape[1],
          .chosen = graph::experts_of_row(graph, route),
          .bytes = 0};
}

Attention attention_of(const Graph& graph, const Node& node) {
  Attention attention;
  if (node.has("window")) attention.seen = node.integer("window") + node.integer_or("pinned", 0);
  for (const graph::ValueId state : graph::sequence_states(node)) {  // [slots, heads, capacity, head_dim]
    const TensorType& cache = graph.value(state).type;
    attention.token_bytes +=
        static_cast<double>(cache.shape[1] * cache.shape[3]) * static_cast<double>(size_of(cache.dtype));
  }
  const int64_t own_slots = graph.value(node.operands[1]).type.shape[0];
  if (own_slots < graph.slots) attention.sequences = own_slots;
  const int64_t keys = graph.value(node.operands[0]).type.shape[1], values = graph.value(*node.result).type.shape[1];
  attention.pair_flops = 2.0 * static_cast<double>(keys + values);
  return attention;
}

/// What a step reads of a sequence's recurrence: the state at the last border, and on average half of the rows since.
double carried_bytes(const Graph& graph, const Node& node) {
  const auto of_slot = [&](size_t operand) {
    const TensorType& type = graph.value(node.operands[operand]).type;
    return static_cast<double>(type.bytes()) / static_cast<double>(type.shape[0]);
  };
  const double keys = of_slot(4), changes = of_slot(5), borders = of_slot(7);  // of two blocks
  return (keys + changes) / 4 + borders / 2;
}

/// Follows a graph's nodes. Rows are tokens until the rows whose next token is wanted are selected.
class Counter {
 public:
  explicit Counter(const Graph& graph) : graph_(graph), rows_(static_cast<double>(graph.rows)) {
    work_.stretches.emplace_back();
  }

  void add(const Node& node, const graph::NodeCost& cost) {
    if (node.op == Op::kSelectRows) of_tokens_ = false;
    if (cost.is_collective) return add_collective(node, cost);
    Stretch& stretch = work_.stretches.back();
    if (node.op == Op::kAttention) stretch.attention.push_back(attention_of(graph_, node));
    if (node.op == Op::kGatedDeltaRule) {
      stretch.recurrences.push_back(
          {.sequence_bytes = carried_bytes(graph_, node), .block = graph_.value(node.operands[4]).type.shape[3]});
    }
    if (node.op == Op::kMoeExperts) {
      stretch.experts.push_back(experts_of(graph_, node));
      stretch.experts.back().bytes = static_cast<double>(cost.weight_bytes);
    } else if (node.op == Op::kEmbedding || node.op == Op::kLookup) {
      stretch.row_bytes += static_cast<double>(cost.weight_bytes) / rows_;
    } else {
      stretch.weight_bytes += static_cast<double>(cost.weight_bytes);
    }
    const auto flops = static_cast<double>(cost.flops);
    (of_tokens_ ? stretch.row_flops : stretch.step_flops) += of_tokens_ ? flops / rows_ : flops;
  }

  StepWork finish() && { return std::move(work_); }

 private:
  void add_collective(const Node& node, const graph::NodeCost& cost) {
    Collective collective;
    collective.kind = node.op == Op::kAllReduce ? CollectiveKind::kAllReduce
                      : node.op == Op::kAgree   ? CollectiveKind::kAgree
                                                : CollectiveKind::kAllGather;
    const auto sent = static_cast<double>(cost.sent_bytes);
    double result = sent * graph_.ranks;  // agree: one word per rank
    if (node.result) {
      const TensorType& type = graph_.value(*node.result).type;
      // Sums are sent as float32 and rounded by the receiver.
      const size_t element = node.op == Op::kAllReduce ? sizeof(float) : size_of(type.dtype);
      result = static_cast<double>(type.shape.elements()) * static_cast<double>(element);
    }
    const bool by_row = of_tokens_ && collective.kind != CollectiveKind::kAgree;
    (by_row ? collective.row_bytes : collective.step_bytes) = by_row ? sent / rows_ : sent;
    (by_row ? collective.result_row_bytes : collective.result_step_bytes) = by_row ? result / rows_ : result;
    work_.collectives.push_back(collective);
    work_.stretches.emplace_back();
  }

  const Graph& graph_;
  const double rows_;
  bool of_tokens_ = true;
  StepWork work_;
};

/// Experts of a layer that this rank reads for `rows` rows, on average.
double experts_read(const Experts& experts, int64_t rows) {
  const double idle = 1.0 - static_cast<double>(experts.chosen) / static_cast<double>(experts.all);
  return static_cast<double>(experts.held) * (1.0 - std::pow(idle, static_cast<double>(rows)));
}

}  // namespace

std::vector<Run> decode_rows(const Workload& load) {
  return {{.count = load.batch, .first = load.mean_tokens() - 1, .rows = 1}};
}

std::vector<std::vector<Run>> prefill_rows(const Workload& load, int64_t chunk) {
  std::vector<std::vector<Run>> steps;
  int64_t left = 0;  // rows that the last step still takes
  for (int64_t prompt = 0; prompt < load.batch; ++prompt) {
    for (int64_t position = 0; position < load.prompt_tokens;) {
      if (left == 0) {
        steps.emplace_back();
        left = chunk;
      }
      const int64_t rows = std::min(left, load.prompt_tokens - position);
      steps.back().push_back({.count = 1, .first = static_cast<double>(position), .rows = rows});
      position += rows;
      left -= rows;
    }
  }
  return steps;
}

int64_t rows_of(const std::vector<Run>& runs) {
  int64_t rows = 0;
  for (const Run& run : runs) rows += run.count * run.rows;
  return rows;
}

double seeing_pairs(const Run& run, int64_t seen) {
  const auto rows = static_cast<double>(run.rows);
  const double last = run.first + rows;  // tokens that the last row would see without a window
  const auto up_to = [](double n) { return n * (n + 1) / 2; };
  const double all = up_to(last) - up_to(run.first);
  const auto most = static_cast<double>(seen);
  if (seen == 0 || last <= most) return all;
  if (run.first >= most) return rows * most;
  return up_to(most) - up_to(run.first) + (last - most) * most;
}

StepWork step_work(const Graph& graph) {
  const std::vector<graph::NodeCost> costs = graph::node_costs(graph);
  Counter counter(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) counter.add(graph.nodes[n], costs[n]);
  return std::move(counter).finish();
}

Amounts& Amounts::operator+=(const Amounts& other) {
  weight_bytes += other.weight_bytes;
  cache_bytes += other.cache_bytes;
  flops += other.flops;
  return *this;
}

Amounts amounts_of(const Stretch& stretch, const std::vector<Run>& runs, std::optional<double> busiest) {
  const int64_t rows = rows_of(runs);
  const auto row_count = static_cast<double>(rows);
  Amounts amounts{.weight_bytes = stretch.weight_bytes + row_count * stretch.row_bytes,
                  .flops = stretch.step_flops + row_count * stretch.row_flops};
  for (const Experts& experts : stretch.experts) {
    const auto held = static_cast<double>(experts.held);
    const double read = busiest ? std::min(*busiest, held) : experts_read(experts, rows);
    amounts.weight_bytes += experts.bytes * read / held;
  }
  for (const Recurrence& recurrence : stretch.recurrences) {
    for (const Run& run : runs) {
      const double blocks = static_cast<double>(run.rows) / static_cast<double>(recurrence.block);
      amounts.cache_bytes += static_cast<double>(run.count) * std::max(1.0, blocks) * recurrence.sequence_bytes;
    }
  }
  for (const Attention& attention : stretch.attention) {
    for (const Run& run : runs) {
      const int64_t most = attention.sequences > 0 ? attention.sequences : run.count;
      const auto count = static_cast<double>(std::min(run.count, most));
      double tokens = run.first + static_cast<double>(run.rows);
      if (attention.seen > 0) tokens = std::min(tokens, static_cast<double>(attention.seen + run.rows - 1));
      amounts.cache_bytes += count * tokens * attention.token_bytes;
      amounts.flops += count * seeing_pairs(run, attention.seen) * attention.pair_flops;
    }
  }
  return amounts;
}

Amounts amounts_of(const StepWork& work, const std::vector<Run>& runs) {
  Amounts all;
  for (const Stretch& stretch : work.stretches) all += amounts_of(stretch, runs);
  return all;
}

}  // namespace lockstep::cost
