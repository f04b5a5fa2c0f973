// Elementwise operations.
#include "runtime/backends/cuda/kernels/map_value.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {
namespace {

template <typename Rows>
LOCKSTEP_DEVICE void map(const MapParameters& p) {
  using Element = typename Rows::Element;
  follow_previous();
  const auto [row, column] = element_of_thread(p.columns);
  if (row >= used(p.rows)) return;
  const float x = Rows::read(static_cast<const Element*>(p.x)[row * p.x_stride + column]);
  const int64_t z_column = p.z_columns == 1 ? 0 : column;
  const float z = p.z == nullptr ? 0.0f : Rows::read(static_cast<const Element*>(p.z)[row * p.z_stride + z_column]);
  static_cast<Element*>(p.y)[row * p.y_stride + column] = Rows::write(map_value(p.kind, p.activation, p.number, x, z));
}

template <typename Rows>
LOCKSTEP_DEVICE void scale_rows(const ScaleRowsParameters& p) {
  using Element = typename Rows::Element;
  follow_previous();
  const auto [row, column] = element_of_thread(p.columns);
  if (row >= used(p.rows)) return;
  int64_t place = row * p.factors_stride;
  if (p.position != nullptr) {
    place = (static_cast<int64_t>(p.position[row]) + p.offset) / p.every;
    place = place < 0 ? 0 : place > p.last ? p.last : place;
  }
  const float x = Rows::read(static_cast<const Element*>(p.x)[row * p.x_stride + column]);
  static_cast<Element*>(p.y)[row * p.y_stride + column] = Rows::write(times(x, p.factors[place]));
}

}  // namespace

LOCKSTEP_KERNEL(map_f32, MapParameters, kMapThreads) { map<F32Rows>(p); }
LOCKSTEP_KERNEL(map_bf16, MapParameters, kMapThreads) { map<Bf16Rows>(p); }
LOCKSTEP_KERNEL(map_f16, MapParameters, kMapThreads) { map<F16Rows>(p); }
LOCKSTEP_KERNEL(scale_rows_f32, ScaleRowsParameters, kMapThreads) { scale_rows<F32Rows>(p); }
LOCKSTEP_KERNEL(scale_rows_bf16, ScaleRowsParameters, kMapThreads) { scale_rows<Bf16Rows>(p); }
LOCKSTEP_KERNEL(scale_rows_f16, ScaleRowsParameters, kMapThreads) { scale_rows<F16Rows>(p); }

}  // namespace lockstep::cuda
