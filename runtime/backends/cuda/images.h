// The device images of this build.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace lockstep::cuda {

/// The compiled kernels of one source, for compute capability 9.0.
struct Image {
  std::string_view name;  // "product"
  std::span<const std::byte> bytes;
};

/// Every image; none in a build without nvcc.
std::span<const Image> images();

}  // namespace lockstep::cuda
