// The kernels of this build, by name, and as a GPU has loaded them.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/module.h"

namespace lockstep::cuda {

/// What a launch of a kernel needs to know.
struct KernelRow {
  std::string name;
  std::string_view image;  // of images.h
  size_t parameter_bytes = 0;
  int threads = 0;           // of a block
  int64_t shared_bytes = 0;  // dynamic, of a block; what a launch may ask for at most
  bool follows = false;      // calls follow_previous, so its launches may start early
};

/// Every kernel.
std::span<const KernelRow> kernel_rows();
/// The row of a kernel that exists.
const KernelRow& kernel_row(std::string_view name);

/// All kernels, loaded.
class KernelSet {
 public:
  /// Fails with `kUnavailable` in a build without images, and where the GPU cannot run them. @blocking
  static Result<std::unique_ptr<KernelSet>> load(const cu::Context& context);

  const cu::Kernel& kernel(std::string_view name) const;

 private:
  std::vector<std::unique_ptr<cu::Module>> modules_;
  std::map<std::string, cu::Kernel, std::less<>> kernels_;
};

}  // namespace lockstep::cuda
