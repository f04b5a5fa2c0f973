// Sampling on the device, in the order and with the names of runtime/sampling/candidates.cpp. To find a boundary, the
// host counts scores into bins and the device sorts; excluded ids have score −inf and weight 0 in both.
#include "runtime/backends/neuron/lowering/draw.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "runtime/backends/neuron/lowering/arithmetic.h"
#include "runtime/sampling/slot.h"

namespace lockstep::neuron {
namespace {

using hlo::Builder;
using hlo::Direction;
using hlo::Element;
using hlo::Opcode;
using hlo::Value;

constexpr double kExcluded = -std::numeric_limits<double>::infinity();
/// Block size of a running sum, computed as a product with a triangular matrix of ones.
constexpr int64_t kSumBlock = 256;

/// f32 [R, N] → [R, N]: element n is the sum of elements 0 … n. Sums within blocks first, then adds the previous
/// blocks.
Value running_sum(Builder& b, Value x) {
  const int64_t rows = b.dims_of(x)[0], width = b.dims_of(x)[1];
  const auto triangle = [&](int64_t n, Direction direction) {  // [from, to]
    const Value from = b.iota({Element::kS32, {n, n}, {}}, 0), to = b.iota({Element::kS32, {n, n}, {}}, 1);
    return b.convert(b.compare(direction, from, to), Element::kF32);
  };
  const int64_t n = std::min(kSumBlock, width), blocks = (width + n - 1) / n;
  const Value padded = b.pad(x, b.constant(0.0f), {0, 0}, {0, blocks * n - width});
  const Value cut = b.reshape(padded, {rows, blocks, n});
  Value sums = b.dot(cut, triangle(n, Direction::kLe), {.lhs_contracting = {2}, .rhs_contracting = {0}}, Element::kF32);
  const Value before = b.dot(b.reduce_add(cut, {2}), triangle(blocks, Direction::kLt),
                             {.lhs_contracting = {1}, .rhs_contracting = {0}}, Element::kF32);
  sums = b.add(sums, b.broadcast(before, b.dims_of(sums), {0, 1}));
  return b.slice_dimension(b.reshape(sums, {rows, blocks * n}), 1, {0, width});
}

/// The scores of S slots during processing.
class Drawing {
 public:
  Drawing(Builder& b, Value scores, const DrawStates& states)
      : b_(b), states_(states), scores_(scores), dims_(b.dims_of(scores)), ids_(b.iota({Element::kF32, dims_, {}}, 1)) {
    find_best();
  }

  Value greedy() { return lowest_id(b_.compare(Direction::kEq, scores_, wide(best_))); }
  Value is_empty() { return b_.compare(Direction::kEq, best_, kExcluded); }

  /// The lowest id with `condition` [S, V], as s32 [S]; 0 if there is none.
  Value lowest_id(Value condition) {
    const Value ids = b_.select(condition, ids_, b_.fill_like(ids_, std::numeric_limits<double>::infinity()));
    const Value lowest = b_.reduce_min(ids, {1});
    const Value found = b_.compare(Direction::kLt, lowest, static_cast<double>(dims_[1]));
    return b_.convert(b_.select(found, lowest, b_.fill_like(lowest, 0.0)), Element::kS32);
  }

  /// If a score is or becomes infinite, only the highest remain.
  void scale() {
    const Value given = column_of(b_, states_.numbers, sampling::kTemperature);
    const Value one = b_.fill_like(given, 1.0);
    const Value temperature = b_.select(b_.compare(Direction::kGt, given, 0.0), given, one);
    const Value scaled = b_.divide(scores_, wide(temperature));
    const Value best = b_.divide(best_, temperature);
    const Value is_finite =
        b_.compare(Direction::kLt, b_.unary(Opcode::kAbs, best), std::numeric_limits<double>::infinity());
    const Value is_best = b_.compare(Direction::kEq, scores_, wide(best_));
    const Value only = b_.select(is_best, b_.fill_like(scores_, 0.0), excluded());
    scores_ = b_.select(wide(is_finite), scaled, only);
    find_best();
  }

  /// One ascending sort serves both; equal scores are in order of id.
  void keep_top_k_and_p() {
    const Builder::Sorted sorted = b_.sort_rows(scores_, ids_);
    Value upwards = sorted.keys;
    const Value k = column_of(b_, states_.integers, sampling::kTopK);
    const auto vocabulary = static_cast<double>(dims_[1]);
    const Value limits = b_.logical_and(b_.compare(Direction::kGt, k, 0.0), b_.compare(Direction::kLt, k, vocabulary));
    const Value kth = element(upwards, b_.add(b_.multiply(k, -1.0), vocabulary));
    const Value threshold = b_.select(limits, kth, b_.fill_like(kth, kExcluded));
    const auto cut = [&](Value scores) {
      return b_.select(b_.compare(Direction::kLt, scores, wide(threshold)), excluded(), scores);
    };
    upwards = cut(upwards);
    scores_ = cut(scores_);
    keep_top_p(upwards, sorted.companions);
  }

