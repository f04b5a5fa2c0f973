// A mixture of experts over random data, run directly on its task, whole or as one rank's part.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/backends/cpu/experts.h"
#include "tests/runtime/backends/cpu/coded_fixture.h"

namespace lockstep::cpu {

struct ExpertShape {
  int64_t rows = 1;
  int64_t hidden = 1;   // d
  int64_t columns = 1;  // I, of each expert
  int64_t experts = 1;
  int64_t chosen = 1;
};

/// How the sum is cut into leaves: whole experts, or blocks of columns.
struct ExpertCut {
  BlockSplit split;
  int64_t block = 1;
  bool by_expert = false;
};

struct ExpertFixture {
  const Kernels& kernels;
  DType dtype;
  ExpertShape shape;
  ExpertCut cut;
  Activation activation = {};
  bool has_bias = false;
  std::vector<float> x = random_numbers(shape.rows * shape.hidden, 1);
  std::vector<float> gate = random_numbers(shape.experts * shape.columns * shape.hidden, 2);
  std::vector<float> up = random_numbers(shape.experts * shape.columns * shape.hidden, 3);
  std::vector<float> down = random_numbers(shape.experts * shape.hidden * shape.columns, 4);
  std::vector<float> gate_bias = random_numbers(shape.experts * shape.columns, 5);
  std::vector<float> up_bias = random_numbers(shape.experts * shape.columns, 6);
  std::vector<float> down_bias = random_numbers(shape.experts * shape.hidden, 7);
  std::vector<float> routes = make_routes();  // [rows, experts]
  std::vector<int32_t> slot = std::vector<int32_t>(static_cast<size_t>(shape.rows), 0);
  std::optional<WeightFormat> format = std::nullopt;  // of the matrices; they must hold its values (`use_codes`)
  bool has_int8_rows = false;

  static constexpr float kScale = 0.125f;  // of all groups

  /// Stores the matrices in codes, whose values replace the random numbers.
  void use_codes(const WeightFormat& codes) {
    format = codes;
    for (std::vector<float>* matrix : {&gate, &up, &down}) {
      for (float& weight : *matrix) {
        const auto code = static_cast<uint8_t>((weight + 1.0f) * 64.0f);
        const float value = code_value(codes, codes.bits == 4 ? code % 16 : code);
        weight = value == value ? kScale * value : 0.0f;  // the last code e4m3 is a NaN
      }
    }
  }

  std::vector<float> make_routes() const {
    const std::vector<float> logits = random_numbers(shape.rows * shape.experts, 8);
    std::vector<float> dst(logits.size());
    for (int64_t row = 0; row < shape.rows; ++row) {
      const int64_t at = row * shape.experts;
      kernels.route(logits.data() + at, dst.data() + at, shape.experts, {.chosen = shape.chosen});
    }
    return dst;
  }

  /// A rank's part of the experts.
  Range experts_of(int rank) const { return cut.by_expert ? cut.split.range_of(rank) : Range{0, shape.experts}; }
  Range columns_of(int rank) const {
    if (cut.by_expert) return {0, shape.columns};
    const Range leaves = cut.split.range_of(rank);
    return {std::min(leaves.begin * cut.block, shape.columns), std::min(leaves.end * cut.block, shape.columns)};
  }

  /// f32 [roots, rows, hidden] of `rank`, by `workers` workers one after the other.
  std::vector<float> run(int workers = 1, int rank = 0) const;

  /// The sum over all ranks, f32 [rows, hidden].
  std::vector<float> sum(int workers = 1) const {
    const TreeFinish finish = plan_finish(cut.split);
    const auto elements = static_cast<size_t>(shape.rows * shape.hidden);
    std::vector<std::vector<float>> roots;
    for (int rank = 0; rank < cut.split.ranks(); ++rank) {
      const std::vector<float> own = run(workers, rank);
      for (size_t at = 0; at < own.size(); at += elements) {
        roots.emplace_back(own.begin() + static_cast<int64_t>(at), own.begin() + static_cast<int64_t>(at + elements));
      }
    }
    for (const TreeFinish::Step& step : finish.steps) {
      for (size_t i = 0; i < elements; ++i) roots[step.dst][i] += roots[step.src][i];
    }
    return roots[finish.result];
  }

  /// Only rows [begin, end).
  ExpertFixture with_rows(int64_t begin, int64_t end) const {
    ExpertFixture part = *this;
    part.shape.rows = end - begin;
    part.x.assign(x.begin() + begin * shape.hidden, x.begin() + end * shape.hidden);
    part.routes.assign(routes.begin() + begin * shape.experts, routes.begin() + end * shape.experts);
    part.slot.assign(slot.begin() + begin, slot.begin() + end);
    return part;
  }
  ExpertFixture with_cut(ExpertCut other) const {
    ExpertFixture same = *this;
    same.cut = std::move(other);
    return same;
  }

 private:
  /// Rows [experts, of each `rows`] and columns of a stacked matrix with `width` columns, encoded.
  std::vector<std::byte> slice(const std::vector<float>& from, int64_t rows_of_expert, int64_t width, Range experts,
                               Range rows, Range columns) const {
    return encode(floats_of(from, rows_of_expert, width, experts, rows, columns), dtype);
  }
  static std::vector<float> floats_of(const std::vector<float>& from, int64_t rows_of_expert, int64_t width,
                                      Range experts, Range rows, Range columns) {
    std::vector<float> to;
    for (int64_t e = experts.begin; e < experts.end; ++e) {
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        const auto begin = from.begin() + (e * rows_of_expert + row) * width;
        to.insert(to.end(), begin + columns.begin, begin + columns.end);
      }
    }
    return to;
  }

