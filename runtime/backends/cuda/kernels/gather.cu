// Columns of all ranks side by side.
#include "runtime/backends/cuda/kernels/meet.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {
namespace {

template <typename Element>
LOCKSTEP_DEVICE void gather(const GatherParameters& p) {
  const Meeting& m = p.meeting;
  const int rows = used(p.rows);
  for (int64_t row = block_index(); p.x != nullptr && row < rows; row += block_count()) {
    const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
    Element* area = static_cast<Element*>(p.areas[m.rank]) + row * p.own;
    for (int i = thread_index(); i < p.own; i += thread_count()) area[i] = x[i];
  }
  meet_ranks(m);
  for (int64_t row = block_index(); row < rows; row += block_count()) {
    for (int n = 0; n < p.count; ++n) {
      const GatherPiece& piece = p.pieces[n];
      const Element* from = static_cast<const Element*>(p.areas[piece.rank]) + piece.from + row * piece.from_stride;
      Element* to = static_cast<Element*>(p.y) + piece.to + row * piece.to_stride;
      for (int i = thread_index(); i < piece.columns; i += thread_count()) to[i] = from[i];
    }
  }
}

}  // namespace

LOCKSTEP_KERNEL(gather_2, GatherParameters, kMeetThreads) { gather<uint16_t>(p); }
LOCKSTEP_KERNEL(gather_4, GatherParameters, kMeetThreads) { gather<uint32_t>(p); }

}  // namespace lockstep::cuda
