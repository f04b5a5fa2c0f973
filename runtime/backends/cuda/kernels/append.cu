// Rows of keys or values into their cache, as they are or in 8 bits.
#include "runtime/backends/cuda/kernels/cache_tiles.h"
#include "runtime/backends/cuda/kernels/codes.h"
#include "runtime/backends/cuda/kernels/magnitudes.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {
namespace {

template <typename Element>
LOCKSTEP_DEVICE void append(const AppendParameters& p) {
  follow_previous();
  const int64_t row = block_index();
  if (row >= used(p.rows) || p.slot[row] < 0) return;
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
  Element* cache = static_cast<Element*>(p.cache);
  for (int i = thread_index(); i < p.heads * p.head_dim; i += thread_count()) {
    const int head = i / p.head_dim;
    cache[row_place(p.tiles, p.slot[row], p.position[row], head, p.head_dim) + i % p.head_dim] = x[i];
  }
}

/// A warp quantises a head's row.
template <typename Rows>
LOCKSTEP_DEVICE void append_codes(const AppendParameters& p) {
  using Element = typename Rows::Element;
  follow_previous();
  const int64_t row = block_index();
  if (row >= used(p.rows) || p.slot[row] < 0) return;
  const int lane = thread_index() % kWarpLanes;
  const bool is_int8 = p.tiles.codes == kInt8Codes;
  const int token = p.position[row] % kTileTokens;
  unsigned char* cache =
      static_cast<unsigned char*>(p.cache) + tile_place(p.tiles, p.slot[row], p.position[row] / kTileTokens);
  for (int head = thread_index() / kWarpLanes; head < p.heads; head += kAppendThreads / kWarpLanes) {
    const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride + static_cast<int64_t>(head) * p.head_dim;
    unsigned char* tile = cache + head * head_elements(p.tiles, p.head_dim);
    const float most = largest_magnitude<Rows>(x, 0, p.head_dim);
    const float most_code = is_int8 ? 127.0f : 448.0f;
    const bool is_zero = !(most >= kLeastMagnitude);  // or a NaN
    const float inverse = is_zero ? 0.0f : divide(most_code, most);
    for (int i = lane; i < p.head_dim; i += kWarpLanes) {
      const float value = is_zero ? 0.0f : times(Rows::read(x[i]), inverse);
      const uint32_t code = is_int8 ? static_cast<uint32_t>(whole_of(value)) : e4m3_of(value);
      tile[token * p.head_dim + i] = static_cast<unsigned char>(code);
    }
    float* scales = reinterpret_cast<float*>(tile + kTileTokens * p.head_dim);
    if (lane == 0) scales[token] = most == most ? (is_zero ? 0.0f : divide(most, most_code)) : not_a_number();
  }
}

}  // namespace

LOCKSTEP_KERNEL(append_2, AppendParameters, kAppendThreads) { append<uint16_t>(p); }
LOCKSTEP_KERNEL(append_4, AppendParameters, kAppendThreads) { append<uint32_t>(p); }
LOCKSTEP_KERNEL(append_codes_f32, AppendParameters, kAppendThreads) { append_codes<F32Rows>(p); }
LOCKSTEP_KERNEL(append_codes_bf16, AppendParameters, kAppendThreads) { append_codes<Bf16Rows>(p); }
LOCKSTEP_KERNEL(append_codes_f16, AppendParameters, kAppendThreads) { append_codes<F16Rows>(p); }

}  // namespace lockstep::cuda
