// Products with weights in codes over random data, run directly on the kernels: x [rows, k] · w [n, k]ᵀ.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "runtime/backends/cpu/linear_coded.h"
#include "runtime/core/int8_groups.h"
#include "tests/runtime/backends/cpu/product_fixture.h"

namespace lockstep::cpu {

/// The instruction set of the other kernels beside those of a CodedIsa.
inline Isa isa_beside(CodedIsa isa) {
  switch (isa) {
    case CodedIsa::kFloatsPortable:
    case CodedIsa::kBytesPortable: return Isa::kPortable;
    case CodedIsa::kFloatsAvx2:
    case CodedIsa::kBytesAvx2:
    case CodedIsa::kBytesAvxVnni: return Isa::kAvx2;

    case CodedIsa::kBytesAmx: return Isa::kAmx;
    default: return Isa::kAvx512;
  }
}

/// Kernels, and what they multiply.
struct CodedMachine {
  CodedIsa isa;
  DotKind dots;
};
inline std::vector<CodedMachine> coded_machines() {
  std::vector<CodedMachine> all;
  for (const CodedIsa isa : available_coded_isas()) {
    if (!has_bytes(isa)) all.push_back({isa, DotKind::kFloats});
    if (has_bytes(isa)) all.insert(all.end(), {{isa, DotKind::kBytes}, {isa, DotKind::kDigits}});
  }
  return all;
}
/// Whether dots of this kind multiply a format.
inline bool multiplies(DotKind dots, const WeightFormat& format) {
  return has_bytes(dots) == (format.kind != CodeKind::kE4M3);
}

inline WeightFormat format_from(const std::string& text) { return weight_format_from_text(text).value(); }

/// Codes, scales and offsets of n rows, as a reader gives them.
struct RandomCodes {
  std::vector<uint8_t> codes;
  std::vector<float> scales, offsets;

  static RandomCodes of(const WeightFormat& format, const ColumnGroups& groups, int64_t n) {
    std::minstd_rand random(7);
    RandomCodes made;
    for (int64_t i = 0; i < n * groups.columns; ++i) {
      auto code = static_cast<uint8_t>(random() % (1u << format.bits));
      if (format.kind == CodeKind::kE4M3 && (code & 0x7f) == 0x7f) code = 0x7e;
      made.codes.push_back(code);
    }
    const float unit = format.kind == CodeKind::kE4M3 ? 1.0f / 512.0f : format.bits == 8 ? 1.0f / 128.0f : 0.125f;
    for (int64_t i = 0; i < n * groups.count(); ++i) {
      const auto fraction = static_cast<float>(random() % 1000) / 1000.0f;
      made.scales.push_back(round_to(format.scale, unit * (0.5f + fraction)));
      if (format.offset == GroupOffset::kZeros) {
        made.offsets.push_back(static_cast<float>(random() % ((1u << format.bits) + 1)));
      }
      if (format.offset == GroupOffset::kMinima) made.offsets.push_back(round_to(format.scale, 0.25f + fraction));
    }
    return made;
  }
  CodedRows rows(int64_t first, const ColumnGroups& groups) {
    const auto scale = static_cast<size_t>(first * groups.count());
    const std::span<float> all(offsets);
    return {std::span(codes).subspan(static_cast<size_t>(first * groups.columns)), std::span(scales).subspan(scale),
            all.empty() ? all : all.subspan(scale)};
  }
};

inline std::vector<std::byte> packed_codes(const CodedPacking& packing, RandomCodes codes) {
  std::vector<std::byte> packed(static_cast<size_t>(packing.bytes()), std::byte{0xee});
  for (int64_t panel = 0; panel < packing.panels() * packing.parts; ++panel) {
    const int64_t row = panel / packing.panels() * packing.n + panel % packing.panels() * kPanel;  // its first
    pack_coded_panel(packing, panel, codes.rows(row, packing.groups), packed.data());
  }
  return packed;
}

/// Operands of a product and ways to compute it.
struct CodedFixture {
  CodedMachine machine;
  DType dtype;  // of x
  WeightFormat format;
  ProductShape shape;
  int64_t leaf = std::max<int64_t>(shape.k, 1);  // columns of a leaf
  std::vector<float> x = random_numbers(shape.rows * shape.k, 1);
  RandomCodes w = RandomCodes::of(format, groups(), shape.n);
  DType result_type = DType::kFloat32;
  std::vector<float> bias = {};  // [n], or empty: none

  const Kernels& kernels() const { return kernels_for(isa_beside(machine.isa)); }
  const CodedKernels& coded() const { return coded_kernels_of(machine.isa); }
  ColumnGroups groups() const { return {.columns = shape.k, .leaf = leaf, .width = format.group}; }
  CodedPacking packing() const { return {.n = shape.n, .groups = groups(), .format = format, .dots = machine.dots}; }

