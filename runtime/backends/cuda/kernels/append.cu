// Rows of keys or values into their cache.
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {
namespace {

template <typename Element>
LOCKSTEP_DEVICE void append(const AppendParameters& p) {
  const int64_t row = block_index();
  if (row >= used(p.rows) || p.slot[row] < 0) return;
  const int position = p.position[row];
  int tile = position / kTileTokens;
  if (p.tiles.turning_tiles > 0 && tile >= p.tiles.fixed_tiles) {
    tile = p.tiles.fixed_tiles + (tile - p.tiles.fixed_tiles) % p.tiles.turning_tiles;
  }
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
  Element* cache = static_cast<Element*>(p.cache) + p.slot[row] * p.tiles.slot_stride + tile * p.tiles.tile_stride;
  for (int i = thread_index(); i < p.heads * p.head_dim; i += thread_count()) {
    const int64_t head = i / p.head_dim;
    cache[(head * kTileTokens + position % kTileTokens) * p.head_dim + i % p.head_dim] = x[i];
  }
}

}  // namespace

LOCKSTEP_KERNEL(append_2, AppendParameters, kAppendThreads) { append<uint16_t>(p); }
LOCKSTEP_KERNEL(append_4, AppendParameters, kAppendThreads) { append<uint32_t>(p); }

}  // namespace lockstep::cuda
