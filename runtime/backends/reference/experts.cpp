// Mixture of experts: routing, and the partial sums of this rank's experts.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "runtime/backends/reference/activations.h"
#include "runtime/backends/reference/int8_rows.h"
#include "runtime/backends/reference/kernels.h"
#include "runtime/backends/reference/rounding.h"
#include "runtime/backends/reference/tree_sum.h"

namespace lockstep::reference {
namespace {

/// The operands of `moe_experts`, in order; the biases are present together or not at all.
enum ExpertOperand : size_t { kX, kRoute, kGate, kUp, kDown, kGateBias, kUpBias, kDownBias };

/// Replaces gate by (up + 1) · gate · sigmoid(alpha · gate), with gate and up clamped (gpt-oss).
void clamped_swiglu(std::vector<float>& gate, const std::vector<float>& up, float limit, float alpha) {
  for (size_t i = 0; i < gate.size(); ++i) {
    const float g = std::min(gate[i], limit);
    gate[i] = (std::clamp(up[i], -limit, limit) + 1.0f) * g / (1.0f + std::exp(-alpha * g));
  }
}

/// One `moe_experts` node on one rank.
class Experts {
 public:
  Experts(const Call& call, int rank)
      : call_(call),
        in_(call.operands),
        own_leaves_(call.sum->split.range_of(rank)),
        first_expert_(call.node.integer("first_expert")),
        held_(call.node.integer("experts")),
        hidden_(in_[kX].columns()),
        width_(in_[kDown].columns()),
        routes_on_inputs_(call.node.has("routes_on", "inputs")) {}

  /// Computes the inner values of the experts for the rows routed to them.
  Result<void> prepare() {
    for (int64_t e = 0; e < held_; ++e) {
      LOCKSTEP_TRY(Rows rows, inner_of(e));
      rows_of_expert_.push_back(std::move(rows));
    }
    return ok();
  }

  /// Leaf `leaf` of the whole tree: [T, d].
  Result<std::vector<float>> leaf(int64_t leaf) const {
    std::vector<float> sum(static_cast<size_t>(in_[kX].rows() * hidden_));
    const int64_t place = leaf - own_leaves_.begin;
    if (call_.node.text("leaf") == "expert") {
      LOCKSTEP_TRY_VOID(add_expert(place, {0, width_}, /*is_first_leaf=*/true, sum));
      return sum;
    }
    const int64_t block = call_.node.integer("block");
    const Range columns{place * block, std::min((place + 1) * block, width_)};
    for (int64_t e = 0; e < held_; ++e) LOCKSTEP_TRY_VOID(add_expert(e, columns, leaf == 0, sum));
    return sum;
  }

 private:
  /// The token rows routed to an expert, and the inner values for each: [rows, I].
  struct Rows {
    std::vector<int64_t> token;
    std::vector<float> inner;

    int64_t size() const { return static_cast<int64_t>(token.size()); }
  };

  float route_of(int64_t token, int64_t expert) const {
    return in_[kRoute].floats()[token * in_[kRoute].columns() + first_expert_ + expert];
  }

  /// The rows that a product with `weight` reads: x, or x in 8 bits. Dense.
  std::vector<float> rows_for(ExpertOperand weight, aten::ConstMatrix x) const {
    const int64_t width = call_.int8_widths[weight];
    if (width > 0) return quantised_rows(x, width);
    std::vector<float> rows;
    for (int64_t r = 0; r < x.rows; ++r) {
      rows.insert(rows.end(), x.data + r * x.row_stride, x.data + r * x.row_stride + x.columns);
    }
    return rows;
  }

  /// x · wᵀ + bias of the selected rows with one expert's `width` rows of a stacked weight.
  Result<std::vector<float>> product(const std::vector<float>& x, ExpertOperand weight, ExpertOperand bias,
                                     int64_t expert) const {
    const int64_t rows = static_cast<int64_t>(x.size()) / hidden_;
    std::vector<float> y(static_cast<size_t>(rows * width_));
    const float* w = in_[weight].floats() + expert * width_ * hidden_;
    const std::vector<float> read = rows_for(weight, aten::dense(x.data(), rows, hidden_));
    LOCKSTEP_TRY_VOID(aten::multiply_transposed(aten::dense(read.data(), rows, hidden_),
                                                aten::dense(w, width_, hidden_), aten::dense(y.data(), rows, width_)));
    if (in_.size() <= bias) return y;
    for (size_t i = 0; i < y.size(); ++i)
      y[i] += in_[bias].floats()[expert * width_ + static_cast<int64_t>(i) % width_];
    return y;
  }

