// Lowering of row-wise operations: lookups, norms, joins, slices.
#include <algorithm>
#include <cstring>
#include <span>

#include "runtime/backends/cpu/compiler.h"

namespace lockstep::cpu {
namespace {

template <typename Bits>
void take_columns(const std::byte* x, int64_t width, std::span<const float> order, std::byte* dst) {
  const auto* const from = reinterpret_cast<const Bits*>(x);
  auto* to = reinterpret_cast<Bits*>(dst);
  const auto last = static_cast<float>(width - 1);
  for (const float number : order) *to++ = from[static_cast<int64_t>(std::min(last, std::max(0.0f, number)))];
}

/// Columns order[0], order[1], … of x, which has `width`; a number that is none counts as 0.
void take_columns(ConstRow x, int64_t width, std::span<const float> order, std::byte* dst) {
  if (size_of(x.dtype) == sizeof(uint16_t)) return take_columns<uint16_t>(x.data, width, order, dst);
  take_columns<uint32_t>(x.data, width, order, dst);
}

}  // namespace

Result<void> Compiler::lower_embedding(const Node& node) {
  const graph::Value& table = graph_.value(node.operands[1]);
  if (table.format) return lower_coded_embedding(node);
  const std::optional<PackedWeight> packed = store_.any_packed(table.name);
  const Tensor rows = operand(node, 1);
  if (rows.data == nullptr && !packed) return not_a_weight(node, 1);
  const DType dtype = table.type.dtype;
  const int64_t width = rows.columns;
  program_.scratch.need_private(width * static_cast<int64_t>(size_of(dtype)));
  // A rank's contribution for another rank's row: x + −0 is x, also if x is −0.
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

Result<void> Compiler::lower_coded_embedding(const Node& node) {
  const std::optional<CodedWeight> table = store_.any_coded(graph_.value(node.operands[1]).name);
  if (!table) return not_a_weight(node, 1);
  const float nothing = graph_.ranks > 1 ? -0.0f : 0.0f;  // as in `lower_embedding`
  add_shared([table = *table, nothing, first = node.integer("first_row"), ids = operand(node, 0),
              dst = result(node)](Part part) {
    const Share share = share_of(dst.used_rows(), part);
    for (int64_t row = share.begin; row < share.end; ++row) {
      const int64_t id = int64_t{ids.as<int32_t>()[row]} - first;
      auto* const to = reinterpret_cast<float*>(dst.at(row));
      if (id < 0 || id >= table.packing.n * table.packing.parts) {
        std::fill_n(to, dst.columns, nothing);
      } else {
        decode_coded_row(table.packing, table.data, id, to);
      }
    }
  });
  return ok();
}

void Compiler::lower_lookup(const Node& node) {
  add_shared([index = operand(node, 0).as<int32_t>(), table = operand(node, 1), dst = result(node),
              offset = node.integer("offset"), otherwise = node.integer_or("otherwise", -1)](Part part) {
    const Share share = share_of(dst.used_rows(), part);
    for (int64_t row = share.begin; row < share.end; ++row) {
      int64_t from = index[row] + offset;
      if (from < 0 || from >= table.rows) from = otherwise;
      if (from < 0 || from >= table.rows) {
        std::memset(dst.at(row), 0, dst.stride);
      } else {
        std::memcpy(dst.at(row), table.at(from), dst.stride);
      }
    }
  });
}

NormFactor norm_factor(const graph::Node& norm) {
  if (!norm.has("offset")) return {};
  return {.offset = static_cast<float>(norm.number("offset")), .rounds = false};
}

ConstRow Compiler::norm_weight(const Node& norm) const {
  return norm.operands.size() > 1 ? operand(norm, 1).const_row(0) : ConstRow{nullptr, result(norm).dtype};
}

Compiler::RowWork Compiler::row_work(const Node& node) const {
  const Tensor x = operand(node, 0), like = result(node);
  if (node.op == graph::Op::kCutOff) {
    return [=, deviations = static_cast<float>(node.number("deviations")), cut_off = kernels_.cut_off](int64_t row,
                                                                                                       std::byte* dst) {
      cut_off(x.const_row(row), {dst, like.dtype}, like.columns, deviations);
    };
  }
  if (node.op == graph::Op::kMatchMagnitude) {
    return [=, model = operand(node, 1), least = static_cast<float>(node.number("least")),
            match_magnitude = kernels_.match_magnitude](int64_t row, std::byte* dst) {
      match_magnitude(x.const_row(row), model.const_row(row), {dst, like.dtype}, like.columns, least);
    };
  }
  if (node.op == graph::Op::kFakeQuantise) {
    const FakeQuantisation how{.is_e4m3 = node.has("codes", "e4m3"),
                               .group = node.integer_or("group", std::max<int64_t>(x.columns, 1)),
                               .scale = node.operands.size() > 1 ? operand(node, 1).as<float>() : nullptr};
    return [=, fake_quantise = kernels_.fake_quantise](int64_t row, std::byte* dst) {
      fake_quantise(x.const_row(row), reinterpret_cast<float*>(dst), like.columns, how);
    };
  }
  if (node.op == graph::Op::kTakeColumns) {
    return [=, order = operand(node, 1).as<float>()](int64_t row, std::byte* dst) {
      take_columns(x.const_row(row), x.columns, {order, static_cast<size_t>(like.columns)}, dst);
    };
  }
  const double epsilon = node.number("epsilon");
  if (node.op == graph::Op::kLayerNorm) {
    const Tensor w = operand(node, 1);
    const auto offset = static_cast<float>(node.number_or("offset", 0.0));
    const ConstRow bias = node.operands.size() > 2 ? operand(node, 2).const_row(0) : ConstRow{nullptr, like.dtype};
    return [=, layer_norm = kernels_.layer_norm](int64_t row, std::byte* dst) {
      layer_norm(x.const_row(row), w.const_row(0), bias, {dst, like.dtype}, like.columns, epsilon, offset);
    };
  }
  return [=, w = norm_weight(node), factor = norm_factor(node), dtype = like.dtype, count = like.columns,
          rms_norm = kernels_.rms_norm](int64_t row, std::byte* dst) {
    rms_norm(x.const_row(row), w, {dst, dtype}, count, epsilon, factor);
  };
}

void Compiler::lower_rowwise(const Node& node) {
  const int64_t heads = node.integer_or("heads", 1);
  if (heads > 1) return lower_heads(result(node), heads, head_work(node));
  add_shared([dst = result(node), work = row_work(node)](Part part) {
    const Share share = share_of(dst.used_rows(), part);
    for (int64_t row = share.begin; row < share.end; ++row) work(row, dst.at(row));
  });
}

void Compiler::lower_join_partials(const Node& node) {
  int64_t first_column = 0;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Tensor x = operand(node, i);
    const int64_t begin = first_column;
    first_column += x.columns;
    if (buffers_.values[node.operands[i].value].is_view) continue;  // written there already
    add_shared([x, begin, dst = result(node)](Part part) {
      const Share share = share_of(dst.used_rows(), part);
      for (int64_t plane = 0; plane < dst.planes; ++plane) {
        const Tensor from = x.plane(plane), to = dst.plane(plane);
        for (int64_t row = share.begin; row < share.end; ++row) std::memcpy(to.at(row, begin), from.at(row), x.stride);
      }
    });
  }
}

void Compiler::lower_columns(const Node& node) {
  if (buffers_.values[node.result->value].is_view) return;
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
