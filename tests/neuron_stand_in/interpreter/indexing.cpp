// Gathers, scatters and dynamic slices. An index out of range is an error, as on the device; XLA's CPU client would
// clamp or ignore it.
#include <fmt/format.h>

#include <algorithm>

#include "tests/neuron_stand_in/interpreter/box.h"
#include "tests/neuron_stand_in/interpreter/elements.h"
#include "tests/neuron_stand_in/interpreter/step.h"

namespace lockstep::stand_in {
namespace {

Fault outside(const std::string& name, int64_t found, int64_t limit) {
  return {Fault::Kind::kOutOfRange, fmt::format("{}: found index {}, expected 0 to {}", name, found, limit - 1)};
}

/// How the windows of a gather's result or a scatter's updates lie in its operand.
///
///   windowed [batch and window dimensions]  ── one window per index vector ──►  operand [at the index vector]
struct Windows {
  std::string name;
  std::vector<int64_t> limits, index_strides;      // by part of the index vector: starts allowed, elements per step
  int64_t parts_stride = 1, next_stride = 1;       // in the indices: between parts of a vector, between vectors
  int64_t count = 1;                               // index vectors
  std::vector<int64_t> batch_dims, batch_strides;  // of `windowed`
  Box box;                                         // one window: src is the operand, dst is `windowed`

  /// Where window `number` begins in `windowed`.
  int64_t begin_of(int64_t number) const {
    int64_t begin = 0;
    for (size_t i = batch_dims.size(); i-- > 0; number /= batch_dims[i]) {
      begin += number % batch_dims[i] * batch_strides[i];
    }
    return begin;
  }

