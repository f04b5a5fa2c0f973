// Routes of tokens to experts. Included by the isa_*.cpp files after lanes.h.
#pragma once

#include "runtime/backends/cpu/kernels/activation.h"
#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"
#include "runtime/backends/cpu/kernels/rowwise.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// Σ e^(logit − most), without logits that are no numbers.
static float sum_of_exponentials(const float* logits, int64_t count, float most) {
  Lanes sum = zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    Lanes weight = exp(read<float>(reinterpret_cast<const std::byte*>(logits), i, count - i) - splat(most));
    if (count - i < kLanes) weight = first_of(weight, static_cast<int>(count - i), zero());
    sum = sum + larger(weight, zero());
  }
  return sum_of(sum);
}

/// Walks numbers in the order "higher first, then the lower index". NaN has no place in it.
struct Descent {
  float value = __builtin_inff();
  int64_t index = -1;  // of the last number taken

  bool has_taken(float x, int64_t i) const { return x > value || (x == value && i <= index); }
  /// Takes the next of count numbers; false: there is none.
  bool take(int64_t count, const auto& number) {
    int64_t best = -1;
    float highest = 0.0f;
    for (int64_t i = 0; i < count; ++i) {
      const float x = number(i);
      const bool is_left = x < value || (x == value && i > index);
      if (is_left && (best < 0 || x > highest)) highest = x, best = i;
    }
    if (best < 0) return false;
    value = highest;
    index = best;
    return true;
  }
};

/// dst = NaN for the experts of groups that are not kept; `choice(e)` is what experts are chosen by.
static void drop_groups(float* dst, int64_t count, const RouteRule& rule, const auto& choice) {
  const int64_t size = count / rule.groups;
  const auto score = [&](int64_t group) {
    float best = -__builtin_inff(), second = best;
    for (int64_t i = group * size; i < (group + 1) * size; ++i) {
      const float x = choice(i);
      if (x > best) {
        second = best;
        best = x;
      } else if (x > second) {
        second = x;
      }
    }
    return rule.by_best_two ? best + second : best;
  };
  Descent kept;
  for (int64_t i = 0; i < rule.kept_groups; ++i) kept.take(rule.groups, score);
  for (int64_t group = 0; group < rule.groups; ++group) {
    if (kept.has_taken(score(group), group)) continue;
    for (int64_t i = group * size; i < (group + 1) * size; ++i) dst[i] = __builtin_nanf("");
  }
}

static void write_scores(const float* logits, float* dst, int64_t count, bool is_sigmoid) {
  const std::byte* from = reinterpret_cast<const std::byte*>(logits);
  float most = -__builtin_inff();
  for (int64_t i = 0; i < count; ++i) most = logits[i] > most ? logits[i] : most;
  const Lanes total = splat(is_sigmoid ? 1.0f : sum_of_exponentials(logits, count, most));
  for (int64_t i = 0; i < count; i += kLanes) {
    const Lanes x = read<float>(from, i, count - i);
    const Lanes score = is_sigmoid ? Sigmoid::of(x) : exp(x - splat(most)) / total;
    write<float>(reinterpret_cast<std::byte*>(dst), i, score, count - i);
  }
}

/// Routes by scores of all experts.
static void route_by_scores(const float* logits, float* dst, int64_t count, const RouteRule& rule) {
  write_scores(logits, dst, count, rule.is_sigmoid);
  const bool is_by_score = rule.bias != nullptr || rule.groups > 1;
  const auto choice = [&](int64_t i) {
    if (!is_by_score) return logits[i];
    return rule.bias != nullptr ? dst[i] + rule.bias[i] : dst[i];
  };
  if (rule.groups > 1) drop_groups(dst, count, rule, choice);
  Descent chosen;
  int64_t taken = 0;
  while (taken < rule.chosen && chosen.take(count, choice)) ++taken;
  float sum = 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    const float x = choice(i);
    dst[i] = taken == 0 ? __builtin_nanf("") : chosen.has_taken(x, i) ? dst[i] : 0.0f;
    sum += dst[i];
  }
  const float divisor = sum < rule.least_sum ? rule.least_sum : sum;
  for (int64_t i = 0; i < count; ++i) {
    if (rule.is_divided) dst[i] = dst[i] / divisor;
    dst[i] = dst[i] * rule.scale;
  }
}

/// Shares of a softmax over the chosen or over all, by the logits alone.
static void route_by_logits(const float* logits, float* dst, int64_t count, const RouteRule& rule) {
  for (int64_t i = 0; i < count; ++i) dst[i] = -__builtin_inff();
  Descent chosen;
  float most = -__builtin_inff();
  for (int64_t taken = 0; taken < rule.chosen; ++taken) {
    if (!chosen.take(count, [&](int64_t i) { return logits[i]; })) break;
    dst[chosen.index] = chosen.value;
    if (taken == 0) most = chosen.value;
  }
  Lanes sum = zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = count - i;
    const std::byte* from = reinterpret_cast<const std::byte*>(dst);
    Lanes weight = exp(read<float>(from, i, n) - splat(most));
    if (n < kLanes) weight = first_of(weight, static_cast<int>(n), zero());
    sum = sum + weight;
    write<float>(reinterpret_cast<std::byte*>(dst), i, weight, n);
  }
  const Lanes total = splat(rule.is_divided ? sum_of(sum) : sum_of_exponentials(logits, count, most));
  for (int64_t i = 0; i < count; i += kLanes) {
    const Lanes share = read<float>(reinterpret_cast<const std::byte*>(dst), i, count - i) / total;
    write<float>(reinterpret_cast<std::byte*>(dst), i, share * splat(rule.scale), count - i);
  }
}

static void route(const float* logits, float* dst, int64_t count, const RouteRule& rule) {
  const bool is_by_logits = !rule.is_sigmoid && rule.bias == nullptr && rule.groups == 1 && rule.least_sum == 0.0f;
  is_by_logits ? route_by_logits(logits, dst, count, rule) : route_by_scores(logits, dst, count, rule);
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
