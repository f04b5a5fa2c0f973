#include "runtime/backends/neuron/hlo/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/core/check.h"
#include "runtime/core/hash.h"

namespace lockstep::neuron::hlo {
namespace {

/// The bytes of `value` as one element.
std::vector<std::byte> element_bytes(Element element, double value) {
  std::vector<std::byte> bytes(size_of(element));
  const auto store = [&](auto stored) { std::memcpy(bytes.data(), &stored, sizeof stored); };
  switch (element) {
    case Element::kPred:
    case Element::kU8: store(static_cast<uint8_t>(value)); break;
    case Element::kS8: store(static_cast<int8_t>(value)); break;
    case Element::kS32: store(static_cast<int32_t>(value)); break;
    case Element::kU32: store(static_cast<uint32_t>(value)); break;
    case Element::kF32: store(static_cast<float>(value)); break;
    case Element::kBF16: store(to_bfloat16(static_cast<float>(value)).bits); break;
    case Element::kF16: store(to_float16(static_cast<float>(value)).bits); break;
  }
  return bytes;
}

uint64_t fingerprint_of(const Instruction& instruction) {
  Fingerprint hash;
  hash.add(instruction.opcode).add(instruction.type.element).add(instruction.direction).add(instruction.called);
  const auto add_all = [&](const std::vector<int64_t>& values) { hash.add_bytes(std::as_bytes(std::span(values))); };
  for (const int operand : instruction.operands) hash.add(operand);
  add_all(instruction.type.dims);
  add_all(instruction.dimensions);
  add_all(instruction.start);
  add_all(instruction.limit);
  hash.add(instruction.number);
  return hash.add_bytes(instruction.literal).value();
}

/// The instructions that `root` needs, operands first. The order depends on the data flow alone, not on the order of
/// creation, which C++ leaves open within an expression. All parameters come first, by number.
std::vector<int> in_flow_order(const std::vector<Instruction>& instructions, int root) {
  std::vector<int> order, parameters;
  std::vector<size_t> operands_seen(instructions.size());
  std::vector<bool> is_entered(instructions.size());
  std::vector<int> open{root};
  is_entered[static_cast<size_t>(root)] = true;
  while (!open.empty()) {
    const auto top = static_cast<size_t>(open.back());
    const Instruction& instruction = instructions[top];
    if (operands_seen[top] < instruction.operands.size()) {
      const int operand = instruction.operands[operands_seen[top]++];
      if (is_entered[static_cast<size_t>(operand)]) continue;
      is_entered[static_cast<size_t>(operand)] = true;
      open.push_back(operand);
      continue;
    }
    (instruction.opcode == Opcode::kParameter ? parameters : order).push_back(static_cast<int>(top));
    open.pop_back();
  }
  const auto number_of = [&](int index) { return instructions[static_cast<size_t>(index)].number; };
  std::sort(parameters.begin(), parameters.end(), [&](int a, int b) { return number_of(a) < number_of(b); });
  order.insert(order.begin(), parameters.begin(), parameters.end());
  return order;
}

}  // namespace

Builder::Builder(std::string module_name) : name_(std::move(module_name)) {}

Value Builder::push(Instruction instruction) {
  const bool is_unique = instruction.opcode != Opcode::kParameter;
  const uint64_t key = fingerprint_of(instruction);
  if (is_unique) {
    const auto [begin, end] = seen_.equal_range(key);
    for (auto it = begin; it != end; ++it) {
      if (entry_[static_cast<size_t>(it->second)] == instruction) return {it->second};
    }
  }
  const auto index = static_cast<int>(entry_.size());
  entry_.push_back(std::move(instruction));
  if (is_unique) seen_.emplace(key, index);
  return {index};
}

Value Builder::parameter(std::string name, Type type) {
  return push(
      {.name = std::move(name), .opcode = Opcode::kParameter, .type = std::move(type), .number = parameters_++});
}

Value Builder::literal(Type type, const void* bytes, size_t size) {
  const auto* first = static_cast<const std::byte*>(bytes);
  return push({.opcode = Opcode::kConstant, .type = std::move(type), .literal = {first, first + size}});
}

Value Builder::constant(float value) { return literal({Element::kF32, {}, {}}, &value, sizeof value); }
Value Builder::constant(int32_t value) { return literal({Element::kS32, {}, {}}, &value, sizeof value); }
Value Builder::constant(uint32_t value) { return literal({Element::kU32, {}, {}}, &value, sizeof value); }
Value Builder::constant(bool value) {
  const uint8_t byte = value ? 1 : 0;
  return literal({Element::kPred, {}, {}}, &byte, sizeof byte);
}
Value Builder::constants(const std::vector<float>& values) {
  return literal({Element::kF32, {static_cast<int64_t>(values.size())}, {}}, values.data(), 4 * values.size());
}
Value Builder::constants(const std::vector<int32_t>& values) {
  return literal({Element::kS32, {static_cast<int64_t>(values.size())}, {}}, values.data(), 4 * values.size());
}

Value Builder::fill_like(Value like, double value) {
  const Type type = type_of(like);
  const std::vector<std::byte> bytes = element_bytes(type.element, value);
  const Value scalar = literal({type.element, {}, {}}, bytes.data(), bytes.size());
  return type.dims.empty() ? scalar : broadcast(scalar, type.dims, {});
}

Value Builder::iota(Type type, int64_t dimension) {
  LOCKSTEP_CHECK(dimension < type.rank(), dimension);
  return push({.opcode = Opcode::kIota, .type = std::move(type), .dimensions = {dimension}});
}

Value Builder::broadcast(Value value, std::vector<int64_t> dims, std::vector<int64_t> dimensions) {
  const Type type = type_of(value);
  LOCKSTEP_CHECK(dimensions.size() == type.dims.size(), to_string(type));
  for (size_t i = 0; i < dimensions.size(); ++i) {
    LOCKSTEP_CHECK(dims.at(static_cast<size_t>(dimensions[i])) == type.dims[i], i, to_string(type));
  }
  if (dims == type.dims) return value;
  return push({.opcode = Opcode::kBroadcast,
               .type = {type.element, std::move(dims), {}},
               .operands = {value.index},
               .dimensions = std::move(dimensions)});
}

Value Builder::reshape(Value value, std::vector<int64_t> dims) {
  if (dims == dims_of(value)) return value;
  Type type{element_of(value), std::move(dims), {}};
  LOCKSTEP_CHECK(type.elements() == type_of(value).elements(), to_string(type), to_string(type_of(value)));
  return push({.opcode = Opcode::kReshape, .type = std::move(type), .operands = {value.index}});
}

Value Builder::transpose(Value value, std::vector<int64_t> permutation) {
  std::vector<int64_t> dims;
  for (const int64_t from : permutation) dims.push_back(dims_of(value).at(static_cast<size_t>(from)));
  LOCKSTEP_CHECK(dims.size() == dims_of(value).size(), dims.size());
  return push({.opcode = Opcode::kTranspose,
               .type = {element_of(value), std::move(dims), {}},
               .operands = {value.index},
               .dimensions = std::move(permutation)});
}

Value Builder::convert(Value value, Element element) {
  if (element_of(value) == element) return value;
  return push({.opcode = Opcode::kConvert, .type = {element, dims_of(value), {}}, .operands = {value.index}});
}

Value Builder::copy(Value value) {
  return push({.opcode = Opcode::kCopy, .type = type_of(value), .operands = {value.index}});
}

Value Builder::binary(Opcode opcode, Value lhs, Value rhs) {
  LOCKSTEP_CHECK(type_of(lhs) == type_of(rhs), to_string(opcode), to_string(type_of(lhs)), to_string(type_of(rhs)));
  return push({.opcode = opcode, .type = type_of(lhs), .operands = {lhs.index, rhs.index}});
}

Value Builder::unary(Opcode opcode, Value value) {
  return push({.opcode = opcode, .type = type_of(value), .operands = {value.index}});
}

Value Builder::compare(Direction direction, Value x, Value y) {
  LOCKSTEP_CHECK(type_of(x) == type_of(y), to_string(type_of(x)), to_string(type_of(y)));
  return push({.opcode = Opcode::kCompare,
               .type = {Element::kPred, dims_of(x), {}},
               .operands = {x.index, y.index},
               .direction = direction});
}

Value Builder::select(Value condition, Value when_true, Value when_false) {
  LOCKSTEP_CHECK(type_of(when_true) == type_of(when_false), to_string(type_of(when_true)),
                 to_string(type_of(when_false)));
  LOCKSTEP_CHECK(element_of(condition) == Element::kPred && dims_of(condition) == dims_of(when_true),
                 to_string(type_of(condition)), to_string(type_of(when_true)));
  return push({.opcode = Opcode::kSelect,
               .type = type_of(when_true),
               .operands = {condition.index, when_true.index, when_false.index}});
}

Builder::Finished Builder::finish(std::vector<Value> outputs) && {
  Instruction root{.name = "outputs", .opcode = Opcode::kTuple};
  for (Value& output : outputs) {
    if (at(output).opcode == Opcode::kParameter) output = copy(output);
    root.type.parts.push_back(type_of(output));
    root.operands.push_back(output.index);
  }
  entry_.push_back(std::move(root));

  Finished finished{.module = {.name = name_, .computations = {}, .aliases = {}}, .kept = {}};
  Computation main{.name = "main", .instructions = {}, .root = 0};
  std::vector<int> place(entry_.size(), -1), called(called_.size(), -1);
  for (const int index : in_flow_order(entry_, static_cast<int>(entry_.size()) - 1)) {
    Instruction& instruction = entry_[static_cast<size_t>(index)];
    place[static_cast<size_t>(index)] = static_cast<int>(main.instructions.size());
    for (int& operand : instruction.operands) operand = place[static_cast<size_t>(operand)];
    if (instruction.opcode == Opcode::kParameter) {
      finished.kept.push_back(instruction.number);
      instruction.number = static_cast<int64_t>(finished.kept.size()) - 1;
    } else if (instruction.opcode != Opcode::kTuple) {
      instruction.name = fmt::format("{}.{}", to_string(instruction.opcode), main.instructions.size());
    }
    if (instruction.called >= 0) {
      int& moved = called[static_cast<size_t>(instruction.called)];
      if (moved < 0) {
        moved = static_cast<int>(finished.module.computations.size());
        finished.module.computations.push_back(std::move(called_[static_cast<size_t>(instruction.called)]));
      }
      instruction.called = moved;
    }
    main.instructions.push_back(std::move(instruction));
  }
  main.root = static_cast<int>(main.instructions.size()) - 1;
  finished.module.computations.push_back(std::move(main));
  return finished;
}

}  // namespace lockstep::neuron::hlo
