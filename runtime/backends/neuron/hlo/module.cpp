#include "runtime/backends/neuron/hlo/module.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "runtime/core/check.h"

namespace lockstep::neuron::hlo {
namespace {

constexpr std::array<std::string_view, kOpcodes> kNames = {
    "parameter",   "constant",  "broadcast",     "reshape",  "transpose",
    "convert",     "copy",      "iota",          "dot",      "add",
    "subtract",    "multiply",  "divide",        "maximum",  "minimum",
    "and",         "or",        "not",           "abs",      "floor",
    "exponential", "tanh",      "log",           "logistic", "sqrt",
    "rsqrt",       "sine",      "cosine",        "compare",  "select",
    "reduce",      "slice",     "dynamic-slice", "pad",      "concatenate",
    "gather",      "scatter",   "sort",          "tuple",    "get-tuple-element",
    "all-reduce",  "all-gather"};

}  // namespace

std::string_view to_string(Element element) {
  switch (element) {
    case Element::kPred: return "pred";
    case Element::kS32: return "s32";
    case Element::kU32: return "u32";
    case Element::kU8: return "u8";
    case Element::kF32: return "f32";
    case Element::kBF16: return "bf16";
    case Element::kF16: return "f16";
    case Element::kS8: return "s8";
  }
  return "";
}

size_t size_of(Element element) {
  switch (element) {
    case Element::kPred:
    case Element::kU8:
    case Element::kS8: return 1;
    case Element::kBF16:
    case Element::kF16: return 2;
    default: return 4;
  }
}

bool is_float(Element element) {
  return element == Element::kF32 || element == Element::kBF16 || element == Element::kF16;
}

Element element_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return Element::kF32;
    case DType::kBFloat16: return Element::kBF16;
    case DType::kFloat16: return Element::kF16;
    case DType::kInt32: return Element::kS32;
    case DType::kUInt8: return Element::kU8;
    case DType::kInt8: return Element::kS8;
  }
  return Element::kF32;
}

int64_t Type::elements() const {
  int64_t elements = 1;
  for (const int64_t dim : dims) elements *= dim;
  return elements;
}

std::string to_string(const Type& type) {
  if (type.parts.empty()) return fmt::format("{}[{}]", to_string(type.element), fmt::join(type.dims, ","));
  std::vector<std::string> parts;
  for (const Type& part : type.parts) parts.push_back(to_string(part));
  return fmt::format("({})", fmt::join(parts, ", "));
}

std::string_view to_string(Opcode opcode) { return kNames[static_cast<size_t>(opcode)]; }

std::optional<Opcode> opcode_from_name(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Opcode>(found - kNames.begin());
}

std::string_view to_string(Direction direction) {
  constexpr std::array<std::string_view, 7> kDirections = {"", "EQ", "NE", "LT", "LE", "GT", "GE"};
  return kDirections[static_cast<size_t>(direction)];
}

std::vector<const Instruction*> parameters_of(const Module& module) {
  std::vector<const Instruction*> parameters;
  for (const Instruction& instruction : module.entry().instructions) {
    if (instruction.opcode == Opcode::kParameter) parameters.push_back(&instruction);
  }
  std::sort(parameters.begin(), parameters.end(), [](auto* a, auto* b) { return a->number < b->number; });
  return parameters;
}

}  // namespace lockstep::neuron::hlo
