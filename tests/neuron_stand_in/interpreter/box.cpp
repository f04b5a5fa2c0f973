#include "tests/neuron_stand_in/interpreter/box.h"

#include <algorithm>
#include <cstring>

namespace lockstep::stand_in {
namespace {

template <typename T>
void copy_run(int64_t count, int64_t src_stride, int64_t dst_stride, const T* src, T* dst) {
  if (src_stride == 1 && dst_stride == 1) {
    std::copy_n(src, count, dst);
  } else if (src_stride == 0 && dst_stride == 1) {
    std::fill_n(dst, count, *src);
  } else {
    for (int64_t i = 0; i < count; ++i) dst[i * dst_stride] = src[i * src_stride];
  }
}

template <typename T>
void copy_from(const Box& box, size_t dimension, const T* src, T* dst) {
  const int64_t count = box.dims[dimension];
  const int64_t src_stride = box.src_strides[dimension], dst_stride = box.dst_strides[dimension];
  if (dimension + 1 == box.dims.size()) return copy_run(count, src_stride, dst_stride, src, dst);
  for (int64_t i = 0; i < count; ++i) copy_from(box, dimension + 1, src + i * src_stride, dst + i * dst_stride);
}

template <typename T>
void copy_elements(const Box& box, const std::byte* src, std::byte* dst) {
  if (std::find(box.dims.begin(), box.dims.end(), 0) != box.dims.end()) return;
  const auto* from = reinterpret_cast<const T*>(src);
  auto* to = reinterpret_cast<T*>(dst);
  if (box.dims.empty()) {
    *to = *from;
  } else {
    copy_from(box, 0, from, to);
  }
}

}  // namespace

std::vector<int64_t> row_major(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

Box flattened(Box box) {
  Box flat;
  for (size_t i = 0; i < box.dims.size(); ++i) {
    if (box.dims[i] == 1) continue;
    const bool follows = !flat.dims.empty() && flat.src_strides.back() == box.src_strides[i] * box.dims[i] &&
                         flat.dst_strides.back() == box.dst_strides[i] * box.dims[i];
    if (!follows) {
      flat.dims.push_back(box.dims[i]);
      flat.src_strides.push_back(box.src_strides[i]);
      flat.dst_strides.push_back(box.dst_strides[i]);
      continue;
    }
    flat.dims.back() *= box.dims[i];
    flat.src_strides.back() = box.src_strides[i];
    flat.dst_strides.back() = box.dst_strides[i];
  }
  return flat;
}

void copy_box(const Box& box, size_t element_bytes, const std::byte* src, std::byte* dst) {
  switch (element_bytes) {
    case 1: return copy_elements<uint8_t>(box, src, dst);
    case 2: return copy_elements<uint16_t>(box, src, dst);
    default: return copy_elements<uint32_t>(box, src, dst);
  }
}

}  // namespace lockstep::stand_in
