#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <iterator>

#include "runtime/backends/neuron/hlo/module.h"

namespace lockstep::neuron::hlo {
namespace {

template <typename T>
T element_at(const Instruction& constant, int64_t index) {
  T value;
  std::memcpy(&value, constant.literal.data() + static_cast<size_t>(index) * sizeof value, sizeof value);
  return value;
}

std::string float_text(float value) {
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return fmt::format("{}", value);
}

std::string element_text(const Instruction& constant, int64_t index) {
  switch (constant.type.element) {
    case Element::kPred: return element_at<uint8_t>(constant, index) != 0 ? "true" : "false";
    case Element::kU8: return fmt::format("{}", element_at<uint8_t>(constant, index));
    case Element::kS8: return fmt::format("{}", element_at<int8_t>(constant, index));
    case Element::kS32: return fmt::format("{}", element_at<int32_t>(constant, index));
    case Element::kU32: return fmt::format("{}", element_at<uint32_t>(constant, index));
    case Element::kF32: return float_text(element_at<float>(constant, index));
    case Element::kBF16: return float_text(to_float(BFloat16{element_at<uint16_t>(constant, index)}));
    case Element::kF16: return float_text(to_float(Float16{element_at<uint16_t>(constant, index)}));
  }
  return "";
}

/// A scalar, or a vector in braces; constants of this backend have at most one dimension.
std::string literal_text(const Instruction& constant) {
  if (constant.type.dims.empty()) return element_text(constant, 0);
  std::vector<std::string> elements;
  for (int64_t i = 0; i < constant.type.elements(); ++i) elements.push_back(element_text(constant, i));
  return fmt::format("{{{}}}", fmt::join(elements, ", "));
}

std::string braces(const std::vector<int64_t>& values) { return fmt::format("{{{}}}", fmt::join(values, ",")); }

std::string groups_text(const Instruction& instruction) {
  std::vector<std::string> groups;
  for (const auto& group : instruction.groups) groups.push_back(braces(group));
  return fmt::format("{{{}}}", fmt::join(groups, ","));
}

std::string slice_text(const Instruction& instruction) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < instruction.start.size(); ++i) {
    parts.push_back(fmt::format("[{}:{}]", instruction.start[i], instruction.limit[i]));
  }
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::string padding_text(const Instruction& instruction) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < instruction.start.size(); ++i) {
    parts.push_back(fmt::format("{}_{}", instruction.start[i], instruction.limit[i]));
  }
  return fmt::format("{}", fmt::join(parts, "x"));
}

std::string dot_text(const DotDims& dot) {
  std::string text;
  if (!dot.lhs_batch.empty()) {
    text = fmt::format(", lhs_batch_dims={}, rhs_batch_dims={}", braces(dot.lhs_batch), braces(dot.rhs_batch));
  }
  return text + fmt::format(", lhs_contracting_dims={}, rhs_contracting_dims={}", braces(dot.lhs_contracting),
                            braces(dot.rhs_contracting));
}

std::string index_text(const Instruction& instruction) {
  const IndexDims& index = instruction.index;
  if (instruction.opcode == Opcode::kGather) {
    return fmt::format(
        ", offset_dims={}, collapsed_slice_dims={}, start_index_map={}, index_vector_dim={}, "
        "slice_sizes={}",
        braces(index.window), braces(index.collapsed), braces(index.indexed), index.index_vector,
        braces(index.slice_sizes));
  }
  return fmt::format(
      ", update_window_dims={}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, "
      "index_vector_dim={}",
      braces(index.window), braces(index.collapsed), braces(index.indexed), index.index_vector);
}

/// The text of an opcode's attributes, after its operands.
std::string attributes_text(const Module& module, const Instruction& instruction) {
  std::string text;
  switch (instruction.opcode) {
    case Opcode::kIota: text = fmt::format(", iota_dimension={}", instruction.dimensions.front()); break;
    case Opcode::kBroadcast:
    case Opcode::kTranspose:
    case Opcode::kReduce:
    case Opcode::kConcatenate:
    case Opcode::kSort:
    case Opcode::kAllGather: text = ", dimensions=" + braces(instruction.dimensions); break;
    case Opcode::kDot: text = dot_text(instruction.dot); break;
    case Opcode::kGather:
    case Opcode::kScatter: text = index_text(instruction); break;
    case Opcode::kCompare: text = fmt::format(", direction={}", to_string(instruction.direction)); break;
    case Opcode::kSlice: text = ", slice=" + slice_text(instruction); break;
    case Opcode::kPad: text = ", padding=" + padding_text(instruction); break;
    case Opcode::kDynamicSlice: text = ", dynamic_slice_sizes=" + braces(instruction.slice_sizes); break;
    case Opcode::kGetTupleElement: text = fmt::format(", index={}", instruction.number); break;
    default: break;
  }
  if (!instruction.groups.empty()) text += ", replica_groups=" + groups_text(instruction);
  if (instruction.is_stable) text += ", is_stable=true";
  if (instruction.called >= 0) {
    text += fmt::format(", to_apply=%{}", module.computations[static_cast<size_t>(instruction.called)].name);
  }
  return text;
}

std::string operands_text(const Computation& computation, const Instruction& instruction) {
  if (instruction.opcode == Opcode::kParameter) return fmt::format("{}", instruction.number);
  if (instruction.opcode == Opcode::kConstant) return literal_text(instruction);
  std::vector<std::string> operands;
  for (const int operand : instruction.operands) {
    operands.push_back("%" + computation.instructions[static_cast<size_t>(operand)].name);
  }
  return fmt::format("{}", fmt::join(operands, ", "));
}

void print_computation(const Module& module, const Computation& computation, std::string& text) {
  const auto out = std::back_inserter(text);
  const bool is_entry = &computation == &module.entry();
  fmt::format_to(out, "\n{}%{} {{\n", is_entry ? "ENTRY " : "", computation.name);
  for (size_t i = 0; i < computation.instructions.size(); ++i) {
    const Instruction& instruction = computation.instructions[i];
    fmt::format_to(out, "  {}%{} = {} {}({}){}\n", static_cast<int>(i) == computation.root ? "ROOT " : "",
                   instruction.name, to_string(instruction.type), to_string(instruction.opcode),
                   operands_text(computation, instruction), attributes_text(module, instruction));
  }
  text += "}\n";
}

}  // namespace

std::string to_text(const Module& module) {
  std::string text = "HloModule " + module.name;
  std::vector<std::string> aliases;
  for (const Alias& alias : module.aliases) {
    aliases.push_back(fmt::format("{{{}}}: ({}, {{}}, must-alias)", alias.output, alias.parameter));
  }
  if (!aliases.empty()) text += fmt::format(", input_output_alias={{ {} }}", fmt::join(aliases, ", "));
  text += "\n";
  for (const Computation& computation : module.computations) print_computation(module, computation, text);
  return text;
}

}  // namespace lockstep::neuron::hlo