  /// Where the operand's window of index vector `number` begins; an index outside is a fault.
  Outcome place(const int32_t* indices, int64_t number, int64_t& begin) const {
    begin = 0;
    for (size_t part = 0; part < limits.size(); ++part) {
      const int64_t index = indices[number * next_stride + static_cast<int64_t>(part) * parts_stride];
      if (index < 0 || index >= limits[part]) return outside(name, index, limits[part]);
      begin += index * index_strides[part];
    }
    return {};
  }
};

bool contains(const std::vector<int64_t>& values, size_t value) {
  return std::find(values.begin(), values.end(), static_cast<int64_t>(value)) != values.end();
}

/// The index vectors of `indices`: the last dimension, or vectors of one.
Result<void> read_vectors(const Placed& placed, const hlo::Type& indices, Windows& windows) {
  const hlo::IndexDims& index = placed.instruction.index;
  const bool has_vectors = index.index_vector == indices.rank() - 1;
  if (indices.element != hlo::Element::kS32 || (!has_vectors && index.index_vector != indices.rank())) {
    return placed.unsupported("indices that are not s32 with their vectors last");
  }
  const int64_t parts = has_vectors ? indices.dims.back() : 1;
  if (parts != static_cast<int64_t>(index.indexed.size())) return placed.unsupported("index vectors of another size");
  windows.next_stride = parts;
  windows.count = parts == 0 ? 0 : indices.elements() / parts;
  return ok();
}

Result<Windows> windows_of(const Placed& placed, const hlo::Type& operand, const hlo::Type& indices,
                           const hlo::Type& windowed, const std::vector<int64_t>& sizes) {
  const hlo::IndexDims& index = placed.instruction.index;
  Windows windows{.name = placed.instruction.name};
  LOCKSTEP_TRY_VOID(read_vectors(placed, indices, windows));
  const std::vector<int64_t> operand_strides = row_major(operand.dims), strides = row_major(windowed.dims);
  if (operand.element != windowed.element || sizes.size() != operand.dims.size())
    return placed.unsupported("its types");
  for (const int64_t dimension : index.indexed) {
    if (dimension < 0 || dimension >= operand.rank()) return placed.unsupported("its dimensions");
    const auto d = static_cast<size_t>(dimension);
    windows.limits.push_back(operand.dims[d] - sizes[d] + 1);
    windows.index_strides.push_back(operand_strides[d]);
  }
  for (size_t i = 0; i < windowed.dims.size(); ++i) {
    if (contains(index.window, i)) continue;
    windows.batch_dims.push_back(windowed.dims[i]);
    windows.batch_strides.push_back(strides[i]);
  }
  size_t next = 0;
  for (size_t d = 0; d < operand.dims.size(); ++d) {
    if (contains(index.collapsed, d)) continue;
    const auto at = next < index.window.size() ? static_cast<size_t>(index.window[next++]) : windowed.dims.size();
    if (at >= windowed.dims.size() || windowed.dims[at] != sizes[d]) return placed.unsupported("its windows");
    windows.box.dims.push_back(sizes[d]);
    windows.box.src_strides.push_back(operand_strides[d]);
    windows.box.dst_strides.push_back(strides[at]);
  }
  int64_t batches = 1;
  for (const int64_t dim : windows.batch_dims) batches *= dim;
  if (batches != windows.count || next != index.window.size()) return placed.unsupported("its windows");
  windows.box = flattened(std::move(windows.box));
  return windows;
}

}  // namespace

Result<Run> make_gather(const Placed& placed) {
  const Operand &table = placed.operands[0], &indices = placed.operands[1], &y = placed.result();
  const std::vector<int64_t>& sizes = placed.instruction.index.slice_sizes;
  LOCKSTEP_TRY(const Windows windows, windows_of(placed, table.type, indices.type, y.type, sizes));
  const auto size = static_cast<int64_t>(hlo::size_of(y.type.element));
  return Run([=](const Memory& memory) -> Outcome {
    const auto* vectors = elements<S32>(indices.in(memory));
    for (int64_t i = 0; i < windows.count; ++i) {
      int64_t begin = 0;
      if (Outcome fault = windows.place(vectors, i, begin)) return fault;
      copy_box(windows.box, static_cast<size_t>(size), table.in(memory) + begin * size,
               y.out(memory) + windows.begin_of(i) * size);
    }
    return {};
  });
}

Result<Run> make_scatter(const Placed& placed) {
  const Operand &table = placed.operands[0], &indices = placed.operands[1], &updates = placed.operands[2];
  const Operand& y = placed.result();
  const hlo::Computation& update = placed.module.computations[static_cast<size_t>(placed.instruction.called)];
  const hlo::Instruction& kept = update.instructions[static_cast<size_t>(update.root)];
  if (kept.opcode != hlo::Opcode::kParameter || kept.number != 1) return placed.unsupported("more than replacing");
  std::vector<int64_t> sizes(table.type.dims.size(), 1);  // collapsed dimensions are one long
  size_t next = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (contains(placed.instruction.index.collapsed, d)) continue;
    if (next == placed.instruction.index.window.size()) return placed.unsupported("its windows");
    const auto at = static_cast<size_t>(placed.instruction.index.window[next++]);
    if (at >= updates.type.dims.size()) return placed.unsupported("its windows");
    sizes[d] = updates.type.dims[at];
  }
  LOCKSTEP_TRY(Windows windows, windows_of(placed, table.type, indices.type, updates.type, sizes));
  std::swap(windows.box.src_strides, windows.box.dst_strides);
  const auto size = static_cast<int64_t>(hlo::size_of(y.type.element));
  return Run([=](const Memory& memory) -> Outcome {
    if (table.in(memory) != y.out(memory)) std::copy_n(table.in(memory), y.bytes(), y.out(memory));
    const auto* vectors = elements<S32>(indices.in(memory));
    for (int64_t i = 0; i < windows.count; ++i) {
      int64_t begin = 0;
      if (Outcome fault = windows.place(vectors, i, begin)) return fault;
      copy_box(windows.box, static_cast<size_t>(size), updates.in(memory) + windows.begin_of(i) * size,
               y.out(memory) + begin * size);
    }
    return {};
  });
}

Result<Run> make_dynamic_slice(const Placed& placed) {
  const Operand &x = placed.operands[0], &y = placed.result();
  const std::vector<Operand> starts(placed.operands.begin() + 1, placed.operands.end());
  const std::vector<int64_t> strides = row_major(x.type.dims);
  if (starts.size() != strides.size() || y.type.dims.size() != strides.size() || x.type.element != y.type.element) {
    return placed.unsupported("its types");
  }
  for (size_t i = 0; i < starts.size(); ++i) {
    const bool is_index = starts[i].type.element == hlo::Element::kS32 && starts[i].type.dims.empty();
    if (!is_index || y.type.dims[i] > x.type.dims[i]) return placed.unsupported("its indices");
  }
  const Box box = flattened({y.type.dims, strides, row_major(y.type.dims)});
  const auto size = static_cast<int64_t>(hlo::size_of(y.type.element));
  return Run([=, name = placed.instruction.name](const Memory& memory) -> Outcome {
    int64_t begin = 0;
    for (size_t i = 0; i < starts.size(); ++i) {
      const int64_t index = *elements<S32>(starts[i].in(memory)), limit = x.type.dims[i] - y.type.dims[i] + 1;
      if (index < 0 || index >= limit) return outside(name, index, limit);
      begin += index * strides[i];
    }
    copy_box(box, static_cast<size_t>(size), x.in(memory) + begin * size, y.out(memory));
    return {};
  });
}

}  // namespace lockstep::stand_in
