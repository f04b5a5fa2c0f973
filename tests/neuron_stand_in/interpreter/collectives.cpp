// Collectives: every rank receives all data of its group and finishes alone, in one order.
#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/neuron_stand_in/interpreter/box.h"
#include "tests/neuron_stand_in/interpreter/elements.h"
#include "tests/neuron_stand_in/interpreter/step.h"

namespace lockstep::stand_in {
namespace {

/// The group that this rank is in.
Result<std::vector<int64_t>> group_of(const Placed& placed) {
  for (const auto& group : placed.instruction.groups) {
    if (std::find(group.begin(), group.end(), placed.rank) != group.end()) return group;
  }
  return placed.unsupported("no replica group with this rank");
}

/// The contributions of a group's ranks, in order.
struct Gathered {
  std::vector<int64_t> group;
  Operand own;
  std::shared_ptr<std::vector<std::byte>> all;

  Outcome fetch(const Memory& memory) const {
    if (group.size() == 1) {
      std::copy_n(own.in(memory), own.bytes(), all->data());
      return {};
    }
    return memory.exchange->all_gather(group, {own.in(memory), own.bytes()}, *all);
  }
};

Gathered gathered(const Operand& own, std::vector<int64_t> group) {
  const size_t bytes = own.bytes() * group.size();
  return {std::move(group), own, std::make_shared<std::vector<std::byte>>(bytes)};
}

}  // namespace

Result<Run> make_all_reduce(const Placed& placed) {
  const Operand &x = placed.operands[0], &y = placed.result();
  const auto& reducer = placed.module.computations[static_cast<size_t>(placed.instruction.called)];
  if (x.type != y.type || x.type.element != hlo::Element::kF32 || combining_opcode(reducer) != hlo::Opcode::kAdd) {
    return placed.unsupported("other than a sum of f32");
  }
  LOCKSTEP_TRY(std::vector<int64_t> group, group_of(placed));
  return Run([y, from = gathered(x, std::move(group))](const Memory& memory) -> Outcome {
    if (Outcome fault = from.fetch(memory)) return fault;
    const float* values = elements<F32>(static_cast<const std::byte*>(from.all->data()));
    float* out = elements<F32>(y.out(memory));
    const int64_t count = y.type.elements();
    std::copy_n(values, count, out);
    for (size_t rank = 1; rank < from.group.size(); ++rank) {
      const float* own = values + static_cast<int64_t>(rank) * count;
      for (int64_t i = 0; i < count; ++i) out[i] += own[i];
    }
    return {};
  });
}

Result<Run> make_all_gather(const Placed& placed) {
  const Operand &x = placed.operands[0], &y = placed.result();
  LOCKSTEP_TRY(std::vector<int64_t> group, group_of(placed));
  const auto ranks = static_cast<int64_t>(group.size());
  const std::vector<int64_t> dimensions = placed.instruction.dimensions;
  if (dimensions.size() != 1 || dimensions[0] < 0 || dimensions[0] >= x.type.rank()) {
    return placed.unsupported("its dimension");
  }
  const auto dimension = static_cast<size_t>(dimensions[0]);
  hlo::Type expected = x.type;
  expected.dims[dimension] *= ranks;
  if (y.type != expected) return placed.unsupported("its types");
  // The parts lie one after the other along `dimension` of the result.
  const std::vector<int64_t> own = row_major(x.type.dims), whole = row_major(y.type.dims);
  Box box{{ranks}, {x.type.elements()}, {whole[dimension] * x.type.dims[dimension]}};
  box.dims.insert(box.dims.end(), x.type.dims.begin(), x.type.dims.end());
  box.src_strides.insert(box.src_strides.end(), own.begin(), own.end());
  box.dst_strides.insert(box.dst_strides.end(), whole.begin(), whole.end());
  return Run(
      [y, box = flattened(std::move(box)), from = gathered(x, std::move(group))](const Memory& memory) -> Outcome {
        if (Outcome fault = from.fetch(memory)) return fault;
        copy_box(box, hlo::size_of(y.type.element), from.all->data(), y.out(memory));
        return {};
      });
}

}  // namespace lockstep::stand_in
