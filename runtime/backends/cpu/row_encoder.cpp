#include "runtime/backends/cpu/row_encoder.h"

#include <cstring>
#include <limits>

#include "runtime/core/cache_rows.h"

namespace lockstep::cpu {

void RowEncoder::encode(DType dtype, ConstRow values, int64_t count, std::byte* row) const {
  alignas(64) float floats[kMostCodedRow];
  kernels_->convert(values, {reinterpret_cast<std::byte*>(floats), DType::kFloat32}, count);
  if (dtype != DType::kInt8) return encode_cache_row(dtype, floats, count, row);
  alignas(64) int8_t integers[kMostCodedRow];
  float scale = integers_->quantise(floats, count, integers).scale;
  if (scale != scale) scale = std::numeric_limits<float>::quiet_NaN();  // the kernel's may have a sign
  std::memcpy(row, integers, static_cast<size_t>(count));
  std::memcpy(row + count, &scale, sizeof scale);
}

}  // namespace lockstep::cpu
