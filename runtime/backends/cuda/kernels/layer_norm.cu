// Norms of rows by mean and variance.
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"
#include "runtime/backends/cuda/kernels/sums.h"

namespace lockstep::cuda {
namespace {

struct LayerNormShared {
  float sums[kWarpLanes];
  float squares[kWarpLanes];
};

template <typename Rows>
LOCKSTEP_DEVICE void layer_norm(const LayerNormParameters& p) {
  using Element = typename Rows::Element;
  const int64_t row = block_index();
  if (row >= used(p.rows)) return;
  LayerNormShared& shared = shared_memory<LayerNormShared>();
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
  Element* y = static_cast<Element*>(p.y) + row * p.y_stride;
  const float count = static_cast<float>(p.columns);
  float sum = 0.0f;
  for (int i = thread_index(); i < p.columns; i += thread_count()) sum = plus(sum, Rows::read(x[i]));
  const float mean = divide(block_sum(sum, shared.sums), count);
  float squares = 0.0f;
  for (int i = thread_index(); i < p.columns; i += thread_count()) {
    const float distance = plus(Rows::read(x[i]), -mean);
    squares = madd(distance, distance, squares);
  }
  const float variance = divide(block_sum(squares, shared.squares), count);
  const float root = square_root(plus(variance, p.epsilon));
  for (int i = thread_index(); i < p.columns; i += thread_count()) {
    const float weight = Rows::read(static_cast<const Element*>(p.weight)[i]);
    const float bias = Rows::read(static_cast<const Element*>(p.bias)[i]);
    y[i] = Rows::write(plus(times(weight, divide(plus(Rows::read(x[i]), -mean), root)), bias));
  }
}

}  // namespace

LOCKSTEP_KERNEL(layer_norm_f32, LayerNormParameters, kNormThreads) { layer_norm<F32Rows>(p); }
LOCKSTEP_KERNEL(layer_norm_bf16, LayerNormParameters, kNormThreads) { layer_norm<Bf16Rows>(p); }
LOCKSTEP_KERNEL(layer_norm_f16, LayerNormParameters, kNormThreads) { layer_norm<F16Rows>(p); }

}  // namespace lockstep::cuda