  /// The packed codes of `floats`, stacked matrices [n, k] of some experts.
  std::vector<std::byte> packed_codes_of(const CodedPacking& packing, const std::vector<float>& floats) const {
    RandomCodes codes;
    for (const float weight : floats) {
      uint8_t code = 0;
      while (code_value(*format, code) * kScale != weight) ++code;
      codes.codes.push_back(code);
    }
    codes.scales.assign(static_cast<size_t>(packing.n * packing.parts * packing.groups.count()), kScale);
    return packed_codes(packing, codes);
  }
};

/// The matrices of some experts, packed.
struct PackedExperts {
  Packing packing;
  CodedPacking coded;
  std::vector<std::byte> memory;

  ExpertMatrix matrix(bool is_coded) const {
    return is_coded ? ExpertMatrix(CodedWeight{coded, memory.data()})
                    : ExpertMatrix(PackedWeight{packing, memory.data()});
  }
};

inline std::vector<float> ExpertFixture::run(int workers, int rank) const {
  const Range experts = experts_of(rank), columns = columns_of(rank), hidden{0, shape.hidden};
  const bool pairs = kernels.bf16_pairs && dtype == DType::kBFloat16;
  const auto packed = [&](const std::vector<float>& from, Range rows, int64_t all_rows, Range of_k, int64_t all_k,
                          int64_t block) {
    const std::vector<float> floats = floats_of(from, all_rows, all_k, experts, rows, of_k);
    PackedExperts made;
    made.packing = Packing::for_leaves(rows.size(), of_k.size(), block, dtype, pairs);
    made.packing.parts = experts.size();
    if (format) {
      made.coded = {.n = rows.size(),
                    .groups = {.columns = of_k.size(), .leaf = std::max<int64_t>(block, 1), .width = format->group},
                    .format = *format,
                    .dots = has_int8_rows                     ? DotKind::kBytes
                            : format->kind == CodeKind::kE4M3 ? DotKind::kFloats
                                                              : DotKind::kDigits,
                    .parts = experts.size()};
      made.memory = packed_codes_of(made.coded, floats);
    } else {
      made.memory.resize(static_cast<size_t>(made.packing.bytes()));
      pack(made.packing, encode(floats, dtype).data(), made.memory.data());
    }
    return made;
  };
  const PackedExperts gates = packed(gate, columns, shape.columns, hidden, shape.hidden, shape.hidden);
  const PackedExperts ups = packed(up, columns, shape.columns, hidden, shape.hidden, shape.hidden);
  const PackedExperts downs =
      packed(down, hidden, shape.hidden, columns, shape.columns, cut.by_expert ? columns.size() : cut.block);
  const auto gate_biases = slice(gate_bias, shape.columns, 1, experts, columns, {0, 1});
  const auto up_biases = slice(up_bias, shape.columns, 1, experts, columns, {0, 1});
  const auto down_biases = slice(down_bias, shape.hidden, 1, experts, hidden, {0, 1});

  std::vector<std::byte> x_bytes = encode(x, dtype);
  std::vector<float> route_floats = routes;
  const auto as_bytes = [](std::vector<float>& floats) { return reinterpret_cast<std::byte*>(floats.data()); };
  const auto roots = static_cast<int64_t>(cut.split.roots_of(rank).size());
  std::vector<float> result(static_cast<size_t>(roots * shape.rows * shape.hidden), -77.0f);
  ExpertOperands operands{.x = {.data = x_bytes.data(), .dtype = dtype, .rows = shape.rows, .columns = shape.hidden},
                          .route = {.data = as_bytes(route_floats), .rows = shape.rows, .columns = shape.experts},
                          .slot = slot.data(),
                          .gate = gates.matrix(format.has_value()),
                          .up = ups.matrix(format.has_value()),
                          .down = downs.matrix(format.has_value()),
                          .first_expert = experts.begin,
                          .most_per_row = std::min(shape.chosen, experts.size()),
                          .activation = activation,
                          .result = {.data = as_bytes(result), .planes = roots, .rows = shape.rows}};
  operands.x.stride = shape.hidden * operands.x.element_size();
  operands.route.stride = shape.experts * 4;
  operands.result.columns = shape.hidden;
  operands.result.stride = shape.hidden * 4;
  if (has_bias) {
    operands.gate_bias = gate_biases.data();
    operands.up_bias = up_biases.data();
    operands.down_bias = down_biases.data();
  }
  const ExpertTask task(kernels, operands,
                        cut.by_expert ? ExpertLeaf::whole(operands.down, cut.split, rank)
                                      : ExpertLeaf::blocks(operands.down, cut.split, rank, cut.block));
  // NaN in the scratch: nothing may be read that was not written before.
  std::vector<float> shared(static_cast<size_t>(task.shared_bytes() / 4), __builtin_nanf(""));
  std::vector<float> own(static_cast<size_t>(task.private_bytes() / 4), __builtin_nanf(""));
  const auto each = [&](auto work) {
    for (int worker = 0; worker < workers; ++worker) work(Part{worker, workers});
  };
  task.group(as_bytes(shared));
  each([&](Part part) { task.gather(as_bytes(shared), part); });
  each([&](Part part) { task.run_inner(as_bytes(shared), as_bytes(own), part); });
  if (task.arranges_inner()) each([&](Part part) { task.arrange_inner(as_bytes(shared), part); });
  each([&](Part part) { task.run_down(as_bytes(shared), as_bytes(own), part); });
  return result;
}

}  // namespace lockstep::cpu
