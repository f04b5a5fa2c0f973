// Reductions and sorts.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "tests/neuron_stand_in/interpreter/box.h"
#include "tests/neuron_stand_in/interpreter/elements.h"
#include "tests/neuron_stand_in/interpreter/step.h"

namespace lockstep::stand_in {
namespace {

using hlo::Opcode;

struct Add {
  static float of(float x, float y) { return x + y; }
};
struct Maximum {
  static float of(float x, float y) { return x > y || std::isnan(x) ? x : y; }
};
struct Minimum {
  static float of(float x, float y) { return x < y || std::isnan(x) ? x : y; }
};

/// Combines every element of the source with the element of the destination at its place; the destination's strides are
/// 0 along the dimensions that are reduced away.
template <typename Combine>
void accumulate(const Box& box, size_t dimension, const float* src, float* dst) {
  const int64_t count = box.dims[dimension];
  const int64_t src_stride = box.src_strides[dimension], dst_stride = box.dst_strides[dimension];
  if (dimension + 1 < box.dims.size()) {
    for (int64_t i = 0; i < count; ++i) {
      accumulate<Combine>(box, dimension + 1, src + i * src_stride, dst + i * dst_stride);
    }
  } else if (dst_stride == 0) {
    float sum = *dst;
    for (int64_t i = 0; i < count; ++i) sum = Combine::of(sum, src[i * src_stride]);
    *dst = sum;
  } else {
    for (int64_t i = 0; i < count; ++i) dst[i * dst_stride] = Combine::of(dst[i * dst_stride], src[i * src_stride]);
  }
}

template <typename Combine>
Run reduction(const Placed& placed, const Box& box) {
  return
      [=, x = placed.operands[0], initial = placed.operands[1], y = placed.result()](const Memory& memory) -> Outcome {
        auto* out = elements<F32>(y.out(memory));
        std::fill_n(out, y.type.elements(), *elements<F32>(initial.in(memory)));
        if (x.type.elements() > 0) accumulate<Combine>(box, 0, elements<F32>(x.in(memory)), out);
        return {};
      };
}

bool is_ascending(const hlo::Computation& comparator) {
  const hlo::Instruction& root = comparator.instructions[static_cast<size_t>(comparator.root)];
  return combining_opcode(comparator) == Opcode::kCompare && root.direction == hlo::Direction::kLt;
}

}  // namespace

std::optional<Opcode> combining_opcode(const hlo::Computation& computation) {
  const hlo::Instruction& root = computation.instructions[static_cast<size_t>(computation.root)];
  if (root.operands.size() != 2) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const hlo::Instruction& operand = computation.instructions[static_cast<size_t>(root.operands[i])];
    if (operand.opcode != Opcode::kParameter || operand.number != static_cast<int64_t>(i)) return std::nullopt;
  }
  return root.opcode;
}

Result<Run> make_reduce(const Placed& placed) {
  const hlo::Type &in = placed.operands[0].type, &out = placed.result().type;
  const bool is_f32 = in.element == hlo::Element::kF32 && out.element == hlo::Element::kF32 &&
                      placed.operands[1].type == hlo::Type{hlo::Element::kF32, {}, {}};
  if (!is_f32) return placed.unsupported("a reduction that is not of f32");
  const auto& dimensions = placed.instruction.dimensions;
  Box box{in.dims, row_major(in.dims), std::vector<int64_t>(in.dims.size(), 0)};
  const std::vector<int64_t> strides = row_major(out.dims);
  size_t next = 0;
  for (size_t d = 0; d < in.dims.size(); ++d) {
    if (std::find(dimensions.begin(), dimensions.end(), static_cast<int64_t>(d)) != dimensions.end()) continue;
    if (next == out.dims.size() || out.dims[next] != in.dims[d]) return placed.unsupported("its dimensions");
    box.dst_strides[d] = strides[next++];
  }
  if (next != out.dims.size()) return placed.unsupported("its dimensions");
  box = flattened(std::move(box));
  if (box.dims.empty()) box = {{1}, {1}, {0}};
  switch (combining_opcode(placed.module.computations[static_cast<size_t>(placed.instruction.called)])
              .value_or(Opcode::kParameter)) {
    case Opcode::kAdd: return reduction<Add>(placed, box);
    case Opcode::kMaximum: return reduction<Maximum>(placed, box);
    case Opcode::kMinimum: return reduction<Minimum>(placed, box);
    default: return placed.unsupported("this reducer");
  }
}

/// Rows of f32 keys upwards, and their companions with them; equal keys keep their order, NaNs are last.
Result<Run> make_sort(const Placed& placed) {
  if (placed.operands.size() != 2) return placed.unsupported("other than two operands");
  const Operand &keys = placed.operands[0], &companions = placed.operands[1];
  const bool is_of_rows = placed.instruction.dimensions == std::vector{keys.type.rank() - 1};
  const auto& comparator = placed.module.computations[static_cast<size_t>(placed.instruction.called)];
  if (keys.type.element != hlo::Element::kF32 || companions.type.dims != keys.type.dims || !is_of_rows ||
      hlo::size_of(companions.type.element) != 4 || !placed.instruction.is_stable || !is_ascending(comparator)) {
    return placed.unsupported("other than a stable, ascending sort of rows of f32");
  }
  const int64_t width = keys.type.dims.back(), rows = width == 0 ? 0 : keys.type.elements() / width;
  struct Pair {
    float key;
    uint32_t companion;
  };
  const auto pairs = std::make_shared<std::vector<Pair>>(static_cast<size_t>(width));
  return Run([=, out_keys = placed.results[0], out_companions = placed.results[1]](const Memory& memory) -> Outcome {
    for (int64_t row = 0; row < rows; ++row) {
      const float* key = elements<F32>(keys.in(memory)) + row * width;
      const uint32_t* companion = elements<U32>(companions.in(memory)) + row * width;
      for (int64_t i = 0; i < width; ++i) (*pairs)[static_cast<size_t>(i)] = {key[i], companion[i]};
      std::stable_sort(pairs->begin(), pairs->end(), [](const Pair& a, const Pair& b) {
        return a.key < b.key || (!std::isnan(a.key) && std::isnan(b.key));
      });
      float* sorted_keys = elements<F32>(out_keys.out(memory)) + row * width;
      uint32_t* sorted_companions = elements<U32>(out_companions.out(memory)) + row * width;
      for (int64_t i = 0; i < width; ++i) {
        sorted_keys[i] = (*pairs)[static_cast<size_t>(i)].key;
        sorted_companions[i] = (*pairs)[static_cast<size_t>(i)].companion;
      }
    }
    return {};
  });
}

}  // namespace lockstep::stand_in
