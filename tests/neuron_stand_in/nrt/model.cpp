#include "tests/neuron_stand_in/nrt/model.h"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "runtime/backends/neuron/hlo/wire.h"
#include "runtime/core/hash.h"
#include "tests/neuron_stand_in/neff.h"
#include "tests/neuron_stand_in/nrt/report.h"

namespace lockstep::stand_in {
namespace {

size_t bytes_of(const hlo::Type& type) { return static_cast<size_t>(type.elements()) * hlo::size_of(type.element); }

/// Ranks that replica groups name lie in the group that the model is loaded for.
bool groups_fit(const hlo::Module& module, uint32_t ranks) {
  for (const hlo::Instruction& instruction : module.entry().instructions) {
    for (const auto& group : instruction.groups) {
      for (const int64_t rank : group) {
        if (rank < 0 || rank >= static_cast<int64_t>(ranks)) return false;
      }
    }
  }
  return true;
}

/// Finds tensor `name` of `type` in a set.
nrt::NRT_STATUS find_tensor(const TensorSet& set, const std::string& name, const hlo::Type& type,
                            nrt::nrt_tensor_t*& tensor) {
  const auto found = set.find(name);
  if (found == set.end()) return refuse(nrt::NRT_INVALID, fmt::format("tensor {} is not in the set", name));
  tensor = found->second;
  if (tensor->size == bytes_of(type)) return nrt::NRT_SUCCESS;
  return refuse(nrt::NRT_INVALID, fmt::format("tensor {} has {} bytes, the model takes {} ({})", name, tensor->size,
                                              bytes_of(type), to_string(type)));
}

/// The tensors of all `types` in a set that holds nothing else.
nrt::NRT_STATUS bind(const char* prefix, const std::vector<hlo::Type>& types, const TensorSet& set,
                     std::vector<nrt::nrt_tensor_t*>& tensors) {
  if (set.size() != types.size()) {
    return refuse(nrt::NRT_INVALID,
                  fmt::format("{} tensors are bound as {}s, the model has {}", set.size(), prefix, types.size()));
  }
  tensors.resize(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const auto status = find_tensor(set, fmt::format("{}{}", prefix, i), types[i], tensors[i]);
    if (status != nrt::NRT_SUCCESS) return status;
  }
  return nrt::NRT_SUCCESS;
}

nrt::NRT_STATUS status_of(const Fault& fault, const Meeting* meeting) {
  switch (fault.kind) {
    case Fault::Kind::kOutOfRange: return nrt::NRT_EXEC_OOB;
    case Fault::Kind::kNotANumber: return nrt::NRT_EXEC_COMPLETED_WITH_NUM_ERR;
    case Fault::Kind::kPeerMissing: break;
  }
  return meeting != nullptr && meeting->has_timed_out() ? nrt::NRT_TIMEOUT : nrt::NRT_EXEC_HW_ERR_COLLECTIVES;
}

nrt::nrt_dtype_t dtype_of(hlo::Element element) {
  switch (element) {
    case hlo::Element::kF32: return nrt::NRT_DTYPE_FLOAT32;
    case hlo::Element::kBF16: return nrt::NRT_DTYPE_BFLOAT16;
    case hlo::Element::kF16: return nrt::NRT_DTYPE_FLOAT16;
    case hlo::Element::kS32: return nrt::NRT_DTYPE_INT32;
    case hlo::Element::kU32: return nrt::NRT_DTYPE_UINT32;
    case hlo::Element::kS8: return nrt::NRT_DTYPE_INT8;
    default: return nrt::NRT_DTYPE_UINT8;
  }
}

void describe(const char* prefix, nrt::nrt_tensor_usage_t usage, const std::vector<hlo::Type>& types,
              nrt::nrt_tensor_info_t* info) {
  for (size_t i = 0; i < types.size(); ++i, ++info) {
    *info = {};
    const std::string name = fmt::format("{}{}", prefix, i);
    std::memcpy(info->name, name.c_str(), name.size() + 1);
    info->usage = usage;
    info->size = bytes_of(types[i]);
    info->dtype = dtype_of(types[i].element);
    info->ndim = static_cast<uint32_t>(types[i].dims.size());
    info->shape = new uint32_t[types[i].dims.size()];
    for (size_t d = 0; d < types[i].dims.size(); ++d) info->shape[d] = static_cast<uint32_t>(types[i].dims[d]);
  }
}

}  // namespace

nrt::NRT_STATUS load_model(const LoadRequest& request, const Settings& settings,
                           std::unique_ptr<nrt::nrt_model_t>& model) {
  Result<Neff> neff = read_neff(request.neff);
  if (!neff) {
    const bool is_unsupported = neff.error().kind == ErrorKind::kUnsupported;
    return refuse(is_unsupported ? nrt::NRT_UNSUPPORTED_NEFF_VERSION : nrt::NRT_INVALID, neff.error().message);
  }
  const uint32_t logical_cores = neff.value().logical_cores;
  if (settings.logical_cores != 0 && settings.logical_cores != logical_cores) {
    return refuse(nrt::NRT_INVALID, fmt::format("the NEFF joins {} cores into one, NEURON_LOGICAL_NC_CONFIG says {}",
                                                logical_cores, settings.logical_cores));
  }
  Result<hlo::Module> module = neuron::hlo::from_bytes(neff.value().module);
  if (!module) return refuse(nrt::NRT_INVALID, module.error().message);
  if (!groups_fit(module.value(), request.ranks)) {
    return refuse(nrt::NRT_INVALID, fmt::format("a replica group names a rank above {}", request.ranks - 1));
  }
  Result<std::unique_ptr<Program>> program =
      Program::compile(std::move(module).value(), static_cast<int>(request.rank));
  if (!program) return refuse(nrt::NRT_INVALID, program.error().message);
  if (program.value()->has_collectives() && !request.with_collectives) {
    return refuse(nrt::NRT_INVALID, "a model with collectives is loaded by nrt_load_collectives");
  }
  model =
      std::make_unique<nrt::nrt_model_t>(nrt::nrt_model_t{neff.value().name, request.vnc, std::move(program).value()});
  return nrt::NRT_SUCCESS;
}

nrt::NRT_STATUS agree_on_module(const LoadRequest& request, Meeting& meeting) {
  const uint64_t own = Fingerprint().add_bytes(request.neff).value();
  std::vector<uint64_t> all(request.ranks);
  std::vector<int64_t> group;
  for (uint32_t rank = 0; rank < request.ranks; ++rank) group.push_back(rank);
  const Outcome fault =
      meeting.all_gather(group, std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  if (fault) return refuse(meeting.has_timed_out() ? nrt::NRT_TIMEOUT : nrt::NRT_FAILURE, "load: " + fault->message);
  for (uint32_t rank = 0; rank < request.ranks; ++rank) {
    if (all[rank] == own) continue;
    return refuse(nrt::NRT_FAILURE, fmt::format("rank {} loads another module than rank {}", rank, request.rank));
  }
  return nrt::NRT_SUCCESS;
}

nrt::NRT_STATUS execute_model(nrt::nrt_model_t& model, const TensorSet& inputs, const TensorSet& outputs,
                              Meeting* meeting) {
  Program& program = *model.program;
  std::vector<nrt::nrt_tensor_t*> in, out;
  if (const auto status = bind("input", program.inputs(), inputs, in); status != nrt::NRT_SUCCESS) return status;
  if (const auto status = bind("output", program.outputs(), outputs, out); status != nrt::NRT_SUCCESS) return status;
  for (size_t i = 0; i < in.size(); ++i) {
    const std::optional<int> output = program.aliased_outputs()[i];
    if (!output || in[i] == out[static_cast<size_t>(*output)]) continue;
    return refuse(nrt::NRT_INVALID, fmt::format("output{} must be the tensor of input{}", *output, i));
  }
  std::vector<std::byte*> from, to;
  for (const nrt::nrt_tensor_t* tensor : in) from.push_back(tensor->bytes.get());
  for (const nrt::nrt_tensor_t* tensor : out) to.push_back(tensor->bytes.get());
  const Outcome fault = program.run(from, to, meeting);
  return fault ? refuse(status_of(*fault, meeting), model.name + ": " + fault->message) : nrt::NRT_SUCCESS;
}

nrt::nrt_tensor_info_array_t* describe_tensors(const nrt::nrt_model_t& model) {
  const std::vector<hlo::Type>&inputs = model.program->inputs(), &outputs = model.program->outputs();
  const size_t count = inputs.size() + outputs.size();
  void* bytes = ::operator new(sizeof(nrt::nrt_tensor_info_array_t) + count * sizeof(nrt::nrt_tensor_info_t));
  auto* array = new (bytes) nrt::nrt_tensor_info_array_t{count};
  describe("input", nrt::NRT_TENSOR_USAGE_INPUT, inputs, array->tensors());
  describe("output", nrt::NRT_TENSOR_USAGE_OUTPUT, outputs, array->tensors() + inputs.size());
  return array;
}

void free_description(nrt::nrt_tensor_info_array_t* description) {
  for (uint64_t i = 0; i < description->tensor_count; ++i) delete[] description->tensors()[i].shape;
  ::operator delete(description);
}

}  // namespace lockstep::stand_in
