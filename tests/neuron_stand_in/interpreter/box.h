// Copies boxes of elements between arrays of any strides. Broadcasts, transposes, slices, pads, concatenations, gathers
// and scatters use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::stand_in {

/// Element (i, j, …) lies at i · stride[0] + j · stride[1] + … of an array; a stride of 0 repeats it.
struct Box {
  std::vector<int64_t> dims, src_strides, dst_strides;
};

/// The strides of a row-major array.
std::vector<int64_t> row_major(const std::vector<int64_t>& dims);

/// The same box in as few dimensions as possible, so that its inner runs are long.
Box flattened(Box box);

/// Copies `box` (flattened or not) of elements of 1, 2 or 4 bytes. The arrays do not overlap.
void copy_box(const Box& box, size_t element_bytes, const std::byte* src, std::byte* dst);

}  // namespace lockstep::stand_in
