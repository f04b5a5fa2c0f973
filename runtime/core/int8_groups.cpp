#include "runtime/core/int8_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep {

int64_t int8_bytes(int64_t rows, const ColumnGroups& groups) {
  return rows * (groups.columns + groups.count() * static_cast<int64_t>(sizeof(float)));
}

float to_int8(const float* values, int64_t count, int8_t* integers) {
  float most = 0.0f;
  bool is_finite = true;
  for (int64_t i = 0; i < count; ++i) {
    is_finite = is_finite && std::isfinite(values[i]);
    most = std::max(most, std::abs(values[i]));
  }
  if (!is_finite || most < 0x1p-100f) {
    std::fill_n(integers, count, int8_t{0});
    return is_finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const float inverse = 127.0f / most;
  for (int64_t i = 0; i < count; ++i) integers[i] = static_cast<int8_t>(std::nearbyint(values[i] * inverse));
  return most / 127.0f;
}

}  // namespace lockstep
