// Operations that move elements and compute nothing.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/neuron_stand_in/interpreter/box.h"
#include "tests/neuron_stand_in/interpreter/elements.h"
#include "tests/neuron_stand_in/interpreter/step.h"

namespace lockstep::stand_in {
namespace {

/// Where the parts of an operand go: a box, and the offsets in elements of its first element on both sides.
struct Move {
  Box box;
  int64_t src_offset = 0, dst_offset = 0;
};

Run copy_of(const Operand& src, const Operand& dst, Move move) {
  move.box = flattened(std::move(move.box));
  const size_t size = hlo::size_of(dst.type.element);
  return [=](const Memory& memory) -> Outcome {
    copy_box(move.box, size, src.in(memory) + move.src_offset * static_cast<int64_t>(size),
             dst.out(memory) + move.dst_offset * static_cast<int64_t>(size));
    return {};
  };
}

bool same_element(const Placed& placed) {
  return std::all_of(placed.operands.begin(), placed.operands.end(),
                     [&](const Operand& operand) { return operand.type.element == placed.result().type.element; });
}

int64_t offset_of(const std::vector<int64_t>& place, const std::vector<int64_t>& strides) {
  return std::inner_product(place.begin(), place.end(), strides.begin(), int64_t{0});
}

}  // namespace

Result<Run> make_copy(const Placed& placed) {
  const Operand &x = placed.operands[0], &y = placed.result();
  if (x.bytes() != y.bytes()) return placed.unsupported("another size");
  return Run([x, y](const Memory& memory) -> Outcome {
    std::copy_n(x.in(memory), y.bytes(), y.out(memory));
    return {};
  });
}

Result<Run> make_iota(const Placed& placed) {
  const hlo::Type& type = placed.result().type;
  if (placed.instruction.dimensions.size() != 1) return placed.unsupported("no dimension");
  const auto dimension = static_cast<size_t>(placed.instruction.dimensions[0]);
  if (dimension >= type.dims.size()) return placed.unsupported("its dimension");
  const int64_t limit = type.dims[dimension], stride = row_major(type.dims)[dimension];
  return with_element(type.element, [&](auto s) -> Result<Run> {
    using S = decltype(s);
    return Run([=, y = placed.result()](const Memory& memory) -> Outcome {
      auto* out = elements<S>(y.out(memory));
      const int64_t count = y.type.elements();
      for (int64_t i = 0; i < count; ++i) out[i] = S::store(static_cast<typename S::Value>(i / stride % limit));
      return {};
    });
  });
}

Result<Run> make_broadcast(const Placed& placed) {
  const Operand &x = placed.operands[0], &y = placed.result();
  const auto& dimensions = placed.instruction.dimensions;
  if (!same_element(placed) || dimensions.size() != x.type.dims.size()) return placed.unsupported("its dimensions");
  const std::vector<int64_t> strides = row_major(x.type.dims);
  std::vector<int64_t> src(y.type.dims.size(), 0);
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const auto to = static_cast<size_t>(dimensions[i]);
    if (to >= src.size() || y.type.dims[to] != x.type.dims[i]) return placed.unsupported("its dimensions");
    src[to] = strides[i];
  }
  return copy_of(x, y, {{y.type.dims, std::move(src), row_major(y.type.dims)}});
}

Result<Run> make_transpose(const Placed& placed) {
  const Operand &x = placed.operands[0], &y = placed.result();
  const std::vector<int64_t> strides = row_major(x.type.dims);
  std::vector<int64_t> src;
  for (const int64_t from : placed.instruction.dimensions) {
    if (from < 0 || static_cast<size_t>(from) >= strides.size()) return placed.unsupported("its dimensions");
    src.push_back(strides[static_cast<size_t>(from)]);
  }
  if (!same_element(placed) || src.size() != y.type.dims.size()) return placed.unsupported("its dimensions");
  return copy_of(x, y, {{y.type.dims, std::move(src), row_major(y.type.dims)}});
}

Result<Run> make_slice(const Placed& placed) {
  const Operand &x = placed.operands[0], &y = placed.result();
  const auto &start = placed.instruction.start, &limit = placed.instruction.limit;
  const size_t rank = x.type.dims.size();
  if (!same_element(placed) || start.size() != rank || y.type.dims.size() != rank)
    return placed.unsupported("its rank");
  for (size_t i = 0; i < rank; ++i) {
    const bool fits = 0 <= start[i] && start[i] <= limit[i] && limit[i] <= x.type.dims[i];
    if (!fits || y.type.dims[i] != limit[i] - start[i]) return placed.unsupported("a range outside");
  }
  const std::vector<int64_t> strides = row_major(x.type.dims);
  return copy_of(x, y, {{y.type.dims, strides, row_major(y.type.dims)}, offset_of(start, strides)});
}

Result<Run> make_pad(const Placed& placed) {
  const Operand &x = placed.operands[0], &with = placed.operands[1], &y = placed.result();
  const auto &low = placed.instruction.start, &high = placed.instruction.limit;
  const size_t rank = x.type.dims.size();
  if (!same_element(placed) || low.size() != rank || y.type.dims.size() != rank) return placed.unsupported("its rank");
  for (size_t i = 0; i < rank; ++i) {
    const bool fits = low[i] >= 0 && high[i] >= 0 && y.type.dims[i] == x.type.dims[i] + low[i] + high[i];
    if (!fits) return placed.unsupported("its padding");
  }
  const std::vector<int64_t> strides = row_major(y.type.dims);
  const Run fill = copy_of(with, y, {{{y.type.elements()}, {0}, {1}}});
  const Run inside = copy_of(x, y, {{x.type.dims, row_major(x.type.dims), strides}, 0, offset_of(low, strides)});
  return Run([fill, inside](const Memory& memory) -> Outcome {
    fill(memory);
    return inside(memory);
  });
}

Result<Run> make_concatenate(const Placed& placed) {
  const Operand& y = placed.result();
  if (!same_element(placed) || placed.instruction.dimensions.size() != 1) return placed.unsupported("its dimension");
  const auto dimension = static_cast<size_t>(placed.instruction.dimensions[0]);
  if (dimension >= y.type.dims.size()) return placed.unsupported("its dimension");
  const std::vector<int64_t> strides = row_major(y.type.dims);
  std::vector<Run> parts;
  int64_t begin = 0;
  for (const Operand& x : placed.operands) {
    std::vector<int64_t> expected = y.type.dims;
    expected[dimension] = x.type.dims.size() == expected.size() ? x.type.dims[dimension] : -1;
    if (x.type.dims != expected) return placed.unsupported("operands of other shapes");
    parts.push_back(copy_of(x, y, {{x.type.dims, row_major(x.type.dims), strides}, 0, begin * strides[dimension]}));
    begin += x.type.dims[dimension];
  }
  if (begin != y.type.dims[dimension]) return placed.unsupported("operands of other shapes");
  return Run([parts](const Memory& memory) -> Outcome {
    for (const Run& part : parts) part(memory);
    return {};
  });
}

}  // namespace lockstep::stand_in
