// Array instructions and collectives of the builder, with the small computations that some of them call. The array
// instructions are slices, products, reductions, gathers, scatters and sorts.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "runtime/backends/neuron/hlo/builder.h"
#include "runtime/core/check.h"

namespace lockstep::neuron::hlo {
namespace {

std::vector<int64_t> without(const std::vector<int64_t>& dims, const std::vector<int64_t>& removed) {
  std::vector<int64_t> left;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (std::find(removed.begin(), removed.end(), static_cast<int64_t>(i)) == removed.end()) left.push_back(dims[i]);
  }
  return left;
}

std::vector<std::vector<int64_t>> everyone(int ranks) {
  std::vector<int64_t> group;
  for (int rank = 0; rank < ranks; ++rank) group.push_back(rank);
  return {group};
}

}  // namespace

Value Builder::slice(Value value, std::vector<int64_t> start, std::vector<int64_t> limit) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < start.size(); ++i) {
    LOCKSTEP_CHECK(0 <= start[i] && start[i] <= limit[i] && limit[i] <= dims_of(value).at(i), i, start[i], limit[i]);
    dims.push_back(limit[i] - start[i]);
  }
  if (dims == dims_of(value)) return value;
  return push({.opcode = Opcode::kSlice,
               .type = {element_of(value), std::move(dims), {}},
               .operands = {value.index},
               .start = std::move(start),
               .limit = std::move(limit)});
}

Value Builder::slice_dimension(Value value, int64_t dimension, Range range) {
  std::vector<int64_t> start(dims_of(value).size()), limit = dims_of(value);
  start.at(static_cast<size_t>(dimension)) = range.begin;
  limit.at(static_cast<size_t>(dimension)) = range.end;
  return slice(value, std::move(start), std::move(limit));
}

Value Builder::dynamic_slice(Value value, const std::vector<Value>& start, std::vector<int64_t> sizes) {
  LOCKSTEP_CHECK(start.size() == sizes.size() && sizes.size() == dims_of(value).size(), start.size(), sizes.size());
  std::vector<int> operands{value.index};
  for (const Value index : start) operands.push_back(index.index);
  return push({.opcode = Opcode::kDynamicSlice,
               .type = {element_of(value), sizes, {}},
               .operands = std::move(operands),
               .slice_sizes = sizes});
}

Value Builder::pad(Value value, Value with, std::vector<int64_t> low, std::vector<int64_t> high) {
  std::vector<int64_t> dims = dims_of(value);
  for (size_t i = 0; i < dims.size(); ++i) dims[i] += low.at(i) + high.at(i);
  if (dims == dims_of(value)) return value;
  return push({.opcode = Opcode::kPad,
               .type = {element_of(value), std::move(dims), {}},
               .operands = {value.index, with.index},
               .start = std::move(low),
               .limit = std::move(high)});
}

Value Builder::concatenate(const std::vector<Value>& values, int64_t dimension) {
  if (values.size() == 1) return values.front();
  Type type = type_of(values.front());
  int64_t& joined = type.dims.at(static_cast<size_t>(dimension));
  joined = 0;
  std::vector<int> operands;
  for (const Value value : values) {
    LOCKSTEP_CHECK(without(dims_of(value), {dimension}) == without(type.dims, {dimension}), to_string(type_of(value)));
    joined += dims_of(value)[static_cast<size_t>(dimension)];
    operands.push_back(value.index);
  }
  return push({.opcode = Opcode::kConcatenate,
               .type = std::move(type),
               .operands = std::move(operands),
               .dimensions = {dimension}});
}

