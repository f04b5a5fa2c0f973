// Operations on the state of the slots: running, seen, length, sampling.
#include <array>

#include "runtime/backends/neuron/lowering/arithmetic.h"
#include "runtime/backends/neuron/lowering/draw.h"
#include "runtime/backends/neuron/lowering/step.h"
#include "runtime/sampling/slot.h"

namespace lockstep::neuron {
namespace {

using hlo::Builder;
using hlo::Direction;
using hlo::Element;
using hlo::Opcode;
using hlo::Value;

/// The operands of `sample`, in order, up to the drawing states.
namespace sample_operand {
enum : size_t { kLogits, kRows, kLastId, kOutputIndex, kFinished, kSeen };
}
/// The operands of `accept`, in order, up to the drawing states.
namespace accept_operand {
enum : size_t { kLogits, kIds, kSlot, kLength, kLastId, kOutputIndex, kFinished, kSeen };
}

DrawStates draw_states(const NodeView& node, size_t seen) {
  return {node.operand(seen + 1), node.operand(seen + 2), node.operand(seen + 3), node.operand(seen + 4)};
}

Value is_not_zero(Builder& b, Value x) { return b.compare(Direction::kNe, x, 0.0); }
Value as_integers(Builder& b, Value condition) { return b.convert(condition, Element::kS32); }

/// The state "seen", u8 [S + 1, V], with `ids` [T] marked in rows `slot` [T]; if `is_row` [T] is false, the mark goes
/// to the scratch row S.
Value marked(Builder& b, Value seen, Value ids, Value slot, Value is_row) {
  const auto scratch = static_cast<double>(b.dims_of(seen)[0] - 1);
  const int64_t rows = b.dims_of(ids)[0];
  const Value row = b.select(is_row, slot, b.fill_like(slot, scratch));
  const Value column = b.select(is_row, ids, b.fill_like(ids, 0.0));
  const Value places = b.concatenate({b.reshape(row, {rows, 1}), b.reshape(column, {rows, 1})}, 1);
  const Value one = b.convert(b.constant(int32_t{1}), Element::kU8);
  return b.put_elements(seen, places, b.broadcast(one, {rows}, {}));
}

/// The state "seen" as pred [S, V].
Value seen_by_slots(Builder& b, Value seen) {
  const Value slots = b.slice_dimension(seen, 0, {0, b.dims_of(seen)[0] - 1});
  return is_not_zero(b, b.convert(slots, Element::kS32));
}

/// A slot's states after a token.
struct Slots {
  Value last_id, output_index, finished;
};

/// Appends `token` [S] to the slots selected by `takes` [S]: the rest of sampling::take_next.
Slots after(Builder& b, const Slots& before, Value takes, Value token, const DrawStates& states) {
  const Value output_index = b.add(before.output_index, as_integers(b, takes));
  Value ends = b.compare(Direction::kGe, output_index, column_of(b, states.integers, sampling::kMaxNewTokens));
  for (int64_t i = 0; i < b.dims_of(states.eos)[1]; ++i) {
    ends = b.logical_or(ends, b.compare(Direction::kEq, token, column_of(b, states.eos, i)));
  }
  return {b.select(takes, token, before.last_id), output_index, b.select(takes, as_integers(b, ends), before.finished)};
}

}  // namespace

Result<void> lower_running_slots(const NodeView& node) {
  Builder& b = node.builder();
  const Value active = node.operand(0), finished = node.operand(1);
  const Value runs = b.logical_and(is_not_zero(b, active), b.compare(Direction::kEq, finished, 0.0));
  const Value ids = b.iota(b.type_of(active), 0);
  node.set_result(b.select(runs, ids, b.fill_like(ids, -1.0)));
  return ok();
}

Result<void> lower_own_slots(const NodeView& node) {
  Builder& b = node.builder();
  const Value slot = node.operand(0);
  const Value own = b.subtract(slot, everywhere(b, node.integer_of_each_rank("first_slot"), b.dims_of(slot)));
  const auto count = static_cast<double>(node.node().integer("slots"));
  const Value is_own = b.logical_and(b.compare(Direction::kGe, own, 0.0), b.compare(Direction::kLt, own, count));
  node.set_result(b.select(is_own, own, b.fill_like(own, -1.0)));
  return ok();
}

Result<void> lower_mark_seen(const NodeView& node) {
  Builder& b = node.builder();
  const Value slot = node.operand(2);
  const Value ids = node.operand(1);
  const Value is_token = b.logical_and(b.compare(Direction::kGe, slot, 0.0), b.compare(Direction::kGe, ids, 0.0));
  node.set_state(0, marked(b, node.operand(0), ids, slot, is_token));
  return ok();
}

/// Counts rows, so that several rows of one slot add up.
Result<void> lower_advance(const NodeView& node) {
  Builder& b = node.builder();
  const Value length = node.operand(0), slot = node.operand(1);
  const std::vector<int64_t> dims{b.dims_of(length)[0], b.dims_of(slot)[0]};  // [S, T]
  const Value ids = b.iota({Element::kS32, dims, {}}, 0);
  const Value rows = count_rows(b, b.compare(Direction::kEq, ids, along(b, slot, dims, 1)));
  node.set_state(0, b.add(length, rows));
  return ok();
}

Result<void> lower_sample(const NodeView& node) {
  using namespace sample_operand;
  Builder& b = node.builder();
  const DrawStates states = draw_states(node, kSeen);
  const Slots before{node.operand(kLastId), node.operand(kOutputIndex), node.operand(kFinished)};
  const Value token = choose(b, node.step().options().sampling, node.operand(kLogits),
                             seen_by_slots(b, node.operand(kSeen)), states, before.output_index);
  const Value runs = b.compare(Direction::kEq, before.finished, 0.0);
  const Value is_wanted = b.compare(Direction::kGe, node.operand(kRows), 0.0);
  const Slots now = after(b, before, b.logical_and(runs, is_wanted), token, states);
  const Value idle = b.select(runs, b.fill_like(token, -1.0), column_of(b, states.integers, sampling::kPadId));
  node.set_result(b.select(b.logical_and(runs, is_wanted), token, idle));
  node.set_state(kLastId, now.last_id);
  node.set_state(kOutputIndex, now.output_index);
  node.set_state(kFinished, now.finished);
  return ok();
}

namespace {

/// Verifies the tokens of a draft one row after the other.
class Acceptance {
 public:
  explicit Acceptance(const NodeView& node)
      : node_(node),
        b_(node.builder()),
        slots_(node.step().slots()),
        rows_(node.dims(accept_operand::kSlot)[0] / slots_),
        states_(draw_states(node, accept_operand::kSeen)),
        seen_(node.operand(accept_operand::kSeen)) {}

