#include "runtime/backends/cuda/images.h"

namespace lockstep::cuda {

std::span<const Image> images() { return {}; }

}  // namespace lockstep::cuda
