#include "runtime/backends/neuron/nrt/runtime.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "runtime/backends/neuron/nrt/status.h"
#include "runtime/core/check.h"
#include "runtime/core/ids.h"

namespace lockstep::nrt {

Runtime::Runtime(std::unique_ptr<Library> library, CallWatch::Options watch)
    : library_(std::move(library)), watch_(std::move(watch)) {}

Result<std::unique_ptr<Runtime>> Runtime::start(Options options) {
  LOCKSTEP_TRY(auto library, Library::open(options.library));
  std::unique_ptr<Runtime> runtime(new Runtime(std::move(library), std::move(options.watch)));
  const std::string operation = "start the Neuron runtime";
  {
    const auto guard = runtime->watch().watch(operation, options.start_deadline);
    LOCKSTEP_TRY_VOID(check(runtime->functions().init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), operation));
    runtime->is_started_ = true;
  }
  uint32_t cores = 0;
  LOCKSTEP_TRY_VOID(check(runtime->functions().get_visible_vnc_count(&cores), "count the cores of this process"));
  if (cores > 0) return runtime;
  return Error{ErrorKind::kFailedPrecondition,
               "[runtime/backends/neuron] cannot start the Neuron runtime: found no core that this process sees, "
               "expected one for the rank; see with neuron-ls which are there, and name them with --neuron-cores"};
}

Runtime::~Runtime() {
  if (is_started_) functions().close();
}

std::optional<nrt_instance_family> Runtime::family() const {
  nrt_instance_info_t info{};
  if (functions().get_instance_info == nullptr) return std::nullopt;
  if (functions().get_instance_info(&info, sizeof info) != NRT_SUCCESS) return std::nullopt;
  return static_cast<nrt_instance_family>(info.family);
}

std::optional<CoreMemory> Runtime::memory() const {
  nrt_vnc_memory_stats_t stats{};
  size_t written = 0;
  if (functions().get_vnc_memory_stats == nullptr) return std::nullopt;
  if (functions().get_vnc_memory_stats(kCore, &stats, sizeof stats, &written) != NRT_SUCCESS) return std::nullopt;
  if (written < sizeof stats || stats.bytes_limit == 0) return std::nullopt;
  return CoreMemory{stats.bytes_used, stats.bytes_limit};
}

Tensor::Tensor(Runtime& runtime, std::string name, int64_t bytes, nrt_tensor_t* handle)
    : runtime_(&runtime), name_(std::move(name)), bytes_(bytes), handle_(handle) {}

Tensor::Tensor(Tensor&& other) noexcept
    : runtime_(other.runtime_),
      name_(std::move(other.name_)),
      bytes_(other.bytes_),
      handle_(std::exchange(other.handle_, nullptr)) {}

Tensor::~Tensor() {
  if (handle_ != nullptr) runtime_->functions().tensor_free(&handle_);
}

Result<Tensor> Tensor::allocate(Runtime& runtime, std::string name, int64_t bytes) {
  nrt_tensor_t* handle = nullptr;
  const auto size = static_cast<size_t>(bytes);
  const Functions& functions = runtime.functions();
  const std::string operation = fmt::format("allocate {} for {}", to_string(Bytes(bytes)), name);
  LOCKSTEP_TRY_VOID(
      check(functions.tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, kCore, size, name.c_str(), &handle), operation));
  Tensor tensor(runtime, std::move(name), bytes, handle);
  LOCKSTEP_TRY_VOID(check(functions.tensor_memset(handle, 0, 0, size), operation));
  return tensor;
}

Result<void> Tensor::write(int64_t offset, std::span<const std::byte> bytes) {
  LOCKSTEP_CHECK(offset >= 0 && offset + std::ssize(bytes) <= bytes_, name_, offset, bytes.size(), bytes_);
  if (bytes.empty()) return ok();
  const NRT_STATUS status =
      runtime_->functions().tensor_write(handle_, bytes.data(), static_cast<size_t>(offset), bytes.size());
  if (status == NRT_SUCCESS) return ok();  // no text is made on the hot path
  return error_of(status, "write " + name_);
}

