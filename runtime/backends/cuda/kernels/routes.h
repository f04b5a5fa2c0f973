// The choice of a row's experts by the scores of all. A warp is a row.
#pragma once

#include "runtime/backends/cuda/kernels/activations.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/sums.h"

namespace lockstep::cuda {

/// Walks numbers in the order "higher first, then the lower index"; the same on all lanes. NaN has no place in it.
struct Descent {
  float value = infinity();
  int32_t index = -1;  // of the last number taken

  LOCKSTEP_DEVICE bool has_taken(float x, int32_t i) const { return x > value || (x == value && i <= index); }

  /// Takes the next of `count` numbers; false: there is none.
  template <typename Number>
  LOCKSTEP_DEVICE bool take(int32_t count, Number number) {
    float best = -infinity();
    int32_t at = count;
    for (int32_t i = thread_index() % kWarpLanes; i < count; i += kWarpLanes) {
      const float x = number(i);
      const bool is_left = x < value || (x == value && i > index);
      if (!is_left || (at < count && !(x > best))) continue;
      best = x;
      at = i;
    }
    for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) {
      const float other = shuffle_xor(best, mask);
      const int32_t other_at = shuffle_xor(at, mask);
      const bool takes = other_at < count && (at == count || other > best || (other == best && other_at < at));
      if (takes) {
        best = other;
        at = other_at;
      }
    }
    if (at == count) return false;
    value = best;
    index = at;
    return true;
  }
};

LOCKSTEP_DEVICE float sum_of_lanes(float sum) {
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) sum = plus(sum, shuffle_xor(sum, mask));
  return sum;
}

/// y = the score of each expert.
LOCKSTEP_DEVICE void write_scores(const RouteParameters& p, const float* x, float* y) {
  const int lane = thread_index() % kWarpLanes;
  float highest = -infinity();
  for (int expert = lane; expert < p.experts; expert += kWarpLanes) {
    highest = x[expert] > highest ? x[expert] : highest;
  }
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) {
    const float other = shuffle_xor(highest, mask);
    highest = other > highest ? other : highest;
  }
  float sum = 0.0f;
  for (int expert = lane; expert < p.experts; expert += kWarpLanes) {
    const float weight = exp_of(plus(x[expert], -highest));
    if (weight == weight) sum = plus(sum, weight);  // a NaN has no share
  }
  sum = sum_of_lanes(sum);
  for (int expert = lane; expert < p.experts; expert += kWarpLanes) {
    y[expert] = p.is_sigmoid != 0 ? activate(kSigmoid, x[expert]) : divide(exp_of(plus(x[expert], -highest)), sum);
  }
  sync_warp();
}

/// y = NaN for the experts of groups that are not kept; experts are chosen by `choice`.
template <typename Choice>
LOCKSTEP_DEVICE void drop_groups(const RouteParameters& p, float* y, Choice choice) {
  const int32_t size = p.experts / p.groups;
  const auto score = [&](int32_t group) {
    float best = -infinity(), second = best;
    for (int32_t i = group * size; i < (group + 1) * size; ++i) {
      const float x = choice(i);
      if (x > best) {
        second = best;
        best = x;
      } else if (x > second) {
        second = x;
      }
    }
    return p.by_best_two != 0 ? plus(best, second) : best;
  };
  Descent kept;
  for (int i = 0; i < p.kept_groups; ++i) kept.take(p.groups, score);
  for (int32_t group = thread_index() % kWarpLanes; group < p.groups; group += kWarpLanes) {
    if (kept.has_taken(score(group), group)) continue;
    for (int32_t i = group * size; i < (group + 1) * size; ++i) y[i] = plus(infinity(), -infinity());
  }
  sync_warp();
}

/// Routes by the scores of all experts.
LOCKSTEP_DEVICE void route_by_scores(const RouteParameters& p, const float* x, float* y) {
  const int lane = thread_index() % kWarpLanes;
  write_scores(p, x, y);
  const auto choice = [&](int32_t expert) {
    if (p.bias != nullptr) return plus(y[expert], p.bias[expert]);
    return p.groups > 1 ? y[expert] : x[expert];
  };
  if (p.groups > 1) drop_groups(p, y, choice);
  Descent chosen;
  int taken = 0;
  while (taken < p.chosen && chosen.take(p.experts, choice)) ++taken;
  sync_warp();
  float sum = 0.0f;
  for (int expert = lane; expert < p.experts; expert += kWarpLanes) {
    y[expert] = chosen.has_taken(choice(expert), expert) ? y[expert] : 0.0f;
    sum = plus(sum, y[expert]);
  }
  sum = sum_of_lanes(sum);
  const float divisor = sum < p.least_sum ? p.least_sum : sum;
  for (int expert = lane; expert < p.experts; expert += kWarpLanes) {
    const float route = p.is_over_all != 0 ? y[expert] : divide(y[expert], divisor);
    y[expert] = taken == 0 ? plus(infinity(), -infinity()) : times(route, p.scale);
  }
}

}  // namespace lockstep::cuda
