// Operations on parallel residual streams (AltUp) and on sparse activations: each row by itself.
#include "runtime/backends/cuda/kernels/functions.h"
#include "runtime/backends/cuda/kernels/norms.h"

namespace lockstep::cuda {
namespace {

template <typename Rows>
LOCKSTEP_DEVICE void cut_off(const StreamParameters& p) {
  using Element = typename Rows::Element;
  follow_previous();
  const int64_t row = block_index();
  if (row >= used(p.rows)) return;
  NormShared& shared = shared_memory<NormShared>();
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
  const auto own = [&](int i) { return Rows::read(x[i]); };
  const float mean = mean_of(p.columns, own, shared.sums);
  const auto distance = [&](int i) { return plus(own(i), -mean); };
  const float variance = mean_square_of(p.columns, distance, shared.squares);
  const float cut = plus(mean, times(p.number, square_root(variance)));
  Element* y = static_cast<Element*>(p.y) + row * p.y_stride;
  for (int i = thread_index(); i < p.columns; i += thread_count()) {
    y[i] = Rows::write(larger(0.0f, plus(own(i), -cut)));
  }
}

template <typename Rows>
LOCKSTEP_DEVICE void match_magnitude(const StreamParameters& p) {
  using Element = typename Rows::Element;
  follow_previous();
  const int64_t row = block_index();
  if (row >= used(p.rows)) return;
  NormShared& shared = shared_memory<NormShared>();
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
  const Element* like = static_cast<const Element*>(p.like) + row * p.like_stride;
  const auto own = [&](int i) { return Rows::read(x[i]); };
  const auto other = [&](int i) { return Rows::read(like[i]); };
  const float square = mean_square_of(p.columns, own, shared.sums);
  const float target = square_root(mean_square_of(p.columns, other, shared.squares));
  const float factor = divide(target, square_root(square < p.number ? p.number : square));
  Element* y = static_cast<Element*>(p.y) + row * p.y_stride;
  for (int i = thread_index(); i < p.columns; i += thread_count()) {
    y[i] = Rows::write(times(own(i), factor));
  }
}

template <typename Rows>
LOCKSTEP_DEVICE void weighted_sum(const WeightedSumParameters& p) {
  using Element = typename Rows::Element;
  follow_previous();
  const auto [row, column] = element_of_thread(p.columns);
  if (row >= used(p.rows)) return;
  const Element* factors = static_cast<const Element*>(p.factors) + row * p.factors_stride;
  float sum = 0.0f;
  for (int term = 0; term < p.terms; ++term) {
    const float x = Rows::read(static_cast<const Element*>(p.x[term])[row * p.x_strides[term] + column]);
    sum = madd(x, plus(Rows::read(factors[term]), p.offset), sum);
  }
  static_cast<Element*>(p.y)[row * p.y_stride + column] = Rows::write(sum);
}

}  // namespace

LOCKSTEP_KERNEL(cut_off_f32, StreamParameters, kNormThreads) { cut_off<F32Rows>(p); }
LOCKSTEP_KERNEL(cut_off_bf16, StreamParameters, kNormThreads) { cut_off<Bf16Rows>(p); }
LOCKSTEP_KERNEL(cut_off_f16, StreamParameters, kNormThreads) { cut_off<F16Rows>(p); }
LOCKSTEP_KERNEL(match_magnitude_f32, StreamParameters, kNormThreads) { match_magnitude<F32Rows>(p); }
LOCKSTEP_KERNEL(match_magnitude_bf16, StreamParameters, kNormThreads) { match_magnitude<Bf16Rows>(p); }
LOCKSTEP_KERNEL(match_magnitude_f16, StreamParameters, kNormThreads) { match_magnitude<F16Rows>(p); }
LOCKSTEP_KERNEL(weighted_sum_f32, WeightedSumParameters, kMapThreads) { weighted_sum<F32Rows>(p); }
LOCKSTEP_KERNEL(weighted_sum_bf16, WeightedSumParameters, kMapThreads) { weighted_sum<Bf16Rows>(p); }
LOCKSTEP_KERNEL(weighted_sum_f16, WeightedSumParameters, kMapThreads) { weighted_sum<F16Rows>(p); }

}  // namespace lockstep::cuda
