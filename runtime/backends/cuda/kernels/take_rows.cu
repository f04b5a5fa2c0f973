// Rows or columns of one tensor, and heads of two, as those of another.
#include "runtime/backends/cuda/kernels/functions.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {
namespace {

template <typename Element>
LOCKSTEP_DEVICE void take_rows(const TakeRowsParameters& p) {
  follow_previous();
  const int row = block_index();
  if (row >= used(p.rows)) return;
  int64_t from = row;
  if (p.index != nullptr) from = static_cast<int64_t>(p.index[row]) + p.offset;
  if (from < 0 || from >= p.from_rows) from = p.otherwise;
  const bool is_inside = from >= 0 && (p.mask == nullptr || p.mask[row] >= 0);
  const Element* x = static_cast<const Element*>(p.from) + from * p.from_stride;
  Element* y = static_cast<Element*>(p.y) + row * p.y_stride;
  for (int i = thread_index(); i < p.columns; i += thread_count()) y[i] = is_inside ? x[i] : Element{0};
}

template <typename Element>
LOCKSTEP_DEVICE void take_columns(const TakeColumnsParameters& p) {
  follow_previous();
  const Place at = element_of_thread(p.columns);
  if (at.row >= used(p.rows)) return;
  const float number = p.order[at.column];
  const float last = float_of_whole(p.width - 1);
  const int32_t column = whole_of(number > 0.0f ? smaller(number, last) : 0.0f);
  static_cast<Element*>(p.y)[at.row * p.y_stride + at.column] =
      static_cast<const Element*>(p.x)[at.row * p.x_stride + column];
}

template <typename Element>
LOCKSTEP_DEVICE void join_heads(const JoinHeadsParameters& p) {
  follow_previous();
  const Place at = element_of_thread(p.columns);
  if (at.row >= used(p.rows)) return;
  const int64_t head = at.column / (p.of_x + p.of_z);
  const int64_t column = at.column % (p.of_x + p.of_z);
  const Element* x = static_cast<const Element*>(p.x) + at.row * p.x_stride + head * p.of_x;
  const Element* z = static_cast<const Element*>(p.z) + at.row * p.z_stride + head * p.of_z;
  static_cast<Element*>(p.y)[at.row * p.y_stride + at.column] = column < p.of_x ? x[column] : z[column - p.of_x];
}

}  // namespace

LOCKSTEP_KERNEL(take_rows_2, TakeRowsParameters, kTakeRowsThreads) { take_rows<uint16_t>(p); }
LOCKSTEP_KERNEL(take_rows_4, TakeRowsParameters, kTakeRowsThreads) { take_rows<uint32_t>(p); }
LOCKSTEP_KERNEL(take_columns_2, TakeColumnsParameters, kMapThreads) { take_columns<uint16_t>(p); }
LOCKSTEP_KERNEL(take_columns_4, TakeColumnsParameters, kMapThreads) { take_columns<uint32_t>(p); }
LOCKSTEP_KERNEL(join_heads_2, JoinHeadsParameters, kMapThreads) { join_heads<uint16_t>(p); }
LOCKSTEP_KERNEL(join_heads_4, JoinHeadsParameters, kMapThreads) { join_heads<uint32_t>(p); }

}  // namespace lockstep::cuda
