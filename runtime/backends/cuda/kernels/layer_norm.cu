// Norms of rows by mean and variance.
#include "runtime/backends/cuda/kernels/norms.h"

namespace lockstep::cuda {
namespace {

template <typename Rows>
LOCKSTEP_DEVICE void layer_norm(const LayerNormParameters& p) {
  using Element = typename Rows::Element;
  follow_previous();
  const int64_t row = block_index();
  if (row >= used(p.rows)) return;
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
  Element* y = static_cast<Element*>(p.y) + row * p.y_stride;
  layer_norm_row<Rows>(
      p.norm, p.columns, [&](int i) { return Rows::read(x[i]); },
      [&](int i, float value) { y[i] = Rows::write(value); }, shared_memory<NormShared>());
}

}  // namespace

LOCKSTEP_KERNEL(layer_norm_f32, LayerNormParameters, kNormThreads) { layer_norm<F32Rows>(p); }
LOCKSTEP_KERNEL(layer_norm_bf16, LayerNormParameters, kNormThreads) { layer_norm<Bf16Rows>(p); }
LOCKSTEP_KERNEL(layer_norm_f16, LayerNormParameters, kNormThreads) { layer_norm<F16Rows>(p); }

}  // namespace lockstep::cuda
