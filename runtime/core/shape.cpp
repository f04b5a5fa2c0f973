#include "runtime/core/shape.h"

#include <fmt/ranges.h>

namespace lockstep {

int64_t Shape::elements() const {
  int64_t product = 1;
  for (int64_t dim : dims_) product *= dim;
  return product;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.dims(), ",")); }

std::string to_string(const TensorType& type) {
  return fmt::format("{}{}", to_string(type.dtype), to_string(type.shape));
}

}  // namespace lockstep