  /// f32 [roots, rows, n]. With a split: the roots of `rank`, w and x being that rank's columns.
  std::vector<float> run(int workers = 1, const std::optional<BlockSplit>& split = {}, int rank = 0) const {
    const auto& [rows, n, k] = shape;
    const std::vector<std::byte> packed = packed_codes(packing(), w);
    std::vector<std::byte> x_bytes = encode(x, dtype);
    const int64_t roots = split ? static_cast<int64_t>(split->roots_of(rank).size()) : 1;
    std::vector<float> result(static_cast<size_t>(roots * rows * n), -77.0f);
    std::vector<std::byte> rounded = encode(result, result_type);
    Tensor from{.data = x_bytes.data(), .dtype = dtype, .rows = rows, .columns = k};
    from.stride = k * from.element_size();
    const Tensor to{.data = rounded.data(),
                    .dtype = result_type,
                    .planes = roots,
                    .rows = rows,
                    .columns = n,
                    .stride = n * static_cast<int64_t>(size_of(result_type))};
    const CodedWeight weight{packing(), packed.data()};
    CodedLinearTask task = split ? CodedLinearTask::blocks(kernels(), weight, *split, rank, from, to, &coded())
                                 : CodedLinearTask::plain(kernels(), weight, from, to, &coded());
    const std::vector<std::byte> encoded_bias = encode(bias, dtype);
    if (!bias.empty()) task.bias = encoded_bias.data();
    task.bias_type = dtype;
    // NaN in the scratch: nothing may be read that was not written before.
    std::vector<float> arranged(static_cast<size_t>(task.arranged_bytes() / 4 + 1), __builtin_nanf(""));
    std::vector<float> scratch(static_cast<size_t>(task.private_bytes() / 4), __builtin_nanf(""));
    const auto as_bytes = [](std::vector<float>& floats) { return reinterpret_cast<std::byte*>(floats.data()); };
    for (int worker = 0; task.arrange && worker < workers; ++worker) {
      task.arrange_rows(as_bytes(arranged), {worker, workers});
    }
    for (int worker = 0; worker < workers; ++worker) {
      task.run(as_bytes(arranged), as_bytes(scratch), task.share({worker, workers}));
    }
    kernels().convert({rounded.data(), result_type}, {as_bytes(result), DType::kFloat32},
                      static_cast<int64_t>(result.size()));
    return result;
  }

  /// What row `row` of x is multiplied as: itself, or in 8 bits.
  std::vector<double> row_of_x(int64_t row) const {
    const auto begin = x.begin() + row * shape.k;
    std::vector<double> values(begin, begin + shape.k);
    if (machine.dots != DotKind::kBytes) return values;
    std::vector<int8_t> integers(static_cast<size_t>(shape.k));
    for (int64_t g = 0; g < groups().count(); ++g) {
      const Range of = groups().of(g);
      const float scale = to_int8(&*begin + of.begin, of.size(), integers.data());
      for (int64_t i = 0; i < of.size(); ++i) {
        values[static_cast<size_t>(of.begin + i)] = double{scale} * integers[static_cast<size_t>(i)];
      }
    }
    return values;
  }
  /// One weight, decoded.
  float weight(int64_t row, int64_t group, int64_t column) const {
    const auto at = static_cast<size_t>(row * groups().count() + group);
    return decode(format, w.codes[static_cast<size_t>(row * shape.k + column)], w.scales[at],
                  w.offsets.empty() ? 0.0f : w.offsets[at]);
  }
  /// One element in double precision, and the sum of the magnitudes of its terms before offsets are subtracted.
  struct Exact {
    double sum = 0, magnitude = 0;
  };
  Exact exact(const std::vector<double>& row_of_x, int64_t column) const {
    Exact element;
    for (int64_t g = 0; g < groups().count(); ++g) {
      const Range of = groups().of(g);
      const auto at = static_cast<size_t>(column * groups().count() + g);
      for (int64_t k = of.begin; k < of.end; ++k) {
        const double x_k = row_of_x[static_cast<size_t>(k)], w_k = weight(column, g, k);
        element.sum += x_k * w_k;
        const double offset = w.offsets.empty() ? 0.0 : w.offsets[at];
        const double spread = format.offset == GroupOffset::kZeros ? offset * w.scales[at] : offset;
        element.magnitude += std::abs(x_k) * (std::abs(w_k) + std::abs(spread));
      }
    }
    return element;
  }

  /// Only the first rows of x.
  CodedFixture with_rows(int64_t rows) const {
    CodedFixture part = *this;
    part.shape.rows = rows;
    part.x.resize(static_cast<size_t>(rows * shape.k));
    return part;
  }
  CodedFixture with_row(int64_t row) const {
    CodedFixture part = *this;
    part.shape.rows = 1;
    part.x.assign(x.begin() + row * shape.k, x.begin() + (row + 1) * shape.k);
    return part;
  }
  /// Only these columns, which are whole leaves, of x and w.
  CodedFixture with_columns(int64_t begin, int64_t end) const {
    CodedFixture part = *this;
    part.shape.k = end - begin;
    const auto cut = [](const auto& from, int64_t all, Range of, auto& to) {
      to.clear();
      for (auto at = from.begin(); at != from.end(); at += all) to.insert(to.end(), at + of.begin, at + of.end);
    };
    const int64_t count = groups().count(), first = begin / leaf * groups().per_leaf();
    const Range own{first, first + part.groups().count()};
    cut(x, shape.k, {begin, end}, part.x);
    cut(w.codes, shape.k, {begin, end}, part.w.codes);
    cut(w.scales, count, own, part.w.scales);
    if (!w.offsets.empty()) cut(w.offsets, count, own, part.w.offsets);
    return part;
  }
};

}  // namespace lockstep::cpu
