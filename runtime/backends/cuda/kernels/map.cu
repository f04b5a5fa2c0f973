// Elementwise operations.
#include "runtime/backends/cuda/kernels/activations.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {
namespace {

template <typename Rows>
LOCKSTEP_DEVICE void map(const MapParameters& p) {
  using Element = typename Rows::Element;
  const int64_t i = static_cast<int64_t>(block_index()) * thread_count() + thread_index();
  const int64_t row = i / p.columns;
  const int64_t column = i % p.columns;
  if (row >= used(p.rows)) return;
  const float x = Rows::read(static_cast<const Element*>(p.x)[row * p.x_stride + column]);
  const float z = p.z == nullptr ? 0.0f : Rows::read(static_cast<const Element*>(p.z)[row * p.z_stride + column]);
  float y = 0.0f;
  if (p.kind == kMapAdd) {
    y = plus(x, z);
  } else if (p.kind == kMapScale) {
    y = times(x, p.number);
  } else if (p.kind == kMapSoftCap) {
    y = times(p.number, tanh_of(divide(x, p.number)));
  } else {
    y = activate(p.activation, x);
    if (p.kind == kMapGate) y = times(y, z);
  }
  static_cast<Element*>(p.y)[row * p.y_stride + column] = Rows::write(y);
}

}  // namespace

LOCKSTEP_KERNEL(map_f32, MapParameters, kMapThreads) { map<F32Rows>(p); }
LOCKSTEP_KERNEL(map_bf16, MapParameters, kMapThreads) { map<Bf16Rows>(p); }
LOCKSTEP_KERNEL(map_f16, MapParameters, kMapThreads) { map<F16Rows>(p); }

}  // namespace lockstep::cuda