Result<void> Tensor::read(int64_t offset, std::span<std::byte> bytes) const {
  LOCKSTEP_CHECK(offset >= 0 && offset + std::ssize(bytes) <= bytes_, name_, offset, bytes.size(), bytes_);
  if (bytes.empty()) return ok();
  const NRT_STATUS status =
      runtime_->functions().tensor_read(handle_, bytes.data(), static_cast<size_t>(offset), bytes.size());
  if (status == NRT_SUCCESS) return ok();
  return error_of(status, "read " + name_);
}

Result<TensorSet> TensorSet::make(Runtime& runtime) {
  nrt_tensor_set_t* handle = nullptr;
  LOCKSTEP_TRY_VOID(check(runtime.functions().allocate_tensor_set(&handle), "make a set of tensors"));
  return TensorSet(runtime, handle);
}

TensorSet::TensorSet(TensorSet&& other) noexcept
    : runtime_(other.runtime_), handle_(std::exchange(other.handle_, nullptr)) {}

TensorSet::~TensorSet() {
  if (handle_ != nullptr) runtime_->functions().destroy_tensor_set(&handle_);
}

Result<void> TensorSet::add(const std::string& name, const Tensor& tensor) {
  return check(runtime_->functions().add_tensor_to_tensor_set(handle_, name.c_str(), tensor.handle()),
               fmt::format("bind {} as {}", tensor.name(), name));
}

Model::Model(Runtime& runtime, const std::string& name, nrt_model_t* handle)
    : runtime_(&runtime), operation_("run " + name), handle_(handle) {}

Model::Model(Model&& other) noexcept
    : runtime_(other.runtime_),
      operation_(std::move(other.operation_)),
      handle_(std::exchange(other.handle_, nullptr)) {}

Model::~Model() {
  if (handle_ != nullptr) runtime_->functions().unload(handle_);
}

Result<Model> Model::load(Runtime& runtime, std::string name, std::span<const std::byte> neff, Member member,
                          Duration limit) {
  constexpr int32_t kAnyCount = -1;  // required by the header: the NEFF contains the count
  nrt_model_t* handle = nullptr;
  const Functions& functions = runtime.functions();
  const std::string operation =
      member.ranks == 1 ? "load " + name : fmt::format("load {} together with {} ranks", name, member.ranks);
  const auto guard = runtime.watch().watch(operation, limit);
  const NRT_STATUS status =
      member.ranks == 1
          ? functions.load(neff.data(), neff.size(), kCore, kAnyCount, &handle)
          : functions.load_collectives(neff.data(), neff.size(), kCore, kAnyCount, static_cast<uint32_t>(member.rank),
                                       static_cast<uint32_t>(member.ranks), &handle);
  LOCKSTEP_TRY_VOID(check(status, operation));
  return Model(runtime, name, handle);
}

Result<std::vector<ModelTensor>> Model::tensors() const {
  const Functions& functions = runtime_->functions();
  std::vector<ModelTensor> tensors;
  if (functions.get_model_tensor_info == nullptr || functions.free_model_tensor_info == nullptr) return tensors;
  nrt_tensor_info_array_t* array = nullptr;
  LOCKSTEP_TRY_VOID(check(functions.get_model_tensor_info(handle_, &array), "list the tensors of a loaded module"));
  for (uint64_t i = 0; i < array->tensor_count; ++i) {
    const nrt_tensor_info_t& info = array->tensors()[i];
    tensors.push_back(
        {std::string(info.name, strnlen(info.name, sizeof info.name)), info.usage, static_cast<int64_t>(info.size)});
  }
  LOCKSTEP_TRY_VOID(check(functions.free_model_tensor_info(array), "list the tensors of a loaded module"));
  return tensors;
}

Result<void> Model::execute(const TensorSet& inputs, const TensorSet& outputs, Duration limit) {
  const auto guard = runtime_->watch().watch(operation_, limit);
  const NRT_STATUS status = runtime_->functions().execute(handle_, inputs.handle(), outputs.handle());
  if (status == NRT_SUCCESS) return ok();  // no text is made on the hot path
  return error_of(status, operation_);
}

}  // namespace lockstep::nrt