  Result<Rows> inner_of(int64_t expert) const {
    Rows rows;
    std::vector<float> x;
    for (int64_t t = 0; t < in_[kX].rows(); ++t) {
      if (route_of(t, expert) == 0.0f) continue;
      rows.token.push_back(t);
      const float* src = in_[kX].floats() + t * hidden_;
      x.insert(x.end(), src, src + hidden_);
    }
    if (x.empty()) return rows;
    LOCKSTEP_TRY(std::vector<float> gate, product(x, kGate, kGateBias, expert));
    LOCKSTEP_TRY(std::vector<float> up, product(x, kUp, kUpBias, expert));
    for (size_t i = 0; routes_on_inputs_ && i < gate.size(); ++i) {
      const float route = route_of(rows.token[i / static_cast<size_t>(width_)], expert);
      gate[i] *= route;
      up[i] *= route;
    }
    LOCKSTEP_TRY(rows.inner, combine(std::move(gate), up, rows.size()));
    for (float& v : rows.inner) v = round_to(in_[kX].type.dtype, v);
    if (call_.node.has("rounds")) round_inner(rows.inner);
    return rows;
  }

  /// Rounds what down reads.
  void round_inner(std::vector<float>& inner) const {
    const CodeRounding how{call_.node.has("rounds", "e4m3"), call_.node.integer_or("rounds_group", width_)};
    for (size_t i = 0; i < inner.size(); i += static_cast<size_t>(width_)) {
      round_row({inner.data() + i, static_cast<size_t>(width_)}, how, inner.data() + i);
    }
  }

  Result<std::vector<float>> combine(std::vector<float> gate, const std::vector<float>& up, int64_t rows) const {
    const graph::Node& node = call_.node;
    if (node.text("activation") == "clamped_swiglu") {
      clamped_swiglu(gate, up, static_cast<float>(node.number("limit")), static_cast<float>(node.number("alpha")));
      return gate;
    }
    std::vector<float> inner(gate.size());
    LOCKSTEP_TRY_VOID(activate(node.text("activation"), aten::dense(gate.data(), rows, width_),
                               aten::dense(inner.data(), rows, width_)));
    for (size_t i = 0; i < inner.size(); ++i) inner[i] *= up[i];
    return inner;
  }

  /// Adds route · (the sum over `columns`, and the down bias in the first leaf) of one expert.
  Result<void> add_expert(int64_t expert, Range columns, bool is_first_leaf, std::vector<float>& sum) const {
    const Rows& rows = rows_of_expert_[static_cast<size_t>(expert)];
    if (rows.size() == 0) return ok();
    std::vector<float> part(static_cast<size_t>(rows.size() * hidden_));
    const float* down = in_[kDown].floats() + expert * hidden_ * width_ + columns.begin;
    const std::vector<float> inner =
        rows_for(kDown, {rows.inner.data() + columns.begin, rows.size(), columns.size(), width_});
    LOCKSTEP_TRY_VOID(aten::multiply_transposed(aten::dense(inner.data(), rows.size(), columns.size()),
                                                {down, hidden_, columns.size(), width_},
                                                aten::dense(part.data(), rows.size(), hidden_)));
    const float* bias = is_first_leaf && in_.size() > kDownBias ? in_[kDownBias].floats() + expert * hidden_ : nullptr;
    for (int64_t r = 0; r < rows.size(); ++r) {
      const int64_t token = rows.token[static_cast<size_t>(r)];
      for (int64_t i = 0; i < hidden_; ++i) {
        const float value = part[static_cast<size_t>(r * hidden_ + i)] + (bias != nullptr ? bias[i] : 0.0f);
        sum[static_cast<size_t>(token * hidden_ + i)] += (routes_on_inputs_ ? 1.0f : route_of(token, expert)) * value;
      }
    }
    return ok();
  }

  const Call& call_;
  const std::vector<Tensor>& in_;
  const Range own_leaves_;
  const int64_t first_expert_;
  const int64_t held_;
  const int64_t hidden_;
  const int64_t width_;  // columns of an expert on this rank
  const bool routes_on_inputs_;
  std::vector<Rows> rows_of_expert_;
};

/// The `chosen` highest of the numbers among `values`, ties to the lowest index.
std::vector<int64_t> highest(const std::vector<float>& values, int64_t chosen) {
  std::vector<int64_t> order;
  for (size_t e = 0; e < values.size(); ++e) {
    if (!std::isnan(values[e])) order.push_back(static_cast<int64_t>(e));
  }
  std::ranges::stable_sort(order, std::greater(), [&](int64_t e) { return values[static_cast<size_t>(e)]; });
  order.resize(std::min(order.size(), static_cast<size_t>(chosen)));
  return order;
}

/// One row of a `moe_route` node.
class Route {
 public:
  Route(const Call& call, int64_t row)
      : node_(call.node),
        logits_(call.operands[0].floats() + row * call.operands[0].columns(),
                call.operands[0].floats() + (row + 1) * call.operands[0].columns()) {}