Value Builder::dot(Value lhs, Value rhs, DotDims dims, Element result) {
  const auto pick = [&](Value value, const std::vector<int64_t>& which) {
    std::vector<int64_t> picked;
    for (const int64_t dimension : which) picked.push_back(dims_of(value).at(static_cast<size_t>(dimension)));
    return picked;
  };
  LOCKSTEP_CHECK(pick(lhs, dims.lhs_contracting) == pick(rhs, dims.rhs_contracting) &&
                     pick(lhs, dims.lhs_batch) == pick(rhs, dims.rhs_batch) && element_of(lhs) == element_of(rhs),
                 to_string(type_of(lhs)), to_string(type_of(rhs)));
  std::vector<int64_t> shape = pick(lhs, dims.lhs_batch);
  const auto append_rest = [&](Value value, std::vector<int64_t> used, const std::vector<int64_t>& batch) {
    used.insert(used.end(), batch.begin(), batch.end());
    const std::vector<int64_t> rest = without(dims_of(value), used);
    shape.insert(shape.end(), rest.begin(), rest.end());
  };
  append_rest(lhs, dims.lhs_contracting, dims.lhs_batch);
  append_rest(rhs, dims.rhs_contracting, dims.rhs_batch);
  return push({.opcode = Opcode::kDot,
               .type = {result, std::move(shape), {}},
               .operands = {lhs.index, rhs.index},
               .dot = std::move(dims)});
}

Value Builder::reduce(Value value, std::vector<int64_t> dimensions, Opcode opcode, float initial) {
  LOCKSTEP_CHECK(element_of(value) == Element::kF32, to_string(type_of(value)));
  const Value from = constant(initial);
  return push({.opcode = Opcode::kReduce,
               .type = {Element::kF32, without(dims_of(value), dimensions), {}},
               .operands = {value.index, from.index},
               .dimensions = std::move(dimensions),
               .called = combiner(opcode, Element::kF32)});
}

Value Builder::reduce_add(Value value, std::vector<int64_t> dimensions) {
  return reduce(value, std::move(dimensions), Opcode::kAdd, 0.0f);
}
Value Builder::reduce_max(Value value, std::vector<int64_t> dimensions) {
  return reduce(value, std::move(dimensions), Opcode::kMaximum, -std::numeric_limits<float>::infinity());
}
Value Builder::reduce_min(Value value, std::vector<int64_t> dimensions) {
  return reduce(value, std::move(dimensions), Opcode::kMinimum, std::numeric_limits<float>::infinity());
}

Value Builder::take_rows(Value table, Value rows) { return take(table, rows, 0); }

Value Builder::take(Value table, Value indices, int64_t dimension) {
  LOCKSTEP_CHECK(element_of(indices) == Element::kS32 && dims_of(indices).size() == 1, to_string(type_of(indices)));
  IndexDims index{.collapsed = {dimension}, .indexed = {dimension}, .index_vector = 1, .slice_sizes = dims_of(table)};
  index.slice_sizes.at(static_cast<size_t>(dimension)) = 1;
  std::vector<int64_t> dims = dims_of(table);
  dims[static_cast<size_t>(dimension)] = dims_of(indices)[0];
  for (int64_t i = 0; i < type_of(table).rank(); ++i) {
    if (i != dimension) index.window.push_back(i);
  }
  indexings_.push_back({indices, {dims_of(table)[static_cast<size_t>(dimension)]}});
  return push({.opcode = Opcode::kGather,
               .type = {element_of(table), std::move(dims), {}},
               .operands = {table.index, indices.index},
               .index = std::move(index)});
}

Value Builder::put_rows(Value table, Value rows, Value updates) {
  IndexDims index{.collapsed = {0}, .indexed = {0}, .index_vector = 1};
  for (int64_t i = 1; i < type_of(table).rank(); ++i) index.window.push_back(i);
  LOCKSTEP_CHECK(element_of(table) == element_of(updates) && dims_of(updates).at(0) == dims_of(rows).at(0) &&
                     without(dims_of(table), {0}) == without(dims_of(updates), {0}),
                 to_string(type_of(table)), to_string(type_of(updates)));
  indexings_.push_back({rows, {dims_of(table)[0]}});
  return push({.opcode = Opcode::kScatter,
               .type = type_of(table),
               .operands = {table.index, rows.index, updates.index},
               .index = std::move(index),
               .called = replacement(element_of(table))});
}