  void keep_min_p() {
    const Value p = column_of(b_, states_.numbers, sampling::kMinP);
    const Value least = b_.minimum(p, b_.fill_like(p, 1.0));
    exclude(b_.compare(Direction::kLt, weights(scores_), wide(least)));
  }

  /// Sorts by the distance of an id's information from the entropy, which equals that of its depth from the mean depth.
  void keep_typical() {
    const Value mass = column_of(b_, states_.numbers, sampling::kTypicalP);
    const Value weight = weights(scores_), total = total_of(weight);
    const Value distance = b_.unary(Opcode::kAbs, b_.subtract(depths(), wide(mean_depth(weight, total))));
    const Builder::Sorted sorted = b_.sort_rows(distance, weight);
    const Value share = b_.divide(running_sum(b_, sorted.companions), wide(total));
    const Value farthest = element(sorted.keys, count_rows(b_, b_.compare(Direction::kLt, share, wide(mass))));
    const Value is_on = b_.compare(Direction::kLt, mass, 1.0);
    exclude(b_.logical_and(wide(is_on), b_.compare(Direction::kGt, distance, wide(farthest))));
    find_best();
  }

  void drop_below_epsilon() { drop_shares_below(column_of(b_, states_.numbers, sampling::kEpsilonCutoff)); }

  void drop_below_eta() {
    const Value given = column_of(b_, states_.numbers, sampling::kEtaCutoff);
    const Value epsilon = b_.maximum(given, b_.fill_like(given, 0.0));
    const Value weight = weights(scores_), total = total_of(weight);
    const Value decay = b_.unary(Opcode::kExponential, b_.multiply(mean_depth(weight, total), -1.0));
    const Value root = b_.multiply(b_.unary(Opcode::kSqrt, epsilon), b_.divide(decay, total));
    drop_shares_below(b_.minimum(epsilon, root));
  }

  /// The first id, in order of id, whose cumulative weight exceeds u times the total.
  Value draw(Value output_index) {
    const Value weight = weights(scores_);
    const Value target = b_.multiply(uniform(b_, states_.seed, output_index), total_of(weight));
    const Value passed = b_.logical_and(b_.compare(Direction::kGt, running_sum(b_, weight), wide(target)),
                                        b_.compare(Direction::kGt, weight, 0.0));
    const Value has_passed = b_.compare(Direction::kGt, b_.reduce_max(b_.convert(passed, Element::kF32), {1}), 0.5);
    return b_.select(has_passed, lowest_id(passed), greedy());
  }

 private:
  /// Broadcasts a value per slot to all columns.
  Value wide(Value per_slot) { return b_.broadcast(per_slot, dims_, {0}); }
  Value excluded() { return b_.fill_like(scores_, kExcluded); }
  void find_best() { best_ = b_.reduce_max(scores_, {1}); }
  void exclude(Value condition) { scores_ = b_.select(condition, excluded(), scores_); }
  Value base() { return b_.select(is_empty(), b_.fill_like(best_, 0.0), best_); }
  Value depths() { return b_.subtract(wide(base()), scores_); }
  /// exp(score − best); 1 for the best score.
  Value weights(Value scores) { return b_.unary(Opcode::kExponential, b_.subtract(scores, wide(base()))); }

  /// Never 0, so that a slot without candidates does not divide by 0.
  Value total_of(Value weight) {
    const Value total = b_.reduce_add(weight, {1});
    return b_.select(b_.compare(Direction::kGt, total, 0.0), total, b_.fill_like(total, 1.0));
  }

  /// Element `place` [S] of each row, or the last one.
  Value element(Value rows, Value place) {
    const Value last = b_.minimum(place, b_.fill_like(place, static_cast<double>(dims_[1] - 1)));
    const Value here = b_.compare(Direction::kEq, b_.iota({Element::kS32, dims_, {}}, 1), wide(last));
    return b_.reduce_max(b_.select(here, rows, b_.fill_like(rows, kExcluded)), {1});
  }

