// Stages of the operations that treat each row alone: tables, products, sums, norms, activations, slices.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/backends/cpu/compiler.h"
#include "runtime/backends/cpu/fused_linear.h"
#include "runtime/backends/cpu/linear.h"
#include "runtime/backends/cpu/linear_int8.h"
#include "runtime/backends/cpu/weight_packing.h"

namespace lockstep::cpu {
namespace {

/// Columns that a worker takes at a time of an elementwise operation, so that one row can be shared.
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
  if (name == "gelu") return {.kind = ActivationKind::kGelu};
  if (name == "gelu_tanh") return {.kind = ActivationKind::kGeluTanh};
  if (name == "relu") return {.kind = ActivationKind::kRelu};
  LOCKSTEP_CHECK(name == "clamped_swiglu", name);
  return {.kind = ActivationKind::kClampedSwiglu,
          .limit = static_cast<float>(node.number("limit")),
          .alpha = static_cast<float>(node.number("alpha"))};
}

Error Compiler::not_a_weight(const Node& node, size_t operand) const {
  return {ErrorKind::kUnsupported,
          fmt::format("[runtime/backends/cpu] cannot compile {}: found {} over {}, expected a weight of this store",
                      graph_.name, to_string(node.op), graph_.value(node.operands[operand]).name)};
}

Result<void> Compiler::lower_embedding(const Node& node) {
  const graph::Value& table = graph_.value(node.operands[1]);
  const std::optional<PackedWeight> packed = store_.any_packed(table.name);
  const Tensor rows = operand(node, 1);
  if (rows.data == nullptr && !packed) return not_a_weight(node, 1);
  const DType dtype = table.type.dtype;
  const int64_t width = rows.columns;
  program_.scratch.need_private(width * static_cast<int64_t>(size_of(dtype)));
  // What a rank adds for a row of another's: x + −0 is x, also where x is −0.
  const float nothing = graph_.ranks > 1 ? -0.0f : 0.0f;
  add_shared([=, this_rows = table.type.shape[0], first = node.integer("first_row"), ids = operand(node, 0),
              dst = result(node), kernels = &kernels_, scratch = &program_.scratch](Part part) {
    const Share share = share_of(dst.used_rows(), part);
    for (int64_t row = share.begin; row < share.end; ++row) {
      const int64_t id = int64_t{ids.as<int32_t>()[row]} - first;
      if (id < 0 || id >= this_rows) {
        std::fill_n(reinterpret_cast<float*>(dst.at(row)), width, nothing);
      } else if (rows.data != nullptr) {
        kernels->convert(rows.const_row(id), dst.row(row), width);
      } else {
        unpack_row(packed->packing, packed->data, id, scratch->private_of(part));
        kernels->convert({scratch->private_of(part), dtype}, dst.row(row), width);
      }
    }
  });
  return ok();
}

Result<void> Compiler::add_linear(const Node& node, FusedLinear product) {
  auto fused = std::make_shared<FusedLinear>(std::move(product));  // shared: stages are copyable
  const bool has_bias = node.op == graph::Op::kLinear && node.operands.size() > 2;
  if (has_bias) fused->set_bias(operand(node, 2).data, operand(node, 2).dtype);
  if (make_row_) fused->make_rows(std::exchange(make_row_, nullptr));
  fused->steal_between(workers_);
  Scratch* scratch = &program_.scratch;
  if (const int64_t bytes = fused->shared_bytes(); bytes > 0) {
    scratch->need_shared(bytes);
    add_shared([fused, scratch](Part part) { fused->arrange_rows(scratch->shared_memory, part); });
  }
  scratch->need_private(fused->private_bytes());
  add_shared([fused, scratch](Part part) { fused->run(scratch->shared_memory, scratch->private_of(part), part); });
  program_.stages.back().reads = [fused](Part part) { return fused->first_weights(part); };
  open_linear_ = fused.get();
  open_node_ = index_of(node);
  open_result_ = *node.result;
  return ok();
}

const graph::Node* Compiler::only_reader_next(const Node& node) const {
  const Node* next = &node + 1;
  if (next == graph_.nodes.data() + graph_.nodes.size() || next->operands.empty()) return nullptr;
  int64_t reads = 0;
  for (const Node& other : graph_.nodes)
    reads += std::count(other.operands.begin(), other.operands.end(), *node.result);
  for (const graph::Output& output : graph_.outputs) reads += output.value == *node.result ? 1 : 0;
  return reads == 1 && next->operands.front() == *node.result ? next : nullptr;
}

bool Compiler::leaves_norm_to_product(const Node& node, std::function<void(int64_t, std::byte*)> make_row) {
  const Node* next = only_reader_next(node);
  if (next == nullptr || next->op != graph::Op::kLinear || graph_.rows > kRowsMadeTwice) return false;
  // Weights of other types lay their rows out themselves.
  const bool is_alike = graph_.value(next->operands[1]).type.dtype == graph_.value(*node.result).type.dtype;
  if (!is_alike && !next->has("int8")) return false;
  make_row_ = std::move(make_row);
  note(node, Fused::As::kRowsOf, index_of(*next));
  return true;
}

void Compiler::add_columnwise(const Node& node, graph::ValueId x, ColumnWork work, Fused::As as) {
  const Tensor dst = result(node);
  if (open_linear_ != nullptr && open_result_ == x) {
    note(node, as, open_node_);
    open_linear_->add_tail([dst, work = std::move(work)](Range columns) {
      for (int64_t row = 0; row < dst.used_rows(); ++row) work(row, columns.begin, columns.size());
    });
    return;
  }
  add_shared([dst, work = std::move(work)](Part part) { for_share(dst.used_rows(), dst.columns, part, work); });
}

Result<void> Compiler::lower_linear(const Node& node) {
  if (node.has("int8")) return lower_linear_int8(node);
  const auto weight = store_.packed(graph_.value(node.operands[1]).name, *packing_of(kernels_, graph_, node, 1));
  if (!weight) return not_a_weight(node, 1);
  return add_linear(node, FusedLinear(LinearTask::make(kernels_, *weight, LinearPlan::plain(weight->packing),
                                                       operand(node, 0), result(node))));
}

Result<void> Compiler::lower_linear_blocks(const Node& node) {
  if (node.has("int8")) return lower_linear_int8(node);
  const auto weight = store_.packed(graph_.value(node.operands[1]).name, *packing_of(kernels_, graph_, node, 1));
  if (!weight) return not_a_weight(node, 1);
  LinearPlan plan =
      LinearPlan::blocks(weight->packing, BlockSplit{node.integers("blocks")}, graph_.rank, node.integer("block"));
  return add_linear(node,
                    FusedLinear(LinearTask::make(kernels_, *weight, std::move(plan), operand(node, 0), result(node))));
}

Result<void> Compiler::lower_linear_int8(const Node& node) {
  const Int8Packing packing = *int8_packing_of(graph_, node, 1);
  const Int8Weight weight{packing, store_.packed_int8(graph_.value(node.operands[1]).name, packing)};
  if (weight.data == nullptr) return not_a_weight(node, 1);
  const Tensor x = operand(node, 0);
  FusedLinear product(node.op == graph::Op::kLinear
                          ? Int8LinearTask::plain(kernels_, weight, x, result(node))
                          : Int8LinearTask::blocks(kernels_, weight, BlockSplit{node.integers("blocks")}, graph_.rank,
                                                   x, result(node)));
  if (x.rows <= kRowsQuantisedTwice) product.arrange_alone();
  return add_linear(node, std::move(product));
}

void Compiler::lower_lookup(const Node& node) {
  add_shared([index = operand(node, 0).as<int32_t>(), table = operand(node, 1), dst = result(node),
              offset = node.integer("offset")](Part part) {
    const Share share = share_of(dst.used_rows(), part);
    for (int64_t row = share.begin; row < share.end; ++row) {
      const int64_t from = index[row] + offset;
      if (from < 0 || from >= table.rows) {
        std::memset(dst.at(row), 0, dst.stride);
      } else {
        std::memcpy(dst.at(row), table.at(from), dst.stride);
      }
    }
  });
}

void Compiler::lower_add(const Node& node) {
  const bool one_row = graph_.value(node.operands[1]).type.shape.rank() == 1;
  const bool second_is_open = open_linear_ != nullptr && open_result_ == node.operands[1];
  add_columnwise(node, node.operands[second_is_open ? 1 : 0],
                 [one_row, x = operand(node, 0), y = operand(node, 1), dst = result(node), add = kernels_.add](
                     int64_t row, int64_t column, int64_t count) {
                   add(x.const_row(row, column), y.const_row(one_row ? 0 : row, column), dst.row(row, column), count);
                 });
  open_result_ = *node.result;
}

void Compiler::lower_join_partials(const Node& node) {
  int64_t first_column = 0;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Tensor x = operand(node, i);
    const int64_t begin = first_column;
    first_column += x.columns;
    if (plan_.values[node.operands[i].value].is_view) continue;  // written there already
    add_shared([x, begin, dst = result(node)](Part part) {
      const Share share = share_of(dst.used_rows(), part);
      for (int64_t plane = 0; plane < dst.planes; ++plane) {
        const Tensor from = x.plane(plane), to = dst.plane(plane);
        for (int64_t row = share.begin; row < share.end; ++row) std::memcpy(to.at(row, begin), from.at(row), x.stride);
      }
    });
  }
}

