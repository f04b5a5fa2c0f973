// Small tensors whose values encode their positions in the file.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/stored_tensor.h"

namespace lockstep::checkpoint {

/// f32 values first, first + 1, … in the order of the file.
inline model::StoredTensor counting(std::string name, const Shape& shape, float first = 0) {
  std::vector<std::byte> bytes(static_cast<size_t>(shape.elements()) * sizeof(float));
  for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
    const float value = first + static_cast<float>(i);
    std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
  }
  return {std::move(name), {DType::kFloat32, shape}, std::move(bytes)};
}

}  // namespace lockstep::checkpoint
