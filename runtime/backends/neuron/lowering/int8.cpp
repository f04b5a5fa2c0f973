// 8-bit products of runtime/core/int8_groups.h, for a device with inexact integer products.
//
//   x [T, K] ──► integers bf16 [T, g, w], scales f32 [T, g] ─┐
//   weight   ──► integers s8   [N, g · w] ─► bf16            ├─ dot by group ─► f32 [g, T, N] · scales ─ Σ g ─► [T, N]
//                scales   f32  [g, N]  ──────────────────────┘
//
// Integers up to 127 are exact in bf16; their products, and the sums of a group (at most 1024, so below 2^24), are
// exact in f32. Each group's sum therefore equals the definition to the bit if the device adds in f32. The order of the
// sum over groups is the device's.
#include <algorithm>

#include "runtime/backends/neuron/lowering/arithmetic.h"
#include "runtime/backends/neuron/lowering/step.h"
#include "runtime/graph/coded_weights.h"

namespace lockstep::neuron {
namespace {

using hlo::Builder;
using hlo::Direction;
using hlo::Element;
using hlo::Opcode;
using hlo::Value;

/// Rounds |x| below 2^22 to the nearest integer, ties to even. There is no such opcode, and the rounding of conversions
/// is device-specific.
Value nearest(Builder& b, Value x) {
  const Value low = b.unary(Opcode::kFloor, x);
  const Value rest = b.subtract(x, low);
  const Value half_of_low = b.multiply(low, 0.5);
  const Value is_odd = b.compare(Direction::kNe, b.unary(Opcode::kFloor, half_of_low), half_of_low);
  const Value is_tie = b.compare(Direction::kEq, rest, 0.5);
  const Value goes_up = b.logical_or(b.compare(Direction::kGt, rest, 0.5), b.logical_and(is_tie, is_odd));
  return b.add(low, b.convert(goes_up, Element::kF32));
}

/// x f32 [T, K] as [T, groups, width]: leaves one after the other, each padded with zeros to whole groups.
Value in_groups(Builder& b, Value x, int64_t leaf, int64_t width) {
  const int64_t rows = b.dims_of(x)[0], columns = b.dims_of(x)[1];
  const int64_t leaves = (columns + leaf - 1) / leaf, per_leaf = (leaf + width - 1) / width;
  const Value zero = b.constant(0.0f);
  if (leaves * leaf > columns) x = b.pad(x, zero, {0, 0}, {0, leaves * leaf - columns});
  if (per_leaf * width > leaf) {
    x = b.pad(b.reshape(x, {rows, leaves, leaf}), zero, {0, 0, 0}, {0, 0, per_leaf * width - leaf});
  }
  return b.reshape(x, {rows, leaves * per_leaf, width});
}

/// `to_int8` of int8_groups.h for every group of [T, groups, width]. A NaN or an infinity makes the integers NaN, so
/// the results are NaN, too.
struct Rows8 {
  Value integers;  // bf16 [T, groups, width]
  Value scales;    // f32 [T, groups]
};
Rows8 to_8_bits(Builder& b, Value groups) {
  const Value most = b.reduce_max(b.unary(Opcode::kAbs, groups), {2});
  const Value is_small = b.compare(Direction::kLt, most, 0x1p-100);
  const Value divisor = b.select(is_small, b.fill_like(most, 1.0), most);
  const Value zeros = b.fill_like(most, 0.0);
  const Value inverse = b.select(is_small, zeros, b.divide(b.fill_like(most, 127.0), divisor));
  const Value scales = b.select(is_small, zeros, b.divide(most, b.fill_like(most, 127.0)));
  const Value scaled = b.multiply(groups, b.broadcast(inverse, b.dims_of(groups), {0, 1}));
  return {b.convert(nearest(b, scaled), Element::kBF16), scales};
}

Result<Value> product_in_8_bits(const NodeView& node, int64_t leaf) {
  Builder& b = node.builder();
  const int64_t width = std::min(graph::int8_group(node.step().graph(), node.node()), leaf);
  const auto [integers, scales] = to_8_bits(b, in_groups(b, to_f32(b, node.operand(0)), leaf, width));
  LOCKSTEP_TRY(const Step::Int8Weight weight, node.step().in_8_bits(node.node().operands[1], leaf, width));
  const int64_t rows = b.dims_of(integers)[0], groups = b.dims_of(integers)[1], outputs = b.dims_of(weight.scales)[1];
  const Value w = b.reshape(b.convert(weight.integers, Element::kBF16), {outputs, groups, width});
  const Value sums = b.dot(
      integers, w, {.lhs_contracting = {2}, .rhs_contracting = {2}, .lhs_batch = {1}, .rhs_batch = {1}}, Element::kF32);
  const std::vector<int64_t> dims{groups, rows, outputs};
  const Value by_weight = b.multiply(sums, b.broadcast(weight.scales, dims, {0, 2}));
  return b.reduce_add(b.multiply(by_weight, b.broadcast(b.transpose(scales, {1, 0}), dims, {0, 1})), {0});
}

}  // namespace

Result<Value> product_with_weight(const NodeView& node, int64_t leaf) {
  if (graph::int8_group(node.step().graph(), node.node()) > 0) return product_in_8_bits(node, leaf);
  return product(node.builder(), node.operand(0), node.operand(1));
}

}  // namespace lockstep::neuron