  /// Drops the lowest probabilities, up to a total of 1 − p; `upwards` and `ids` are the sorted scores.
  void keep_top_p(Value upwards, Value ids) {
    const Value p = column_of(b_, states_.numbers, sampling::kTopP);
    // p is accurate to seven decimals: 0.9f means 0.9, so 1 − p is 0.1.
    const Value rest = b_.multiply(b_.subtract(b_.fill_like(p, 1.0), p), 1e7);
    const Value dropped_share = b_.divide(b_.unary(Opcode::kFloor, b_.add(rest, 0.5)), b_.fill_like(rest, 1e7));
    const Value weight = weights(upwards);
    const Value share = b_.divide(running_sum(b_, weight), wide(total_of(weight)));
    const Value dropped = count_rows(b_, b_.compare(Direction::kLe, share, wide(dropped_share)));
    const Value score = wide(element(upwards, dropped)), id = wide(element(ids, dropped));
    const Value is_lower =
        b_.logical_or(b_.compare(Direction::kLt, scores_, score),
                      b_.logical_and(b_.compare(Direction::kEq, scores_, score), b_.compare(Direction::kLt, ids_, id)));
    exclude(b_.logical_and(wide(b_.compare(Direction::kLt, p, 1.0)), is_lower));
  }

  /// Σ probability · depth: the entropy minus the logarithm of the total weight.
  Value mean_depth(Value weight, Value total) {
    const Value has_weight = b_.compare(Direction::kGt, weight, 0.0);
    const Value depth = b_.select(has_weight, depths(), b_.fill_like(weight, 0.0));
    return b_.divide(b_.reduce_add(b_.multiply(weight, depth), {1}), total);
  }

  /// Drops probabilities below `least` [S], except the highest.
  void drop_shares_below(Value least) {
    const Value weight = weights(scores_);
    const Value share = b_.divide(weight, wide(total_of(weight)));
    exclude(b_.logical_and(b_.compare(Direction::kLt, share, wide(least)),
                           b_.compare(Direction::kLt, scores_, wide(best_))));
  }

  Builder& b_;
  const DrawStates& states_;
  Value scores_;
  Value best_;
  const std::vector<int64_t> dims_;  // [S, V]
  const Value ids_;                  // f32: exact, and supported by reductions
};

/// Multiplies scores of seen ids by the penalty if negative, divides them otherwise.
Value penalised(Builder& b, Value scores, Value seen, const DrawStates& states) {
  const Value given = column_of(b, states.numbers, sampling::kRepetitionPenalty);
  const Value known = b.select(b.compare(Direction::kGt, given, 0.0), given, b.fill_like(given, 1.0));
  const Value penalty = along(b, known, b.dims_of(scores), 0);
  const Value changed =
      b.select(b.compare(Direction::kLt, scores, 0.0), b.multiply(scores, penalty), b.divide(scores, penalty));
  return b.select(seen, changed, scores);
}

/// Excludes end tokens before min_new_tokens.
Value without_early_end(Builder& b, Value scores, const DrawStates& states, Value output_index) {
  const std::vector<int64_t> dims = b.dims_of(scores);
  const Value least = column_of(b, states.integers, sampling::kMinNewTokens);
  const Value is_early = along(b, b.compare(Direction::kLt, output_index, least), dims, 0);
  const Value ids = b.iota({Element::kS32, dims, {}}, 1);
  Value ends = b.broadcast(b.constant(false), dims, {});
  for (int64_t i = 0; i < b.dims_of(states.eos)[1]; ++i) {
    ends = b.logical_or(ends, b.compare(Direction::kEq, ids, along(b, column_of(b, states.eos, i), dims, 0)));
  }
  return b.select(b.logical_and(is_early, ends), b.fill_like(scores, kExcluded), scores);
}

}  // namespace

Value choose(Builder& b, LoweringOptions::Sampling sampling, Value logits, Value seen, const DrawStates& states,
             Value output_index) {
  const Value is_number = b.compare(Direction::kEq, logits, logits);
  Value scores = b.select(is_number, logits, b.fill_like(logits, kExcluded));
  scores = penalised(b, scores, seen, states);
  scores = without_early_end(b, scores, states, output_index);
  Drawing drawing(b, scores, states);
  Value token = drawing.greedy();
  const Value is_empty = drawing.is_empty(), first_number = drawing.lowest_id(is_number);
  if (sampling == LoweringOptions::Sampling::kDraw) {
    drawing.scale();
    drawing.keep_top_k_and_p();
    drawing.keep_min_p();
    drawing.keep_typical();
    drawing.drop_below_epsilon();
    drawing.drop_below_eta();
    const Value samples = b.compare(Direction::kNe, column_of(b, states.integers, sampling::kDoSample), 0.0);
    token = b.select(samples, drawing.draw(output_index), token);
  }
  return b.select(is_empty, first_number, token);
}

}  // namespace lockstep::neuron