  /// Writes the routes of the chosen experts; the others' are zeros.
  Result<void> write(const Call& call, float* dst) const {
    std::vector<float> scores(logits_.size());
    LOCKSTEP_TRY_VOID(score(scores));
    std::vector<float> choice = logits_;
    if (call.operands.size() > 1 || node_.has("groups")) {
      choice = scores;
      for (size_t e = 0; call.operands.size() > 1 && e < choice.size(); ++e) choice[e] += call.operands[1].floats()[e];
    }
    if (node_.has("groups")) drop_groups(choice);
    const std::vector<int64_t> chosen = highest(choice, node_.integer("chosen"));
    float sum = 0.0f;
    for (const int64_t e : chosen) sum += scores[static_cast<size_t>(e)];
    if (!node_.has("over", "all")) {
      const float divisor = std::max(sum, static_cast<float>(node_.number_or("least_sum", 0.0)));
      for (float& v : scores) v /= divisor;
    }
    const auto scale = static_cast<float>(node_.number_or("scale", 1.0));
    for (const int64_t e : chosen) dst[e] = scores[static_cast<size_t>(e)] * scale;
    if (chosen.empty()) std::fill_n(dst, scores.size(), std::numeric_limits<float>::quiet_NaN());
    return ok();
  }

 private:
  /// The softmax over the logits that are numbers, or the sigmoid of each.
  Result<void> score(std::vector<float>& scores) const {
    if (node_.has("scores", "sigmoid")) {
      std::ranges::transform(logits_, scores.begin(), [](float x) { return 1.0f / (1.0f + std::exp(-x)); });
      return ok();
    }
    std::vector<float> numbers = logits_;
    std::erase_if(numbers, [](float x) { return std::isnan(x); });
    const auto count = static_cast<int64_t>(numbers.size());
    std::vector<float> shares(numbers.size());
    if (count > 0) {
      LOCKSTEP_TRY_VOID(
          aten::softmax_rows(aten::dense(numbers.data(), 1, count), aten::dense(shares.data(), 1, count)));
    }
    auto share = shares.begin();
    std::ranges::transform(logits_, scores.begin(), [&](float x) { return std::isnan(x) ? x : *share++; });
    return ok();
  }

  /// NaN for the experts outside the groups with the highest scores.
  void drop_groups(std::vector<float>& choice) const {
    const auto groups = static_cast<size_t>(node_.integer("groups"));
    const size_t size = choice.size() / groups;
    std::vector<float> scores;
    for (size_t g = 0; g < groups; ++g) {
      const std::vector<float> own(choice.begin() + static_cast<std::ptrdiff_t>(g * size),
                                   choice.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
      float sum = 0.0f;
      for (const int64_t e : highest(own, node_.has("group_score", "best_two") ? 2 : 1))
        sum += own[static_cast<size_t>(e)];
      scores.push_back(sum);
    }
    const std::vector<int64_t> kept = highest(scores, node_.integer("kept_groups"));
    for (size_t e = 0; e < choice.size(); ++e) {
      const bool is_kept = std::ranges::find(kept, static_cast<int64_t>(e / size)) != kept.end();
      if (!is_kept) choice[e] = std::numeric_limits<float>::quiet_NaN();
    }
  }

  const graph::Node& node_;
  const std::vector<float> logits_;
};

}  // namespace

Result<void> moe_route(const Call& call, const Environment&) {
  const int64_t experts = call.operands[0].columns();
  std::fill_n(call.result->floats(), call.result->elements(), 0.0f);
  for (int64_t t = 0; t < call.operands[0].rows(); ++t) {
    LOCKSTEP_TRY_VOID(Route(call, t).write(call, call.result->floats() + t * experts));
  }
  return ok();
}

Result<void> moe_experts(const Call& call, const Environment& environment) {
  Experts experts(call, environment.rank);
  LOCKSTEP_TRY_VOID(experts.prepare());
  float* dst = call.result->floats();
  for (const Range& root : call.sum->split.roots_of(environment.rank)) {
    LOCKSTEP_TRY(const std::vector<float> sum, sum_leaves(root, [&](int64_t i) { return experts.leaf(i); }));
    dst = std::copy(sum.begin(), sum.end(), dst);
  }
  return ok();
}

}  // namespace lockstep::reference
