// Rows of keys or values into their cache.
#include "runtime/backends/cuda/kernels/cache_tiles.h"
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

}  // namespace

LOCKSTEP_KERNEL(append_2, AppendParameters, kAppendThreads) { append<uint16_t>(p); }
LOCKSTEP_KERNEL(append_4, AppendParameters, kAppendThreads) { append<uint32_t>(p); }

}  // namespace lockstep::cuda
