// The columns of all ranks side by side.
#include "runtime/backends/cuda/kernels/meet.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {
namespace {

template <typename Element>
LOCKSTEP_DEVICE void gather(const GatherParameters& p) {
  const Meeting& m = p.meeting;
  const int rows = used(p.rows);
  const int own = p.bounds[m.rank + 1] - p.bounds[m.rank];
  for (int64_t row = block_index(); row < rows; row += block_count()) {
    const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
    Element* area = static_cast<Element*>(p.areas[m.rank]) + row * own;
    for (int i = thread_index(); i < own; i += thread_count()) area[i] = x[i];
  }
  meet_ranks(m);
  for (int64_t row = block_index(); row < rows; row += block_count()) {
    Element* y = static_cast<Element*>(p.y) + row * p.y_stride;
    for (int rank = 0; rank < m.ranks; ++rank) {
      const int begin = p.bounds[rank];
      const int columns = p.bounds[rank + 1] - begin;
      const Element* area = static_cast<const Element*>(p.areas[rank]) + row * columns;
      for (int i = thread_index(); i < columns; i += thread_count()) y[begin + i] = area[i];
    }
  }
}

}  // namespace

LOCKSTEP_KERNEL(gather_2, GatherParameters, kMeetThreads) { gather<uint16_t>(p); }
LOCKSTEP_KERNEL(gather_4, GatherParameters, kMeetThreads) { gather<uint32_t>(p); }

}  // namespace lockstep::cuda