  void lower() {
    using namespace accept_operand;
    Slots now{node_.operand(kLastId), node_.operand(kOutputIndex), node_.operand(kFinished)};
    Value length = node_.operand(kLength);
    const Value pad = column_of(b_, states_.integers, sampling::kPadId);
    Value takes = is_row(0);
    std::vector<Value> tokens;
    for (int64_t i = 0; i < rows_; ++i) {
      seen_ = marked(b_, seen_, now.last_id, b_.iota(b_.type_of(length), 0), takes);
      const Value token =
          choose(b_, node_.step().options().sampling, logits(i), seen_by_slots(b_, seen_), states_, now.output_index);
      const Value none = b_.fill_like(token, -1.0);
      const Value idle = i == 0 ? b_.select(is_not_zero(b_, now.finished), pad, none) : none;
      tokens.push_back(b_.reshape(b_.select(takes, token, idle), {slots_, 1}));
      now = after(b_, now, takes, token, states_);
      length = b_.add(length, as_integers(b_, takes));
      if (i + 1 == rows_) break;
      const Value goes_on = b_.logical_and(is_row(i + 1), b_.compare(Direction::kEq, now.finished, 0.0));
      const Value came_true = b_.compare(Direction::kEq, token, row(node_.operand(kIds), i + 1));
      takes = b_.logical_and(takes, b_.logical_and(goes_on, came_true));
    }
    node_.set_result(b_.reshape(b_.concatenate(tokens, 1), {slots_ * rows_}));
    node_.set_state(kLength, length);
    node_.set_state(kLastId, now.last_id);
    node_.set_state(kOutputIndex, now.output_index);
    node_.set_state(kFinished, now.finished);
    node_.set_state(kSeen, seen_);
  }

 private:
  /// Row `i` of each slot: [S].
  Value row(Value rows, int64_t i) { return column_of(b_, b_.reshape(rows, {slots_, rows_}), i); }
  Value is_row(int64_t i) { return b_.compare(Direction::kGe, row(node_.operand(accept_operand::kSlot), i), 0.0); }
  Value logits(int64_t i) {
    const Value all = node_.operand(accept_operand::kLogits);
    const int64_t vocabulary = b_.dims_of(all)[1];
    const Value split = b_.reshape(all, {slots_, rows_, vocabulary});
    return b_.reshape(b_.slice_dimension(split, 1, {i, i + 1}), {slots_, vocabulary});
  }

  const NodeView& node_;
  Builder& b_;
  const int64_t slots_;
  const int64_t rows_;  // of a slot
  const DrawStates states_;
  Value seen_;
};

}  // namespace

Result<void> lower_accept(const NodeView& node) {
  Acceptance(node).lower();
  return ok();
}

/// One ascending sort of the negated logits finds the highest; it is stable, so equal ones are in order of id.
Result<void> lower_score(const NodeView& node) {
  Builder& b = node.builder();
  const Value logits = node.operand(0), targets = node.operand(1);
  const std::vector<int64_t> dims = b.dims_of(logits);
  const Value best = b.reduce_max(logits, {1});
  const Value sum = b.reduce_add(b.unary(Opcode::kExponential, b.subtract(logits, along(b, best, dims, 0))), {1});
  const Value total = b.add(best, b.unary(Opcode::kLog, sum));
  const Value ids = b.iota({Element::kS32, dims, {}}, 1);
  const Value is_target = b.compare(Direction::kEq, ids, along(b, targets, dims, 0));
  const Value of_target = b.reduce_add(b.select(is_target, logits, b.fill_like(logits, 0.0)), {1});
  std::vector<Value> columns{b.reshape(b.subtract(of_target, total), {dims[0], 1})};
  if (const int64_t top = node.node().integer("top"); top > 0) {
    const Builder::Sorted sorted = b.sort_rows(b.multiply(logits, -1.0), to_f32(b, ids));
    const Value highest = b.multiply(b.slice_dimension(sorted.keys, 1, {0, top}), -1.0);
    columns.push_back(b.slice_dimension(sorted.companions, 1, {0, top}));
    columns.push_back(b.subtract(highest, along(b, total, {dims[0], top}, 0)));
  }
  const Value row = columns.size() == 1 ? columns.front() : b.concatenate(columns, 1);
  node.set_result(keep_rows(b, b.compare(Direction::kGe, targets, 0.0), row));
  return ok();
}

}  // namespace lockstep::neuron
