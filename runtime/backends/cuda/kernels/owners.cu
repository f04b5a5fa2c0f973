// Rows from the ranks that hold their slots.
#include "runtime/backends/cuda/kernels/meet.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {
namespace {

template <typename Element>
LOCKSTEP_DEVICE void rows_of_owners(const OwnersParameters& p) {
  const int rows = used(p.rows);
  for (int64_t row = block_index(); row < rows; row += block_count()) {
    if (p.slot[row] < 0 || p.slot[row] / p.slots != p.own) continue;
    const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
    Element* area = static_cast<Element*>(p.areas[p.own]) + row * p.columns;
    for (int i = thread_index(); i < p.columns; i += thread_count()) area[i] = x[i];
  }
  meet_ranks(p.meeting);
  for (int64_t row = block_index(); row < rows; row += block_count()) {
    const int owner = p.slot[row] < 0 ? -1 : p.slot[row] / p.slots;
    const Element* area = owner < 0 || owner >= kMostRanks ? nullptr : static_cast<const Element*>(p.areas[owner]);
    Element* y = static_cast<Element*>(p.y) + row * p.y_stride;
    for (int i = thread_index(); i < p.kept; i += thread_count()) {
      y[i] = area == nullptr ? Element{0} : area[row * p.columns + p.first_kept + i];
    }
  }
}

}  // namespace

LOCKSTEP_KERNEL(rows_of_owners_2, OwnersParameters, kMeetThreads) { rows_of_owners<uint16_t>(p); }
LOCKSTEP_KERNEL(rows_of_owners_4, OwnersParameters, kMeetThreads) { rows_of_owners<uint32_t>(p); }

}  // namespace lockstep::cuda
