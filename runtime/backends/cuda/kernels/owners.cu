// Rows from the ranks that hold their slots.
#include "runtime/backends/cuda/kernels/meet.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {
namespace {

template <typename Element>
LOCKSTEP_DEVICE void rows_of_owners(const OwnersParameters& p) {
  const Meeting& m = p.meeting;
  const int rows = used(p.rows);
  for (int64_t row = block_index(); row < rows; row += block_count()) {
    if (p.slot[row] < 0 || p.slot[row] / p.slots != m.rank) continue;
    const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
    Element* area = static_cast<Element*>(p.areas[m.rank]) + row * p.columns;
    for (int i = thread_index(); i < p.columns; i += thread_count()) area[i] = x[i];
  }
  meet_ranks(m);
  for (int64_t row = block_index(); row < rows; row += block_count()) {
    const int owner = p.slot[row] < 0 ? -1 : p.slot[row] / p.slots;
    Element* y = static_cast<Element*>(p.y) + row * p.y_stride;
    for (int i = thread_index(); i < p.kept; i += thread_count()) {
      Element value{0};
      if (owner >= 0 && owner < m.ranks) {
        value = static_cast<const Element*>(p.areas[owner])[row * p.columns + p.first_kept + i];
      }
      y[i] = value;
    }
  }
}

}  // namespace

LOCKSTEP_KERNEL(rows_of_owners_2, OwnersParameters, kMeetThreads) { rows_of_owners<uint16_t>(p); }
LOCKSTEP_KERNEL(rows_of_owners_4, OwnersParameters, kMeetThreads) { rows_of_owners<uint32_t>(p); }

}  // namespace lockstep::cuda
