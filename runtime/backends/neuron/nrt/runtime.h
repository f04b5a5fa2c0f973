// The started runtime of one rank, with tensors, tensor sets and models on its core. Destructors release everything,
// the runtime last.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/backends/neuron/nrt/call_watch.h"
#include "runtime/backends/neuron/nrt/library.h"

namespace lockstep::nrt {

/// The only core of this process: its index among the visible ones.
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

  /// Loads the library and starts it. One at a time in a process. Fails as `Library::open` does, with
  /// `kFailedPrecondition` when the process sees no core, and with the library's status. @blocking
  static Result<std::unique_ptr<Runtime>> start(Options options);

  /// Closes the library's runtime.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Functions& functions() const { return library_->functions(); }
  const Library& library() const { return *library_; }
  CallWatch& watch() { return watch_; }
  /// The instance family of this machine: NRT_INSTANCE_TRN1 …; empty if the library does not report it.
  std::optional<nrt_instance_family> family() const;
  /// Memory of the core; empty if the library does not report it.
  std::optional<CoreMemory> memory() const;

 private:
  Runtime(std::unique_ptr<Library> library, CallWatch::Options watch);

  std::unique_ptr<Library> library_;
  CallWatch watch_;
  bool is_started_ = false;
};

/// Device memory. The runtime outlives it.
class Tensor {
 public:
  /// Allocates zeros. Fails with the library's status, naming the tensor: `kResourceExhausted` when memory is full.
  static Result<Tensor> allocate(Runtime& runtime, std::string name, int64_t bytes);

  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&&) = delete;
  ~Tensor();

  const std::string& name() const { return name_; }
  int64_t bytes() const { return bytes_; }
  nrt_tensor_t* handle() const { return handle_; }
  /// The host address of the tensor; null if it has none.
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

/// Tensors by the names in a model. The tensors outlive it.
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

/// A model's description of one of its tensors.
struct ModelTensor {
  std::string name;
  nrt_tensor_usage_t usage = NRT_TENSOR_USAGE_INPUT;
  int64_t bytes = 0;
};

/// This rank among the ranks of a module's collectives.
struct Member {
  int rank = 0;
  int ranks = 1;
};

/// A loaded module on the core.
class Model {
 public:
  /// Loads `neff`; several ranks load together and wait for each other, at most `limit`. `name` is for messages.
  /// @collective @blocking
  static Result<Model> load(Runtime& runtime, std::string name, std::span<const std::byte> neff, Member member,
                            Duration limit);

  Model(Model&& other) noexcept;
  Model& operator=(Model&&) = delete;
  ~Model();

  /// Its tensors; empty if the library does not report them.
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
