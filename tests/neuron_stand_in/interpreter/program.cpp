#include "tests/neuron_stand_in/interpreter/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "tests/neuron_stand_in/interpreter/elements.h"
#include "tests/neuron_stand_in/interpreter/storage_plan.h"

namespace lockstep::stand_in {
namespace {

using hlo::Opcode;

/// How each opcode is run; null for those that are nothing at run time.
struct Maker {
  Opcode opcode;
  Result<Run> (*make)(const Placed&);
  size_t operands = 1;  // at least
  bool calls = false;   // another computation
};
constexpr Maker kMakers[] = {
    {Opcode::kParameter, nullptr, 0},
    {Opcode::kConstant, nullptr, 0},
    {Opcode::kReshape, nullptr},
    {Opcode::kTuple, nullptr, 0},
    {Opcode::kGetTupleElement, nullptr},
    {Opcode::kBroadcast, make_broadcast},
    {Opcode::kTranspose, make_transpose},
    {Opcode::kConvert, make_convert},
    {Opcode::kCopy, make_copy},
    {Opcode::kIota, make_iota, 0},
    {Opcode::kDot, make_dot, 2},
    {Opcode::kAdd, make_binary, 2},
    {Opcode::kSubtract, make_binary, 2},
    {Opcode::kMultiply, make_binary, 2},
    {Opcode::kDivide, make_binary, 2},
    {Opcode::kMaximum, make_binary, 2},
    {Opcode::kMinimum, make_binary, 2},
    {Opcode::kAnd, make_binary, 2},
    {Opcode::kOr, make_binary, 2},
    {Opcode::kNot, make_unary},
    {Opcode::kAbs, make_unary},
    {Opcode::kFloor, make_unary},
    {Opcode::kExponential, make_unary},
    {Opcode::kTanh, make_unary},
    {Opcode::kLog, make_unary},
    {Opcode::kLogistic, make_unary},
    {Opcode::kSqrt, make_unary},
    {Opcode::kRsqrt, make_unary},
    {Opcode::kSine, make_unary},
    {Opcode::kCosine, make_unary},
    {Opcode::kCompare, make_compare, 2},
    {Opcode::kSelect, make_select, 3},
    {Opcode::kReduce, make_reduce, 2, true},
    {Opcode::kSlice, make_slice},
    {Opcode::kDynamicSlice, make_dynamic_slice},
    {Opcode::kPad, make_pad, 2},
    {Opcode::kConcatenate, make_concatenate},
    {Opcode::kGather, make_gather, 2},
    {Opcode::kScatter, make_scatter, 3, true},
    {Opcode::kSort, make_sort, 2, true},
    {Opcode::kAllReduce, make_all_reduce, 1, true},
    {Opcode::kAllGather, make_all_gather},
};

const Maker* maker_of(Opcode opcode) {
  const auto* found =
      std::find_if(std::begin(kMakers), std::end(kMakers), [&](const Maker& maker) { return maker.opcode == opcode; });
  return found == std::end(kMakers) ? nullptr : found;
}

Error malformed(const std::string& found) {
  return {ErrorKind::kInvalidArgument, fmt::format("[stand-in] cannot run a module: found {}", found)};
}

Result<void> check_operands(const hlo::Module& module, const hlo::Instruction& instruction, int index) {
  const Maker* maker = maker_of(instruction.opcode);
  if (maker == nullptr) {
    return Error{ErrorKind::kUnsupported, fmt::format("[stand-in] cannot run {}: its opcode {} has no implementation",
                                                      instruction.name, to_string(instruction.opcode))};
  }
  if (instruction.operands.size() < maker->operands) return malformed(instruction.name + " with too few operands");
  for (const int operand : instruction.operands) {
    if (operand < 0 || operand >= index) return malformed(instruction.name + " with an operand that comes after it");
  }
  const bool calls = instruction.called >= 0 && instruction.called < static_cast<int>(module.computations.size()) - 1;
  if (maker->calls && !calls) return malformed(instruction.name + " without the computation that it calls");
  return ok();
}

/// Checks that from_bytes does not make: operands, parameters' numbers, aliases.
Result<void> check(const hlo::Module& module) {
  const hlo::Computation& entry = module.entry();
  for (size_t i = 0; i < entry.instructions.size(); ++i) {
    LOCKSTEP_TRY_VOID(check_operands(module, entry.instructions[i], static_cast<int>(i)));
  }
  const hlo::Instruction& root = entry.instructions[static_cast<size_t>(entry.root)];
  if (root.opcode != Opcode::kTuple) return malformed("a root that is no tuple");
  const auto parameters = hlo::parameters_of(module);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i]->number != static_cast<int64_t>(i)) return malformed("parameters that are not numbered from 0");
  }
  for (const hlo::Alias& alias : module.aliases) {
    const bool is_there = alias.output >= 0 && alias.output < static_cast<int>(root.operands.size()) &&
                          alias.parameter >= 0 && alias.parameter < static_cast<int>(parameters.size());
    if (!is_there) return malformed("an alias of something that is not there");
    const auto output = static_cast<size_t>(root.operands[static_cast<size_t>(alias.output)]);
    if (entry.instructions[output].type != parameters[static_cast<size_t>(alias.parameter)]->type) {
      return malformed(fmt::format("output {} aliased to a parameter of another type", alias.output));
    }
  }
  return ok();
}

}  // namespace

