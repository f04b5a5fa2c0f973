// Root mean square norms of rows, or of groups of columns.
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"
#include "runtime/backends/cuda/kernels/sums.h"

namespace lockstep::cuda {
namespace {

struct RmsNormShared {
  float sums[kWarpLanes];
};

template <typename Rows>
LOCKSTEP_DEVICE void rms_norm(const RmsNormParameters& p) {
  using Element = typename Rows::Element;
  const int64_t row = block_index() / p.groups;
  const int64_t first = static_cast<int64_t>(block_index() % p.groups) * p.columns;
  if (row >= used(p.rows)) return;
  RmsNormShared& shared = shared_memory<RmsNormShared>();
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride + first;
  const Element* weight = static_cast<const Element*>(p.weight);
  Element* y = static_cast<Element*>(p.y) + row * p.y_stride + first;
  float squares = 0.0f;
  for (int i = thread_index(); i < p.columns; i += thread_count()) {
    const float value = Rows::read(x[i]);
    squares = madd(value, value, squares);
  }
  squares = block_sum(squares, shared.sums);
  const float mean = divide(squares, static_cast<float>(p.columns));
  const float inverse = divide(1.0f, square_root(plus(mean, p.epsilon)));
  for (int i = thread_index(); i < p.columns; i += thread_count()) {
    float value = times(Rows::read(x[i]), inverse);
    if (p.has_offset == 0) value = Rows::round(value);
    y[i] = Rows::write(times(plus(Rows::read(weight[i]), p.offset), value));
  }
}

}  // namespace

LOCKSTEP_KERNEL(rms_norm_f32, RmsNormParameters, kNormThreads) { rms_norm<F32Rows>(p); }
LOCKSTEP_KERNEL(rms_norm_bf16, RmsNormParameters, kNormThreads) { rms_norm<Bf16Rows>(p); }
LOCKSTEP_KERNEL(rms_norm_f16, RmsNormParameters, kNormThreads) { rms_norm<F16Rows>(p); }

}  // namespace lockstep::cuda