void Compiler::lower_scale(const Node& node) {
  add_columnwise(node, node.operands[0],
                 [x = operand(node, 0), dst = result(node), factor = static_cast<float>(node.number("factor")),
                  scale = kernels_.scale](int64_t row, int64_t column, int64_t count) {
                   scale(x.const_row(row, column), dst.row(row, column), count, factor);
                 });
  open_result_ = *node.result;
}

void Compiler::lower_soft_cap(const Node& node) {
  add_columnwise(node, node.operands[0],
                 [x = operand(node, 0), dst = result(node), cap = static_cast<float>(node.number("cap")),
                  soft_cap = kernels_.soft_cap](int64_t row, int64_t column, int64_t count) {
                   soft_cap(x.const_row(row, column), dst.row(row, column), count, cap);
                 });
  open_result_ = *node.result;
}

void Compiler::lower_rms_norm(const Node& node) {
  const int64_t heads = node.has("heads") ? node.integer("heads") : 1;
  const double offset = node.has("offset") ? node.number("offset") : 0.0;
  const auto one_row = [x = operand(node, 0), w = operand(node, 1), dtype = result(node).dtype,
                        epsilon = node.number("epsilon"), offset,
                        rms_norm = kernels_.rms_norm](int64_t row, std::byte* dst) {
    rms_norm(x.const_row(row), w.const_row(0), {dst, dtype}, w.columns, epsilon, static_cast<float>(offset));
  };
  if (heads == 1 && leaves_norm_to_product(node, one_row)) return;
  add_shared([x = operand(node, 0), w = operand(node, 1), dst = result(node), heads, epsilon = node.number("epsilon"),
              offset = static_cast<float>(offset), rms_norm = kernels_.rms_norm](Part part) {
    const Share share = share_of(dst.used_rows() * heads, part);
    for (int64_t i = share.begin; i < share.end; ++i) {
      const int64_t row = i / heads, column = i % heads * w.columns;
      rms_norm(x.const_row(row, column), w.const_row(0), dst.row(row, column), w.columns, epsilon, offset);
    }
  });
}