Value Builder::put_elements(Value table, Value elements, Value updates) {
  LOCKSTEP_CHECK(dims_of(table).size() == 2 && dims_of(elements).at(1) == 2 &&
                     dims_of(updates) == std::vector{dims_of(elements)[0]},
                 to_string(type_of(table)), to_string(type_of(elements)));
  indexings_.push_back({elements, dims_of(table)});
  return push({.opcode = Opcode::kScatter,
               .type = type_of(table),
               .operands = {table.index, elements.index, updates.index},
               .index = {.collapsed = {0, 1}, .indexed = {0, 1}, .index_vector = 1},
               .called = replacement(element_of(table))});
}

Builder::Sorted Builder::sort_rows(Value keys, Value companions) {
  LOCKSTEP_CHECK(dims_of(keys) == dims_of(companions) && element_of(keys) == Element::kF32, to_string(type_of(keys)));
  const Value sorted = push({.opcode = Opcode::kSort,
                             .type = {Element::kF32, {}, {type_of(keys), type_of(companions)}},
                             .operands = {keys.index, companions.index},
                             .dimensions = {type_of(keys).rank() - 1},
                             .called = ascending(element_of(companions)),
                             .is_stable = true});
  const auto part = [&](int64_t which) {
    return push({.opcode = Opcode::kGetTupleElement,
                 .type = type_of(which == 0 ? keys : companions),
                 .operands = {sorted.index},
                 .number = which});
  };
  const Value first = part(0);
  return {first, part(1)};
}

Value Builder::all_reduce(Value value, int ranks) {
  LOCKSTEP_CHECK(element_of(value) == Element::kF32, to_string(type_of(value)));
  return push({.opcode = Opcode::kAllReduce,
               .type = type_of(value),
               .operands = {value.index},
               .called = combiner(Opcode::kAdd, Element::kF32),
               .groups = everyone(ranks)});
}

Value Builder::all_gather(Value value, int64_t dimension, int ranks) {
  Type type = type_of(value);
  type.dims.at(static_cast<size_t>(dimension)) *= ranks;
  return push({.opcode = Opcode::kAllGather,
               .type = std::move(type),
               .operands = {value.index},
               .dimensions = {dimension},
               .groups = everyone(ranks)});
}

int Builder::add_computation(std::string name, std::vector<Type> parameters, Instruction result) {
  const auto [found, is_new] = called_by_name_.try_emplace(name, static_cast<int>(called_.size()));
  if (!is_new) return found->second;
  Computation computation{.name = name, .instructions = {}, .root = 0};
  for (size_t i = 0; i < parameters.size(); ++i) {
    computation.instructions.push_back({.name = fmt::format("{}.p{}", name, i),
                                        .opcode = Opcode::kParameter,
                                        .type = std::move(parameters[i]),
                                        .number = static_cast<int64_t>(i)});
  }
  if (result.opcode == Opcode::kParameter) {
    computation.root = static_cast<int>(result.number);
  } else {
    computation.root = static_cast<int>(computation.instructions.size());
    result.name = name + ".result";
    computation.instructions.push_back(std::move(result));
  }
  called_.push_back(std::move(computation));
  return found->second;
}

int Builder::combiner(Opcode opcode, Element element) {
  const Type scalar{element, {}, {}};
  return add_computation(fmt::format("{}_{}", to_string(opcode), to_string(element)), {scalar, scalar},
                         {.opcode = opcode, .type = scalar, .operands = {0, 1}});
}

int Builder::replacement(Element element) {
  const Type scalar{element, {}, {}};
  return add_computation(fmt::format("replace_{}", to_string(element)), {scalar, scalar},
                         {.opcode = Opcode::kParameter, .number = 1});
}

int Builder::ascending(Element companion) {
  const Type key{Element::kF32, {}, {}}, other{companion, {}, {}};
  return add_computation(
      fmt::format("ascending_f32_{}", to_string(companion)), {key, key, other, other},
      {.opcode = Opcode::kCompare, .type = {Element::kPred, {}, {}}, .operands = {0, 1}, .direction = Direction::kLt});
}

}  // namespace lockstep::neuron::hlo
