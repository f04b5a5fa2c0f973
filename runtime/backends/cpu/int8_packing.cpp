#include "runtime/backends/cpu/int8_packing.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/graph/coded_weights.h"

namespace lockstep::cpu {
namespace {

/// Four zero weights as unsigned integers.
constexpr uint32_t kZeros = 0x80808080u;

/// Quantises groups of a row.
class Quantiser {
 public:
  explicit Quantiser(const Kernels& kernels) : kernels_(kernels), int8_(int8_kernels_for(kernels.isa)) {}

  /// Quantises `count` elements starting at `element`.
  Int8Group run(ConstRow row, int64_t element, int64_t count, int8_t* integers) {
    const std::byte* from = row.data + element * static_cast<int64_t>(size_of(row.dtype));
    kernels_.convert({from, row.dtype}, {reinterpret_cast<std::byte*>(floats_.data()), DType::kFloat32}, count);
    return int8_.quantise(floats_.data(), count, integers);
  }

 private:
  const Kernels& kernels_;
  const Int8Kernels& int8_;
  alignas(64) std::array<float, kMostInt8Group> floats_;
};

/// Packs group `group` of a panel; `src` is the panel's first row, `dst` the group's first step.
void pack_group(Quantiser& quantiser, const Int8Packing& packing, int64_t panel, int64_t group, const std::byte* src,
                std::byte* dst) {
  const Range columns = packing.groups.of(group);
  const int64_t steps = packing.steps_of(group);
  const int64_t width = packing.strips_of_panel(panel) * kStrip;
  const int64_t row_bytes = packing.groups.columns * static_cast<int64_t>(size_of(packing.dtype));
  auto* const fours = reinterpret_cast<uint32_t*>(dst);
  auto* const scales = reinterpret_cast<float*>(dst + steps * width * kInt8Columns);
  alignas(64) std::array<uint32_t, kMostInt8Group / kInt8Columns> integers;
  for (int64_t column = 0; column < width; ++column) {
    Int8Group made;
    if (panel * kPanel + column < packing.n) {
      made = quantiser.run({src + column * row_bytes, packing.dtype}, columns.begin, columns.size(),
                           reinterpret_cast<int8_t*>(integers.data()));
    } else {
      std::fill_n(integers.begin(), steps, 0u);
    }
    scales[column] = made.scale;
    for (int64_t step = 0; step < steps; ++step) fours[step * width + column] = integers[step] ^ kZeros;
  }
}

}  // namespace

int64_t Int8Packing::steps_before(int64_t group) const {
  // Groups before another one are full, or end a full leaf; only the very last one may be narrower.
  if (group > 0 && group == groups.count()) return steps_before(group - 1) + steps_of(group - 1);
  const int64_t per_leaf = groups.per_leaf(), full = groups.width / kInt8Columns;
  const int64_t last_width = groups.leaf - (per_leaf - 1) * groups.width;
  const int64_t leaf_steps = (per_leaf - 1) * full + (last_width + kInt8Columns - 1) / kInt8Columns;
  return group / per_leaf * leaf_steps + group % per_leaf * full;
}

std::optional<Int8Packing> int8_packing_of(const graph::Graph& graph, const graph::Node& node, size_t operand) {
  if (operand != 1 || graph::int8_group(graph, node) == 0) return std::nullopt;
  const TensorType& type = graph.value(node.operands[operand]).type;
  return Int8Packing{.n = type.shape[0], .groups = graph::column_groups(graph, node, operand), .dtype = type.dtype};
}

void pack_int8_panel(const Kernels& kernels, const Int8Packing& packing, int64_t panel, const std::byte* src,
                     std::byte* dst) {
  Quantiser quantiser(kernels);
  std::byte* const to = dst + packing.panel_offset(panel);
  for (int64_t group = 0; group < packing.groups.count(); ++group) {
    pack_group(quantiser, packing, panel, group, src,
               to + packing.strip_bytes_before(group) * packing.strips_of_panel(panel));
  }
}

void pack_int8(const Kernels& kernels, const Int8Packing& packing, const std::byte* src, std::byte* dst) {
  const int64_t panel_bytes = kPanel * packing.groups.columns * static_cast<int64_t>(size_of(packing.dtype));
  for (int64_t panel = 0; panel < packing.panels(); ++panel) {
    pack_int8_panel(kernels, packing, panel, src + panel * panel_bytes, dst);
  }
}

void arrange_int8(const Kernels& kernels, const Int8Packing& packing, ConstRow x, Range groups, std::byte* dst) {
  Quantiser quantiser(kernels);
  auto* const scales = reinterpret_cast<float*>(dst + packing.scales_offset());
  auto* const offsets = reinterpret_cast<int32_t*>(dst + packing.offsets_offset());
  for (int64_t group = groups.begin; group < groups.end; ++group) {
    const Range columns = packing.groups.of(group);
    auto* const integers = reinterpret_cast<int8_t*>(dst) + packing.steps_before(group) * kInt8Columns;
    const Int8Group made = quantiser.run(x, columns.begin, columns.size(), integers);
    scales[group] = made.scale;
    offsets[group] = -128 * made.sum;
  }
}

}  // namespace lockstep::cpu
