// One GPU in use by this process.
#pragma once

#include <memory>

#include "runtime/core/result.h"
#include "runtime/cuda/driver.h"

namespace lockstep::cu {

/// The primary context of a GPU, retained. Memory, streams and modules are made in it, and it outlives them. Ranks that
/// are threads and share a GPU share its primary context.
class Context {
 public:
  /// Retains the context of GPU `ordinal` and makes it current on this thread. The driver outlives it.
  static Result<std::unique_ptr<Context>> create(const Driver& driver, int ordinal);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Functions& functions() const { return driver_.functions(); }
  const DeviceFacts& device() const { return facts_; }

  /// The driver's handle, the same for everybody in this process.
  CUcontext native() const { return context_; }

  /// Makes the context current on the calling thread; needed once per thread.
  Result<void> make_current() const;
  /// The memory that is free on the GPU now, whoever uses the rest.
  Result<Bytes> free_memory() const;

 private:
  Context(const Driver& driver, DeviceFacts facts) : driver_(driver), facts_(std::move(facts)) {}

  const Driver& driver_;
  DeviceFacts facts_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

}  // namespace lockstep::cu
