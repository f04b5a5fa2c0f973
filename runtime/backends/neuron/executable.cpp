#include "runtime/backends/neuron/executable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/device/agreement.h"

namespace lockstep::neuron {
namespace {

constexpr std::string_view kAgreement = "agreement";

Error invalid(std::string message) {
  return {ErrorKind::kInvalidArgument, "[runtime/backends/neuron] " + std::move(message)};
}

/// Compares the module's list with the signature. Returns whether the module has the tensor: a compiler may drop an
/// unused input.
Result<bool> is_listed(const std::vector<nrt::ModelTensor>& listed, nrt::nrt_tensor_usage_t usage,
                       const std::string& name, std::string_view what, int64_t bytes) {
  if (listed.empty()) return true;  // the library gives no list
  const auto found = std::ranges::find_if(listed, [&](const auto& t) { return t.usage == usage && t.name == name; });
  const bool is_input = usage == nrt::NRT_TENSOR_USAGE_INPUT;
  if (found == listed.end() && is_input) return false;
  if (found != listed.end() && found->bytes == bytes) return true;
  return Error{
      ErrorKind::kFailedPrecondition,
      fmt::format("[runtime/backends/neuron] cannot bind {} ({}): found {}, expected {} bytes; the NEFF is not "
                  "of this module: take it out of the compile cache and compile again",
                  name, what, found == listed.end() ? "no such tensor" : fmt::format("{} bytes", found->bytes), bytes)};
}

}  // namespace

Executable::Executable(graph::Graph graph, ModuleSignature signature, nrt::Model model, nrt::TensorSet inputs,
                       nrt::TensorSet outputs, Store& store, const StepOptions& options)
    : graph_(std::move(graph)),
      signature_(std::move(signature)),
      store_(store),
      options_(options),
      model_(std::move(model)),
      input_values_(graph_.values_of(graph::ValueKind::kInput)),
      input_set_(std::move(inputs)),
      output_set_(std::move(outputs)) {}

Result<std::unique_ptr<Executable>> Executable::make(graph::Graph graph, ModuleSignature signature, nrt::Model model,
                                                     Store& store, const StepOptions& options) {
  LOCKSTEP_TRY(nrt::TensorSet inputs, nrt::TensorSet::make(store.runtime()));
  LOCKSTEP_TRY(nrt::TensorSet outputs, nrt::TensorSet::make(store.runtime()));
  std::unique_ptr<Executable> executable(new Executable(std::move(graph), std::move(signature), std::move(model),
                                                        std::move(inputs), std::move(outputs), store, options));
  LOCKSTEP_TRY_VOID(executable->bind());
  return executable;
}

Result<void> Executable::bind() {
  LOCKSTEP_TRY(const std::vector<nrt::ModelTensor> listed, model_.tensors());
  for (size_t i = 0; i < signature_.parameters.size(); ++i) {
    const Parameter& parameter = signature_.parameters[i];
    const std::string name = fmt::format("input{}", i);
    LOCKSTEP_TRY(const bool listed_here,
                 is_listed(listed, nrt::NRT_TENSOR_USAGE_INPUT, name, parameter.name, parameter.type.bytes()));
    LOCKSTEP_TRY(const nrt::Tensor* tensor, tensor_of(i));
    if (listed_here) LOCKSTEP_TRY_VOID(input_set_.add(name, *tensor));
    if (!parameter.output) continue;
    LOCKSTEP_TRY_VOID(output_set_.add(fmt::format("output{}", *parameter.output), *tensor));
    updated_.push_back(store_.find_state(parameter.name).value());
  }
  for (size_t i = 0; i < signature_.outputs.size(); ++i) {
    const ModuleOutput& output = signature_.outputs[i];
    LOCKSTEP_TRY_VOID(
        is_listed(listed, nrt::NRT_TENSOR_USAGE_OUTPUT, fmt::format("output{}", i), output.name, output.type.bytes()));
    if (!output.parameter) LOCKSTEP_TRY_VOID(add_own_output(i));
  }
  return ok();
}

/// The tensor bound to parameter `index`: the store's, or one made here for the step.
Result<const nrt::Tensor*> Executable::tensor_of(size_t index) {
  const Parameter& parameter = signature_.parameters[index];
  if (parameter.role == Role::kWeight || parameter.role == Role::kState) return store_.bound(parameter);
  LOCKSTEP_TRY(nrt::Tensor tensor, nrt::Tensor::allocate(store_.runtime(), parameter.name, parameter.type.bytes()));
  if (parameter.role == Role::kRank) {
    LOCKSTEP_TRY_VOID(tensor.write(0, parameter.contents.at(static_cast<size_t>(graph_.rank))));
    rank_numbers_.push_back(std::make_unique<nrt::Tensor>(std::move(tensor)));
    return rank_numbers_.back().get();
  }
  const auto is_named = [&](graph::ValueId id) { return graph_.value(id).name == parameter.name; };
  const auto found = std::ranges::find_if(input_values_, is_named);
  LOCKSTEP_CHECK(found != input_values_.end(), parameter.name);
  const auto input = static_cast<size_t>(found - input_values_.begin());
  inputs_.push_back(std::make_unique<OwnInput>(OwnInput{input, index, std::move(tensor)}));
  return &inputs_.back()->tensor;
}

Result<void> Executable::add_own_output(size_t index) {
  const ModuleOutput& output = signature_.outputs[index];
  TensorType type = output.type;
  if (index < graph_.outputs.size()) type = graph_.value(graph_.outputs[index].value).type;
  // A module keeps one sum where the graph has a row of partial sums.
  if (type.shape.elements() == output.type.shape.elements()) type = output.type;
  if (type.shape.rank() != output.type.shape.rank()) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[runtime/backends/neuron] cannot put out {}: found {} on the device, expected {}; put out a "
                    "whole sum instead of parts of one",
                    output.name, to_string(output.type), to_string(type))};
  }
  std::vector<int64_t> strides(type.shape.rank(), 1);
  for (size_t axis = strides.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * output.type.shape[axis];
  Parameter layout{.name = output.name, .type = output.type, .placement = {{type.shape}, std::move(strides)}};
  LOCKSTEP_TRY(nrt::Tensor tensor, nrt::Tensor::allocate(store_.runtime(), output.name, output.type.bytes()));
  LOCKSTEP_TRY_VOID(output_set_.add(fmt::format("output{}", index), tensor));
  OwnOutput own{output.name, std::move(layout), std::move(tensor), {}, {}};
  own.device.resize(static_cast<size_t>(output.type.bytes()));
  if (type != output.type) own.host.resize(static_cast<size_t>(type.bytes()));
  outputs_.push_back(std::move(own));
  return ok();
}