Error Placed::unsupported(const std::string& what) const {
  return {ErrorKind::kUnsupported,
          fmt::format("[stand-in] cannot run {}: found {} of {}, expected what the lowering writes", instruction.name,
                      what, to_string(instruction.opcode))};
}

Result<std::unique_ptr<Program>> Program::compile(hlo::Module module, int rank) {
  LOCKSTEP_TRY_VOID(check(module));
  std::unique_ptr<Program> program(new Program());
  program->module_ = std::move(module);
  LOCKSTEP_TRY_VOID(program->build(rank));
  return program;
}

Result<void> Program::build(int rank) {
  StoragePlan plan = plan_storage(module_);
  const hlo::Computation& entry = module_.entry();
  for (const hlo::Instruction* parameter : hlo::parameters_of(module_)) inputs_.push_back(parameter->type);
  aliased_outputs_.resize(inputs_.size());
  for (const hlo::Alias& alias : module_.aliases) aliased_outputs_[static_cast<size_t>(alias.parameter)] = alias.output;
  for (const int output : entry.instructions[static_cast<size_t>(entry.root)].operands) {
    outputs_.push_back(entry.instructions[static_cast<size_t>(output)].type);
  }
  input_storages_ = plan.parameters;
  output_storages_ = plan.of[static_cast<size_t>(entry.root)];
  storages_ = std::move(plan.of);
  is_constant_ = std::move(plan.is_constant);
  reserve(plan.bytes);
  for (size_t i = 0; i < entry.instructions.size(); ++i) LOCKSTEP_TRY_VOID(add_step(i, rank));
  return ok();
}

void Program::reserve(const std::vector<size_t>& bytes) {
  for (const size_t size : bytes) {
    blocks_.push_back(size > 0 ? std::make_unique<std::byte[]>(size) : nullptr);
    memory_.at.push_back(blocks_.back().get());
    workspace_bytes_ += size;
  }
}

Result<void> Program::add_step(size_t index, int rank) {
  const auto& instructions = module_.entry().instructions;
  const hlo::Instruction& instruction = instructions[index];
  Placed placed{.module = module_, .instruction = instruction, .operands = {}, .results = {}, .rank = rank};
  for (const int operand : instruction.operands) {
    const auto o = static_cast<size_t>(operand);
    placed.operands.push_back({instructions[o].type, storages_[o].front()});
  }
  const auto& parts = instruction.type.parts;
  for (size_t i = 0; i < storages_[index].size(); ++i) {
    placed.results.push_back({parts.empty() ? instruction.type : parts[i], storages_[index][i]});
  }
  if (instruction.opcode == Opcode::kConstant) {
    if (instruction.literal.size() != placed.result().bytes()) return malformed(instruction.name + " of another size");
    std::copy(instruction.literal.begin(), instruction.literal.end(), placed.result().out(memory_));
  }
  const auto make = maker_of(instruction.opcode)->make;
  if (make == nullptr) return ok();
  has_collectives_ |= instruction.opcode == Opcode::kAllReduce || instruction.opcode == Opcode::kAllGather;
  LOCKSTEP_TRY(Run run, make(placed));
  if (!is_constant_[index]) {
    steps_.push_back(std::move(run));
  } else if (Outcome fault = run(memory_)) {
    return malformed(fault->message);
  }
  return ok();
}

Outcome Program::run(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, Exchange* exchange,
                     NanCheck nans) {
  for (size_t i = 0; i < inputs.size(); ++i) memory_.at[static_cast<size_t>(input_storages_[i])] = inputs[i];
  memory_.exchange = exchange;
  for (const Run& step : steps_) {
    if (Outcome fault = step(memory_)) return fault;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::byte* values = memory_.at[static_cast<size_t>(output_storages_[i])];
    if (nans == NanCheck::kOutputs) {
      if (Outcome fault = check_for_nans(i, values)) return fault;
    }
    const size_t bytes = static_cast<size_t>(outputs_[i].elements()) * hlo::size_of(outputs_[i].element);
    if (values != outputs[i]) std::copy_n(values, bytes, outputs[i]);
  }
  return {};
}

Outcome Program::check_for_nans(size_t output, const std::byte* values) const {
  const hlo::Type& type = outputs_[output];
  if (!hlo::is_float(type.element)) return {};
  return with_element(type.element, [&](auto s) -> Outcome {
    using S = decltype(s);
    if constexpr (std::is_same_v<typename S::Value, float>) {
      const auto* raw = elements<S>(values);
      for (int64_t i = 0; i < type.elements(); ++i) {
        if (!std::isnan(S::load(raw[i]))) continue;
        return Fault{Fault::Kind::kNotANumber, fmt::format("output {}: element {} is no number", output, i)};
      }
    }
    return {};
  });
}

}  // namespace lockstep::stand_in
