// Operations with communication between ranks, as instructions of the module. A group of one has none.
#include <algorithm>

#include "runtime/backends/neuron/lowering/arithmetic.h"
#include "runtime/backends/neuron/lowering/step.h"
#include "runtime/graph/agree.h"

namespace lockstep::neuron {
namespace {

using graph::AgreeOperand;
using hlo::Builder;
using hlo::Direction;
using hlo::Element;
using hlo::Value;

/// [ranks, n]: the vectors [n] of all ranks.
Value gathered(const NodeView& node, Value own) {
  Builder& b = node.builder();
  const int64_t count = b.dims_of(own)[0];
  return b.reshape(b.all_gather(own, 0, node.step().ranks()), {node.step().ranks(), count});
}

/// The first 16 bytes of each row of the hidden state, as f32 [rows · elements].
Value hidden_sample(const NodeView& node) {
  Builder& b = node.builder();
  const Value hidden = node.operand(AgreeOperand::kHidden);
  const auto element = static_cast<int64_t>(hlo::size_of(b.element_of(hidden)));
  const int64_t width = std::min(b.dims_of(hidden)[1], graph::kAgreedBytes / element);
  const Value sample = to_f32(b, b.slice_dimension(hidden, 1, {0, width}));
  return b.reshape(sample, {b.dims_of(hidden)[0] * width});
}

/// f32 [ranks]: how many numbers of each rank's row differ from rank 0's. NaN equals NaN here.
Value differences(Builder& b, Value facts) {
  const std::vector<int64_t> dims = b.dims_of(facts);
  const Value first = b.broadcast(b.reshape(b.slice_dimension(facts, 0, {0, 1}), {dims[1]}), dims, {1});
  Value differs = b.compare(Direction::kNe, facts, first);
  if (hlo::is_float(b.element_of(facts))) {
    const Value both = b.logical_and(b.compare(Direction::kNe, facts, facts), b.compare(Direction::kNe, first, first));
    differs = b.logical_and(differs, b.logical_not(both));
  }
  return b.reduce_add(b.convert(differs, Element::kF32), {1});
}

}  // namespace

/// The device adds in f32, in an unspecified order.
Result<void> lower_all_reduce(const NodeView& node) {
  Builder& b = node.builder();
  const Value own = node.operand(0);
  node.set_result(node.step().ranks() == 1 ? own : b.all_reduce(own, node.step().ranks()));
  return ok();
}

/// Every rank sends as many columns as the largest; the padding is removed afterwards.
Result<void> lower_all_gather(const NodeView& node) {
  Builder& b = node.builder();
  const Value own = node.operand(0);
  const int ranks = node.step().ranks();
  if (ranks == 1) {
    node.set_result(own);
    return ok();
  }
  const std::vector<int64_t>& parts = node.node().integers("parts");
  const int64_t width = b.dims_of(own)[1];
  const Value all = b.all_gather(own, 1, ranks);
  std::vector<Value> columns;
  for (int rank = 0; rank < ranks; ++rank) {
    columns.push_back(b.slice_dimension(all, 1, {rank * width, rank * width + parts[static_cast<size_t>(rank)]}));
  }
  const bool are_even = std::all_of(parts.begin(), parts.end(), [&](int64_t part) { return part == width; });
  node.set_result(are_even ? all : b.concatenate(columns, 1));
  return ok();
}

/// In a decode step every rank sends the rows of its slots. A chunk belongs to one slot: its rank sends, and the others
/// add zeros.
Result<void> lower_rows_of_owners(const NodeView& node) {
  Builder& b = node.builder();
  Step& step = node.step();
  const int ranks = step.ranks();
  const std::vector<int64_t> dims = node.dims(0);
  Value rows = keep_rows(b, b.compare(Direction::kGe, node.operand(1), 0.0), node.operand(0));
  if (ranks == 1) {
    node.set_result(rows);
    return ok();
  }
  std::vector<Range> columns;
  std::vector<std::vector<int32_t>> ranges;
  const int64_t slots = node.node().integer("slots");
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t begin = columns.empty() ? 0 : columns.back().end;
    columns.push_back({begin, begin + node.node().integers("parts")[static_cast<size_t>(rank)]});
    ranges.push_back({static_cast<int32_t>(rank * slots)});
  }
  const Value first = step.of_each_rank("first_slot", ranges);
  if (step.row_layout() == RowLayout::kOfEachSlot) {
    const int64_t of_slot = dims[0] / step.slots();
    const Value begin = b.reshape(b.multiply(first, static_cast<double>(of_slot)), {});
    const Value own = b.dynamic_slice(rows, {begin, b.constant(int32_t{0})}, {of_slot * slots, dims[1]});
    rows = b.all_gather(own, 0, ranks);
  } else {
    const Value own = b.subtract(node.operand(1), everywhere(b, first, {dims[0]}));
    const Value is_own =
        b.logical_and(b.compare(Direction::kGe, own, 0.0), b.compare(Direction::kLt, own, static_cast<double>(slots)));
    rows = b.all_reduce(to_f32(b, keep_rows(b, is_own, rows)), ranks);
  }
  node.set_result(columns_of_each_rank(node, rows, columns));
  return ok();
}

/// Compares the facts themselves instead of a checksum: they are few, and the device's integer sums are not exact. The
/// output "agreement", s32 [ranks], counts each rank's differences from rank 0; the host makes the error.
Result<void> lower_agree(const NodeView& node) {
  Builder& b = node.builder();
  const int64_t slots = node.dims(AgreeOperand::kFinished)[0];
  Value stop = b.reshape(node.operand(AgreeOperand::kStopRequest), {1, slots});
  if (node.step().ranks() > 1) {
    std::vector<Value> facts;
    for (const size_t i : {AgreeOperand::kStep, AgreeOperand::kLastId, AgreeOperand::kLength,
                           AgreeOperand::kOutputIndex, AgreeOperand::kParameterHash})
      facts.push_back(node.operand(i));
    const int64_t compared = 2 + 4 * slots;
    facts.push_back(node.operand(AgreeOperand::kStopRequest));
    const Value all = gathered(node, b.concatenate(facts, 0));
    stop = b.slice(all, {0, compared}, {1, compared + slots});  // from rank 0
    const Value words = differences(b, b.slice_dimension(all, 1, {0, compared}));
    const Value hidden = differences(b, gathered(node, hidden_sample(node)));
    node.step().add_output("agreement", b.convert(b.add(words, hidden), Element::kS32));
  }
  const Value stops = b.compare(Direction::kNe, b.reshape(stop, {slots}), 0.0);
  const Value finished = node.operand(AgreeOperand::kFinished);
  node.set_state(AgreeOperand::kFinished, b.select(stops, b.fill_like(finished, 1.0), finished));
  return ok();
}

}  // namespace lockstep::neuron
