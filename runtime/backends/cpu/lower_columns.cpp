// Lowering of columnwise operations, as separate stages or after the product of the columns.
#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/backends/cpu/compiler.h"

namespace lockstep::cpu {
namespace {

using graph::Op;

/// Columns per unit of work, so that workers can share one row.
constexpr int64_t kChunk = 1024;

/// Calls `work(row, first column, columns)` for the part's share of a [rows, columns] result.
template <typename Work>
void for_share(int64_t rows, int64_t columns, Part part, const Work& work) {
  const int64_t chunks = (columns + kChunk - 1) / kChunk;
  const Share share = share_of(rows * chunks, part);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t begin = i % chunks * kChunk;
    work(i / chunks, begin, std::min(kChunk, columns - begin));
  }
}

}  // namespace

Activation activation_of(const graph::Node& node) {
  const std::string& name = node.text("activation");
  if (name == "silu") return {.kind = ActivationKind::kSilu};
  if (name == "sigmoid") return {.kind = ActivationKind::kSigmoid};
  if (name == "gelu") return {.kind = ActivationKind::kGelu};
  if (name == "gelu_tanh") return {.kind = ActivationKind::kGeluTanh};
  if (name == "relu") return {.kind = ActivationKind::kRelu};
  if (name == "squared_relu") return {.kind = ActivationKind::kSquaredRelu};
  LOCKSTEP_CHECK(name == "clamped_swiglu", name);
  return {.kind = ActivationKind::kClampedSwiglu,
          .limit = static_cast<float>(node.number("limit")),
          .alpha = static_cast<float>(node.number("alpha"))};
}

void Compiler::lower_columnwise(const Node& node) {
  add_shared([dst = result(node), work = column_work(node)](Part part) {
    for_share(dst.used_rows(), dst.columns, part, work);
  });
}

Compiler::ColumnWork Compiler::column_work(const Node& node) const {
  const Tensor x = operand(node, 0), dst = result(node);
  switch (node.op) {
    case Op::kAdd: return added(node);
    case Op::kMultiply: return multiplied(node);
    case Op::kGatedActivation: return gated(node);
    case Op::kScale:
      return [=, factor = static_cast<float>(node.number("factor")), scale = kernels_.scale](
                 int64_t row, int64_t column, int64_t count) {
        scale(x.const_row(row, column), dst.row(row, column), count, factor);
      };
    case Op::kScaleRows:
      return [=, factors = operand(node, 1), scale = kernels_.scale](int64_t row, int64_t column, int64_t count) {
        scale(x.const_row(row, column), dst.row(row, column), count, *reinterpret_cast<const float*>(factors.at(row)));
      };
    case Op::kScaleByPosition: return scaled_by_position(node);
    case Op::kWeightedSum: return weighted_sum(node);
    case Op::kSoftCap:
      return [=, cap = static_cast<float>(node.number("cap")), soft_cap = kernels_.soft_cap](
                 int64_t row, int64_t column, int64_t count) {
        soft_cap(x.const_row(row, column), dst.row(row, column), count, cap);
      };
    case Op::kActivation:
      return [=, activation = activation_of(node), activate = kernels_.activate](int64_t row, int64_t column,
                                                                                 int64_t count) {
        activate(activation, x.const_row(row, column), dst.row(row, column), count);
      };
    case Op::kAllReduce:  // of one rank with the whole tree: one root
      LOCKSTEP_CHECK(x.planes == 1, x.planes);
      return [=, convert = kernels_.convert](int64_t row, int64_t column, int64_t count) {
        convert(x.const_row(row, column), dst.row(row, column), count);
      };
    default:
      LOCKSTEP_CHECK(node.op == Op::kAllGather, to_string(node.op));
      return [=](int64_t row, int64_t column, int64_t count) {
        std::memcpy(dst.at(row, column), x.at(row, column), static_cast<size_t>(count * dst.element_size()));
      };
  }
}

Compiler::ColumnWork Compiler::added(const Node& node) const {
  const bool one_row = graph_.value(node.operands[1]).type.shape.rank() == 1;
  return [one_row, x = operand(node, 0), y = operand(node, 1), dst = result(node), add = kernels_.add](
             int64_t row, int64_t column, int64_t count) {
    add(x.const_row(row, column), y.const_row(one_row ? 0 : row, column), dst.row(row, column), count);
  };
}

Compiler::ColumnWork Compiler::scaled_by_position(const Node& node) const {
  const Tensor factors = operand(node, 2);
  return [x = operand(node, 0), position = operand(node, 1).as<int32_t>(), factors = factors.as<float>(),
          last = factors.columns - 1, every = node.integer("every"), offset = node.integer_or("offset", 0),
          dst = result(node), scale = kernels_.scale](int64_t row, int64_t column, int64_t count) {
    const int64_t place = std::clamp<int64_t>((position[row] + offset) / every, 0, last);
    scale(x.const_row(row, column), dst.row(row, column), count, factors[place]);
  };
}

Compiler::ColumnWork Compiler::weighted_sum(const Node& node) const {
  std::vector<Tensor> terms;
  for (size_t term = 1; term < node.operands.size(); ++term) terms.push_back(operand(node, term));
  return [terms = std::move(terms), factors = operand(node, 0), first = node.integer("first"),
          offset = static_cast<float>(node.number_or("offset", 0.0)), dst = result(node), convert = kernels_.convert,
          weighted_sum = kernels_.weighted_sum](int64_t row, int64_t column, int64_t count) {
    const int64_t used = std::ssize(terms);
    std::array<float, graph::kMostTerms> weights;
    std::array<ConstRow, graph::kMostTerms> rows;
    convert(factors.const_row(row, first), {reinterpret_cast<std::byte*>(weights.data()), DType::kFloat32}, used);
    for (size_t term = 0; term < terms.size(); ++term) {
      weights[term] += offset;
      rows[term] = terms[term].const_row(row, column);
    }
    weighted_sum(rows.data(), weights.data(), used, dst.row(row, column), count);
  };
}

Compiler::ColumnWork Compiler::multiplied(const Node& node) const {
  const Tensor x = operand(node, 0), y = operand(node, 1), dst = result(node);
  const Shape& factors = graph_.value(node.operands[1]).type.shape;
  if (factors.rank() == 1 && factors[0] == 1 && dst.columns > 1) {
    return [=, convert = kernels_.convert, scale = kernels_.scale](int64_t row, int64_t column, int64_t count) {
      float factor = 0.0f;
      convert(y.const_row(0), {reinterpret_cast<std::byte*>(&factor), DType::kFloat32}, 1);
      scale(x.const_row(row, column), dst.row(row, column), count, factor);
    };
  }
  return [=, one_row = factors.rank() == 1, multiply = kernels_.multiply](int64_t row, int64_t column, int64_t count) {
    multiply(x.const_row(row, column), y.const_row(one_row ? 0 : row, column), dst.row(row, column), count);
  };
}

Compiler::ColumnWork Compiler::gated(const Node& node) const {
  const bool is_packed = node.operands.size() == 1;
  const Tensor dst = result(node);
  return [gate = operand(node, 0), up = operand(node, is_packed ? 0 : 1), dst, first_up = is_packed ? dst.columns : 0,
          activation = activation_of(node), multiply = kernels_.gate](int64_t row, int64_t column, int64_t count) {
    multiply(activation, gate.const_row(row, column), up.const_row(row, first_up + column), dst.row(row, column),
             count);
  };
}

}  // namespace lockstep::cpu
