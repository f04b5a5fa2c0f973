// Mixture of experts: routing, and the partial sums of this rank's experts.
#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/backends/reference/activations.h"
#include "runtime/backends/reference/kernels.h"
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
        width_(in_[kDown].columns()) {}

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

  /// x · wᵀ + bias of the selected rows with one expert's `width` rows of a stacked weight.
  Result<std::vector<float>> product(const std::vector<float>& x, ExpertOperand weight, ExpertOperand bias,
                                     int64_t expert) const {
    const int64_t rows = static_cast<int64_t>(x.size()) / hidden_;
    std::vector<float> y(static_cast<size_t>(rows * width_));
    const float* w = in_[weight].floats() + expert * width_ * hidden_;
    LOCKSTEP_TRY_VOID(aten::multiply_transposed(aten::dense(x.data(), rows, hidden_), aten::dense(w, width_, hidden_),
                                                aten::dense(y.data(), rows, width_)));
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
    LOCKSTEP_TRY(const std::vector<float> up, product(x, kUp, kUpBias, expert));
    LOCKSTEP_TRY(rows.inner, combine(std::move(gate), up, rows.size()));
    for (float& v : rows.inner) v = round_to(in_[kX].type.dtype, v);
    return rows;
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
    LOCKSTEP_TRY_VOID(aten::multiply_transposed(
        {rows.inner.data() + columns.begin, rows.size(), columns.size(), width_},
        {down, hidden_, columns.size(), width_}, aten::dense(part.data(), rows.size(), hidden_)));
    const float* bias = is_first_leaf && in_.size() > kDownBias ? in_[kDownBias].floats() + expert * hidden_ : nullptr;
    for (int64_t r = 0; r < rows.size(); ++r) {
      const int64_t token = rows.token[static_cast<size_t>(r)];
      for (int64_t i = 0; i < hidden_; ++i) {
        const float value = part[static_cast<size_t>(r * hidden_ + i)] + (bias != nullptr ? bias[i] : 0.0f);
        sum[static_cast<size_t>(token * hidden_ + i)] += route_of(token, expert) * value;
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
  std::vector<Rows> rows_of_expert_;
};

/// The `chosen` highest of a row, ties to the lowest index.
std::vector<int64_t> highest(const float* row, int64_t columns, int64_t chosen) {
  std::vector<int64_t> order(static_cast<size_t>(columns));
  for (size_t e = 0; e < order.size(); ++e) order[e] = static_cast<int64_t>(e);
  std::stable_sort(order.begin(), order.end(), [=](int64_t a, int64_t b) { return row[a] > row[b]; });
  order.resize(static_cast<size_t>(chosen));
  return order;
}

}  // namespace

Result<void> moe_route(const Call& call, const Environment&) {
  const Tensor& logits = call.operands[0];
  const int64_t experts = logits.columns();
  const bool is_over_all = call.node.has("over") && call.node.text("over") == "all";
  std::fill_n(call.result->floats(), call.result->elements(), 0.0f);
  for (int64_t t = 0; t < logits.rows(); ++t) {
    const float* row = logits.floats() + t * experts;
    const std::vector<int64_t> chosen = highest(row, experts, call.node.integer("chosen"));
    std::vector<float> scores;
    for (const int64_t e : chosen) scores.push_back(row[e]);
    for (int64_t e = 0; is_over_all && e < experts; ++e) {
      if (!std::isnan(row[e]) && std::ranges::find(chosen, e) == chosen.end()) scores.push_back(row[e]);
    }
    const auto count = static_cast<int64_t>(scores.size());
    std::vector<float> shares(scores.size());
    LOCKSTEP_TRY_VOID(aten::softmax_rows(aten::dense(scores.data(), 1, count), aten::dense(shares.data(), 1, count)));
    for (size_t i = 0; i < chosen.size(); ++i) call.result->floats()[t * experts + chosen[i]] = shares[i];
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