Result<void> Executable::check_inputs(std::span<const device::HostTensor> inputs) const {
  if (inputs.size() != input_values_.size()) {
    return invalid(
        fmt::format("cannot run {}: found {} inputs, expected {}", graph_.name, inputs.size(), input_values_.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const graph::Value& wanted = graph_.value(input_values_[i]);
    if (inputs[i].type == wanted.type && std::ssize(inputs[i].bytes) == wanted.type.bytes()) continue;
    return invalid(fmt::format(
        "cannot run {}: input {}: found {} ({} bytes), expected {}; shapes are fixed at compilation", graph_.name,
        wanted.name, to_string(inputs[i].type), inputs[i].bytes.size(), to_string(wanted.type)));
  }
  return ok();
}

Result<void> Executable::write_inputs(std::span<const device::HostTensor> inputs) {
  for (const auto& own : inputs_) {
    const Parameter& parameter = signature_.parameters[own->parameter];
    const device::HostTensor& input = inputs[own->input];
    if (input.type == parameter.type) {
      LOCKSTEP_TRY_VOID(own->tensor.write(0, input.bytes));
      continue;
    }
    LOCKSTEP_TRY(const std::vector<std::byte> placed, to_device(parameter, graph_.rank, input.bytes));
    LOCKSTEP_TRY_VOID(own->tensor.write(0, placed));
  }
  return ok();
}

Result<void> Executable::run(std::span<const device::HostTensor> inputs) {
  LOCKSTEP_TRY_VOID(check_inputs(inputs));
  LOCKSTEP_TRY_VOID(store_.require_weights());
  if (options_.abort != nullptr && options_.abort->is_raised()) return options_.abort->reason().value();
  LOCKSTEP_TRY_VOID(write_inputs(inputs));
  const Result<void> ran = model_.execute(input_set_, output_set_, options_.deadline);
  for (const device::StateId state : updated_) store_.forget_host_copy(state);
  LOCKSTEP_TRY_VOID(ran);
  LOCKSTEP_TRY_VOID(read_outputs());
  return check_agreement();
}

Result<void> Executable::read_outputs() {
  for (OwnOutput& output : outputs_) {
    LOCKSTEP_TRY_VOID(output.tensor.read(0, output.device));
    if (!output.host.empty()) output.host = to_host(output.layout, 0, output.device);
  }
  return ok();
}

/// Checks the module's count, for each rank, of differences from rank 0.
Result<void> Executable::check_agreement() {
  const std::span<const std::byte> bytes = output(kAgreement);
  const bool agrees = std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
  if (agrees) return ok();  // every step except the last one of a failing job
  std::vector<uint64_t> differences(bytes.size() / sizeof(int32_t));
  for (size_t rank = 0; rank < differences.size(); ++rank) {
    int32_t count = 0;
    std::memcpy(&count, bytes.data() + rank * sizeof count, sizeof count);
    differences[rank] = static_cast<uint64_t>(count);
  }
  std::array<int32_t, 2> step{};
  const auto state = store_.find_state("step");
  if (state) LOCKSTEP_TRY_VOID(store_.read_state(*state, 0, std::as_writable_bytes(std::span(step))));
  const std::vector<int> differing = device::find_disagreement(differences);
  Error error{ErrorKind::kFailedPrecondition,
              fmt::format("[runtime/backends/neuron] ranks disagree at schedule {} step {}: found {} facts that differ "
                          "from rank 0's, by rank, expected none; ranks {} stand apart: check that they run the same "
                          "program, options and checkpoint",
                          step[0], step[1], fmt::join(differences, ", "), fmt::join(differing, ", "))};
  if (differing.size() == 1) error.origin_rank = differing.front();
  return error;
}

std::span<const std::byte> Executable::output(std::string_view name) const {
  const auto found = std::ranges::find(outputs_, name, &OwnOutput::name);
  if (found == outputs_.end()) return {};
  return found->bytes();
}

int64_t Executable::workspace_bytes() const {
  int64_t bytes = 0;
  for (const auto& input : inputs_) bytes += input->tensor.bytes();
  for (const auto& numbers : rank_numbers_) bytes += numbers->bytes();
  for (const OwnOutput& output : outputs_) {
    bytes += output.tensor.bytes() + std::ssize(output.device) + std::ssize(output.host);
  }
  return bytes;
}

}  // namespace lockstep::neuron
