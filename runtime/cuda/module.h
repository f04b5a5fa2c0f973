// Kernels: images of compiled device code, and launches.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/cuda/stream.h"

namespace lockstep::cu {

/// A kernel as its compiler made it. Valid as long as its module.
struct Kernel {
  CUfunction function = nullptr;
  std::string name;
  int registers = 0;          // of a thread
  int64_t local_bytes = 0;    // of a thread; above 0: the compiler spilled registers
  int64_t static_shared = 0;  // bytes of a block
  int most_threads = 0;       // of a block
};

/// The shape of one launch.
struct LaunchShape {
  int blocks = 1;
  int threads = 1;                // of a block
  int64_t shared_bytes = 0;       // dynamic, of a block
  bool waits_for_blocks = false;  // blocks wait for others, or for other ranks: all of them have to be resident
  bool starts_early = false;      // may start before the kernel ahead of it has ended (programmatic launch)

  friend bool operator==(const LaunchShape&, const LaunchShape&) = default;
};

/// A loaded image.
class Module {
 public:
  /// Loads a device image (a cubin). The context outlives it. @blocking
  static Result<std::unique_ptr<Module>> load(const Context& context, std::span<const std::byte> image);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Finds a kernel, loads its code, so that a capture can hold it, and lets it use `shared_bytes` of dynamic shared
  /// memory. Its single parameter is a struct of `parameter_bytes`; another size is `kInternal`.
  Result<Kernel> find(const std::string& name, size_t parameter_bytes, int64_t shared_bytes) const;
  /// Blocks of this shape that an SM can hold at a time.
  Result<int> blocks_per_multiprocessor(const Kernel& kernel, const LaunchShape& shape) const;

 private:
  explicit Module(const Context& context) : context_(context) {}

  const Context& context_;
  CUmodule module_ = nullptr;
};

/// Enqueues a launch. `parameters` is the kernel's struct, which is copied.
Result<void> launch(Stream& stream, const Kernel& kernel, const LaunchShape& shape, const void* parameters);

}  // namespace lockstep::cu
