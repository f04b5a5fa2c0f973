// Mixture of experts.
#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/conformance/backend/scalar_operations.h"

namespace lockstep::conformance::scalar {
namespace {

enum ExpertOperand : size_t { kX, kRoute, kGate, kUp, kDown, kGateBias, kUpBias, kDownBias };

/// Row `row` of a stacked weight times row `t` of x, and its bias if there are any.
double projected(Rank& rank, const graph::Node& node, ExpertOperand weight, ExpertOperand bias, int64_t t,
                 int64_t row) {
  const Array& x = rank.operand(node, kX);
  double sum = node.operands.size() > kGateBias ? rank.operand(node, bias).at(0, row) : 0.0;
  for (int64_t k = 0; k < x.columns(); ++k) sum += x.at(t, k) * rank.operand(node, weight).at(row, k);
  return sum;
}

bool on_inputs(const graph::Node& node) { return node.has("routes_on", "inputs"); }

double route_of(Rank& rank, const graph::Node& node, int64_t t, int64_t expert) {
  return rank.operand(node, kRoute).at(t, node.integer("first_expert") + expert);
}

/// Element `column` inside the rank's expert `expert` for row t.
double inner_of(Rank& rank, const graph::Node& node, int64_t t, int64_t expert, int64_t column) {
  const int64_t row = expert * rank.operand(node, kDown).columns() + column;
  const double by = on_inputs(node) ? route_of(rank, node, t, expert) : 1.0;
  const double gate = by * projected(rank, node, kGate, kGateBias, t, row);
  const double up = by * projected(rank, node, kUp, kUpBias, t, row);
  const DType dtype = rank.operand(node, kX).type.dtype;
  if (node.text("activation") != "clamped_swiglu") {
    return round_to(dtype, activated(node.text("activation"), gate) * up);
  }
  const double limit = node.number("limit");
  const double clamped = std::min(gate, limit);
  const double sigmoid = 1.0 / (1.0 + std::exp(-node.number("alpha") * clamped));
  return round_to(dtype, (std::clamp(up, -limit, limit) + 1.0) * clamped * sigmoid);
}

/// One expert's columns `columns` for row t: its part of the result, times the route.
void add_expert(Rank& rank, const graph::Node& node, int64_t expert, Range columns, bool with_bias, int64_t t,
                Numbers& sum) {
  if (route_of(rank, node, t, expert) == 0) return;
  const double route = on_inputs(node) ? 1.0 : route_of(rank, node, t, expert);
  const auto hidden = static_cast<int64_t>(sum.size());
  Numbers inner;
  for (int64_t c = columns.begin; c < columns.end; ++c) inner.push_back(inner_of(rank, node, t, expert, c));
  if (node.has("rounds")) {
    round_to_codes(inner, node.has("rounds", "e4m3"), node.integer_or("rounds_group", std::ssize(inner)), std::nullopt);
  }
  for (int64_t i = 0; i < hidden; ++i) {
    const bool has_bias = with_bias && node.operands.size() > kDownBias;
    double value = has_bias ? rank.operand(node, kDownBias).at(0, expert * hidden + i) : 0.0;
    for (int64_t c = columns.begin; c < columns.end; ++c) {
      value += inner[static_cast<size_t>(c - columns.begin)] * rank.operand(node, kDown).at(expert * hidden + i, c);
    }
    sum[static_cast<size_t>(i)] += route * value;
  }
}

/// The `count` highest of `values` that `may` be chosen, ties to the lowest index.
std::vector<int64_t> highest(const Numbers& values, int64_t count, const std::function<bool(int64_t)>& may) {
  std::vector<int64_t> chosen;
  for (int64_t n = 0; n < count; ++n) {
    int64_t best = -1;
    for (int64_t e = 0; e < std::ssize(values); ++e) {
      if (!may(e) || std::find(chosen.begin(), chosen.end(), e) != chosen.end()) continue;
      if (best < 0 || values[static_cast<size_t>(e)] > values[static_cast<size_t>(best)]) best = e;
    }
    chosen.push_back(best);
  }
  return chosen;
}

/// The experts of row t, which are chosen by `choice`.
std::vector<int64_t> chosen_experts(const graph::Node& node, const Numbers& choice) {
  const auto all = [](int64_t) { return true; };
  if (!node.has("groups")) return highest(choice, node.integer("chosen"), all);
  const int64_t groups = node.integer("groups"), size = std::ssize(choice) / groups;
  Numbers scores;
  for (int64_t g = 0; g < groups; ++g) {
    const auto is_own = [=](int64_t e) { return e / size == g; };
    double score = 0;
    for (const int64_t e : highest(choice, node.text("group_score") == "best" ? 1 : 2, is_own)) {
      score += choice[static_cast<size_t>(e)];
    }
    scores.push_back(score);
  }
  const std::vector<int64_t> kept = highest(scores, node.integer("kept_groups"), all);
  return highest(choice, node.integer("chosen"),
                 [&](int64_t e) { return std::find(kept.begin(), kept.end(), e / size) != kept.end(); });
}

/// The softmax or the sigmoids of row t.
Numbers scores_of(const graph::Node& node, const Array& logits, int64_t t) {
  Numbers scores;
  double most = logits.at(t, 0), sum = 0;
  for (int64_t e = 0; e < logits.columns(); ++e) most = std::max(most, logits.at(t, e));
  const bool is_sigmoid = node.has("scores", "sigmoid");
  for (int64_t e = 0; e < logits.columns(); ++e) {
    scores.push_back(is_sigmoid ? 1.0 / (1.0 + std::exp(-logits.at(t, e))) : std::exp(logits.at(t, e) - most));
    sum += scores.back();
  }
  for (double& score : scores) score /= is_sigmoid ? 1.0 : sum;
  return scores;
}

}  // namespace

void moe_route(Rank& rank, const graph::Node& node) {
  const Array& logits = rank.operand(node, 0);
  Array& route = rank.result(node);
  const bool has_bias = node.operands.size() > 1;
  for (int64_t t = 0; t < logits.rows(); ++t) {
    const Numbers scores = scores_of(node, logits, t);
    Numbers choice;
    for (int64_t e = 0; e < logits.columns(); ++e) {
      const bool by_logit = !has_bias && !node.has("groups");
      choice.push_back(by_logit ? logits.at(t, e)
                                : scores[static_cast<size_t>(e)] + (has_bias ? rank.operand(node, 1).at(0, e) : 0.0));
    }
    const std::vector<int64_t> chosen = chosen_experts(node, choice);
    double divisor = 0;
    for (const int64_t e : chosen) divisor += scores[static_cast<size_t>(e)];
    divisor = std::max(divisor, number_or(node, "least_sum", 0.0));
    if (node.has("over", "all")) divisor = 1;
    for (const int64_t e : chosen) {
      route.at(t, e) = scores[static_cast<size_t>(e)] / divisor * number_or(node, "scale", 1.0);
    }
  }
}

void moe_experts(Rank& rank, const graph::Node& node) {
  Array& y = rank.result(node);
  const int64_t rows = y.dim(1), hidden = y.dim(2);
  const int64_t width = rank.operand(node, kDown).columns();
  const bool by_expert = node.text("leaf") == "expert";
  const BlockSplit split{node.integers("blocks")};
  const int64_t first_leaf = split.range_of(rank.graph->rank).begin;
  const std::vector<Range> roots = split.roots_of(rank.graph->rank);
  for (size_t root = 0; root < roots.size(); ++root) {
    const Range own{roots[root].begin - first_leaf, roots[root].end - first_leaf};  // leaves counted from the rank's
    const int64_t block = node.integer("block");
    const Range columns = by_expert ? Range{0, width} : Range{own.begin * block, std::min(own.end * block, width)};
    const Range experts = by_expert ? own : Range{0, node.integer("experts")};
    for (int64_t t = 0; t < rows; ++t) {
      Numbers sum(static_cast<size_t>(hidden));
      for (int64_t e = experts.begin; e < experts.end; ++e) {
        add_expert(rank, node, e, columns, by_expert || roots[root].begin == 0, t, sum);
      }
      for (int64_t i = 0; i < hidden; ++i) {
        y.at(static_cast<int64_t>(root) * rows + t, i) = sum[static_cast<size_t>(i)];
      }
    }
  }
}

}  // namespace lockstep::conformance::scalar
