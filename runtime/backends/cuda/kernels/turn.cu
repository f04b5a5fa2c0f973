// Rotary positions.
#include "runtime/backends/cuda/kernels/functions.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {
namespace {

template <typename Rows>
LOCKSTEP_DEVICE void turn(const TurnParameters& p) {
  using Element = typename Rows::Element;
  const int64_t row = block_index();
  if (row >= used(p.rows)) return;
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
  Element* y = static_cast<Element*>(p.y) + row * p.y_stride;
  const float* cosines = p.cosines + row * p.half;
  const float* sines = p.sines + row * p.half;
  const int step = p.neighbours != 0 ? 2 : 1;           // between pairs
  const int distance = p.neighbours != 0 ? 1 : p.half;  // within a pair
  for (int i = thread_index(); i < p.heads * p.head_dim; i += thread_count()) {
    const int head = i / p.head_dim * p.head_dim;
    const int inside = i % p.head_dim;
    if (inside >= 2 * p.half) {
      y[i] = x[i];
    } else if (inside / distance % 2 == 0) {  // the first of its pair
      const int pair = inside / step;
      const float first = Rows::read(x[i]);
      const float second = Rows::read(x[i + distance]);
      y[i] = Rows::write(plus(times(first, cosines[pair]), -times(second, sines[pair])));
      y[head + inside + distance] = Rows::write(plus(times(second, cosines[pair]), times(first, sines[pair])));
    }
  }
}

}  // namespace

LOCKSTEP_KERNEL(turn_table, TurnTableParameters, kTurnThreads) {
  const int64_t i = static_cast<int64_t>(block_index()) * thread_count() + thread_index();
  const int64_t row = i / p.half;
  const int64_t column = i % p.half;
  if (row >= used(p.rows)) return;
  const float* frequencies = p.frequencies;
  if (p.long_frequencies != nullptr) {
    const int32_t slot = p.slot[row];
    if (slot >= 0 && slot < p.slots && p.is_long[slot] != 0) frequencies = p.long_frequencies;
  }
  const float angle = times(float_of_whole(p.position[row]), frequencies[column]);
  float sine = 0.0f;
  float cosine = 0.0f;
  sine_and_cosine(angle, sine, cosine);
  p.cosines[i] = times(cosine, p.scale);
  p.sines[i] = times(sine, p.scale);
}

LOCKSTEP_KERNEL(turn_f32, TurnParameters, kTurnThreads) { turn<F32Rows>(p); }
LOCKSTEP_KERNEL(turn_bf16, TurnParameters, kTurnThreads) { turn<Bf16Rows>(p); }
LOCKSTEP_KERNEL(turn_f16, TurnParameters, kTurnThreads) { turn<F16Rows>(p); }

}  // namespace lockstep::cuda
