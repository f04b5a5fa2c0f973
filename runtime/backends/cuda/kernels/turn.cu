// Rotary positions.
#include "runtime/backends/cuda/kernels/functions.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"
#include "runtime/backends/cuda/kernels/turns.h"

namespace lockstep::cuda {
namespace {

template <typename Rows>
LOCKSTEP_DEVICE void turn(const TurnParameters& p) {
  using Element = typename Rows::Element;
  follow_previous();
  const int64_t row = block_index();
  if (row >= used(p.rows)) return;
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
  Element* y = static_cast<Element*>(p.y) + row * p.y_stride;
  for (int i = thread_index(); i < p.heads * p.head_dim; i += thread_count()) {
    const Element* head = x + i / p.head_dim * p.head_dim;
    y[i] = Rows::write(turned(p.turn, row, i % p.head_dim, [&](int inside) { return Rows::read(head[inside]); }));
  }
}

}  // namespace

LOCKSTEP_KERNEL(turn_table, TurnTableParameters, kTurnThreads) {
  follow_previous();
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
