// The started runtime of one rank, and what lives on its core: tensors, sets of them, models. Everything is released by
// its destructor, and the runtime last.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/backends/neuron/nrt/call_watch.h"
#include "runtime/backends/neuron/nrt/library.h"

namespace lockstep::nrt {

/// The one core of this process: an index among those that it sees.
inline constexpr int kCore = 0;

struct CoreMemory {
  uint64_t used = 0;   // bytes
  uint64_t limit = 0;  // bytes
};

class Runtime {
 public:
  struct Options {
    std::filesystem::path library = kLibraryName;
    Duration start_deadline = std::chrono::minutes(2);
    CallWatch::Options watch;
  };

  /// Loads the library and starts it. One at a time in a process. Fails as `Library::open`, with `kFailedPrecondition`
  /// when the process sees no core, and with the library's status. @blocking
  static Result<std::unique_ptr<Runtime>> start(Options options);

  /// Closes the library's runtime.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Functions& functions() const { return library_->functions(); }
  const Library& library() const { return *library_; }
  CallWatch& watch() { return watch_; }
  /// What AWS calls this machine's devices: NRT_INSTANCE_TRN1 …; empty where the library does not say.
  std::optional<nrt_instance_family> family() const;
  /// Memory of the core; empty where the library does not say.
  std::optional<CoreMemory> memory() const;

 private:
  Runtime(std::unique_ptr<Library> library, CallWatch::Options watch);

  std::unique_ptr<Library> library_;
  CallWatch watch_;
  bool is_started_ = false;
};

/// Memory of the device. The runtime outlives it.
class Tensor {
 public:
  /// Zeros. Fails with the library's status, `kResourceExhausted` where there is no room, naming the tensor.
  static Result<Tensor> allocate(Runtime& runtime, std::string name, int64_t bytes);

  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&&) = delete;
  ~Tensor();

  const std::string& name() const { return name_; }
  int64_t bytes() const { return bytes_; }
  nrt_tensor_t* handle() const { return handle_; }
  /// Where the host sees it; null where it does not.
  const void* address() const { return runtime_->functions().tensor_get_va(handle_); }

  /// `offset` and the sizes are in bytes and inside the tensor. @blocking
  Result<void> write(int64_t offset, std::span<const std::byte> bytes);
  Result<void> read(int64_t offset, std::span<std::byte> bytes) const;

 private:
  Tensor(Runtime& runtime, std::string name, int64_t bytes, nrt_tensor_t* handle);

  Runtime* runtime_;
  std::string name_;
  int64_t bytes_;
  nrt_tensor_t* handle_;
};

/// Tensors by the names that a model gives them. The tensors outlive it.
class TensorSet {
 public:
  static Result<TensorSet> make(Runtime& runtime);

  TensorSet(TensorSet&& other) noexcept;
  TensorSet& operator=(TensorSet&&) = delete;
  ~TensorSet();

  Result<void> add(const std::string& name, const Tensor& tensor);
  nrt_tensor_set_t* handle() const { return handle_; }

 private:
  TensorSet(Runtime& runtime, nrt_tensor_set_t* handle) : runtime_(&runtime), handle_(handle) {}

  Runtime* runtime_;
  nrt_tensor_set_t* handle_;
};

/// What a model says of one of its tensors.
struct ModelTensor {
  std::string name;
  nrt_tensor_usage_t usage = NRT_TENSOR_USAGE_INPUT;
  int64_t bytes = 0;
};

/// Which of the ranks that take part in a module's collectives this one is.
struct Member {
  int rank = 0;
  int ranks = 1;
};

/// A module on the core.
class Model {
 public:
  /// Loads `neff`; several ranks load together and wait for each other, which `limit` ends. `name` is for messages.
  /// @collective @blocking
  static Result<Model> load(Runtime& runtime, std::string name, std::span<const std::byte> neff, Member member,
                            Duration limit);

  Model(Model&& other) noexcept;
  Model& operator=(Model&&) = delete;
  ~Model();

  /// Its tensors; empty where the library does not say.
  Result<std::vector<ModelTensor>> tensors() const;

  /// Runs it once. @collective @blocking
  Result<void> execute(const TensorSet& inputs, const TensorSet& outputs, Duration limit);

 private:
  Model(Runtime& runtime, const std::string& name, nrt_model_t* handle);

  Runtime* runtime_;
  std::string operation_;  // "run decode"
  nrt_model_t* handle_;
};

}  // namespace lockstep::nrt
