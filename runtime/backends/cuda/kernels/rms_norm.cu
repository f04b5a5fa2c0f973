// Root mean square norms of rows, or of groups of columns.
#include "runtime/backends/cuda/kernels/norms.h"

namespace lockstep::cuda {
namespace {

template <typename Rows>
LOCKSTEP_DEVICE void rms_norm(const RmsNormParameters& p) {
  using Element = typename Rows::Element;
  follow_previous();
  const int64_t row = block_index() / p.groups;
  const int64_t first = static_cast<int64_t>(block_index() % p.groups) * p.columns;
  if (row >= used(p.rows)) return;
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride + first;
  Element* y = static_cast<Element*>(p.y) + row * p.y_stride + first;
  rms_norm_row<Rows>(
      p.norm, p.columns, [&](int i) { return Rows::read(x[i]); },
      [&](int i, float value) { y[i] = Rows::write(value); }, shared_memory<NormShared>());
}

}  // namespace

LOCKSTEP_KERNEL(rms_norm_f32, RmsNormParameters, kNormThreads) { rms_norm<F32Rows>(p); }
LOCKSTEP_KERNEL(rms_norm_bf16, RmsNormParameters, kNormThreads) { rms_norm<Bf16Rows>(p); }
LOCKSTEP_KERNEL(rms_norm_f16, RmsNormParameters, kNormThreads) { rms_norm<F16Rows>(p); }

}  // namespace lockstep::cuda