void Compiler::lower_layer_norm(const Node& node) {
  const auto one_row = [x = operand(node, 0), w = operand(node, 1), b = operand(node, 2), like = result(node),
                        epsilon = node.number("epsilon"),
                        layer_norm = kernels_.layer_norm](int64_t row, std::byte* dst) {
    layer_norm(x.const_row(row), w.const_row(0), b.const_row(0), {dst, like.dtype}, like.columns, epsilon);
  };
  if (leaves_norm_to_product(node, one_row)) return;
  add_shared([x = operand(node, 0), w = operand(node, 1), b = operand(node, 2), dst = result(node),
              epsilon = node.number("epsilon"), layer_norm = kernels_.layer_norm](Part part) {
    const Share share = share_of(dst.used_rows(), part);
    for (int64_t row = share.begin; row < share.end; ++row) {
      layer_norm(x.const_row(row), w.const_row(0), b.const_row(0), dst.row(row), dst.columns, epsilon);
    }
  });
}

void Compiler::lower_activation(const Node& node) {
  add_columnwise(node, node.operands[0],
                 [x = operand(node, 0), dst = result(node), activation = activation_of(node),
                  activate = kernels_.activate](int64_t row, int64_t column, int64_t count) {
                   activate(activation, x.const_row(row, column), dst.row(row, column), count);
                 });
  open_result_ = *node.result;
}

void Compiler::lower_gated_activation(const Node& node) {
  const bool is_packed = node.operands.size() == 1;
  const Tensor gate = operand(node, 0);
  const Tensor up = operand(node, is_packed ? 0 : 1);
  const Tensor dst = result(node);
  const bool is_open = open_linear_ != nullptr && open_result_ == node.operands[0];
  if (is_open && is_packed && !open_linear_->has_tails() && dst.columns % kStrip == 0) {
    open_linear_->take_halves();
  } else {
    open_linear_ = nullptr;
  }
  add_columnwise(
      node, node.operands[0],
      [gate, up, dst, first_up = is_packed ? dst.columns : 0, activation = activation_of(node),
       multiply = kernels_.gate](int64_t row, int64_t column, int64_t count) {
        multiply(activation, gate.const_row(row, column), up.const_row(row, first_up + column), dst.row(row, column),
                 count);
      },
      Fused::As::kHalvesOf);
  open_linear_ = nullptr;
}

void Compiler::lower_columns(const Node& node) {
  if (plan_.values[node.result->value].is_view) return;
  add_shared([x = operand(node, 0), dst = result(node), begin = node.integer("begin")](Part part) {
    const Share share = share_of(dst.used_rows(), part);
    for (int64_t row = share.begin; row < share.end; ++row) std::memcpy(dst.at(row), x.at(row, begin), dst.stride);
  });
}

void Compiler::lower_select_rows(const Node& node) {
  add_shared([x = operand(node, 0), rows = operand(node, 1), dst = result(node)](Part part) {
    const Share share = share_of(dst.rows, part);
    for (int64_t i = share.begin; i < share.end; ++i) {
      const int64_t row = rows.as<int32_t>()[i];
      if (row < 0 || row >= x.rows) {
        std::memset(dst.at(i), 0, dst.stride);
      } else {
        std::memcpy(dst.at(i), x.at(row), dst.stride);
      }
    }
  });
}

}  // namespace lockstep::cpu
