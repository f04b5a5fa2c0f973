// Gated activations.
#include "runtime/backends/cuda/kernels/functions.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {
namespace {

LOCKSTEP_DEVICE float activate(int32_t kind, float x) {
  if (kind == kGateSilu) return divide(x, plus(1.0f, exp_of(-x)));
  if (kind == kGateRelu) return larger(0.0f, x);
  // x/2 · (1 + tanh(u)) with u = √(2/π) · (x + 0.044715 x³), written as x / (1 + e^−2u).
  const float cubic = times(x, madd(0.044715f, times(x, x), 1.0f));
  return divide(x, plus(1.0f, exp_of(times(-1.59576912f, cubic))));
}

template <typename Rows>
LOCKSTEP_DEVICE void gate(const GateParameters& p) {
  using Element = typename Rows::Element;
  const int64_t i = static_cast<int64_t>(block_index()) * thread_count() + thread_index();
  if (i >= p.elements) return;
  const int64_t row = i / p.columns;
  const int64_t column = i % p.columns;
  const float x = Rows::read(static_cast<const Element*>(p.gate)[row * p.gate_stride + column]);
  const float up = Rows::read(static_cast<const Element*>(p.up)[row * p.up_stride + column]);
  static_cast<Element*>(p.y)[i] = Rows::write(times(activate(p.kind, x), up));
}

}  // namespace

LOCKSTEP_KERNEL(gate_f32, GateParameters, kGateThreads) { gate<F32Rows>(p); }
LOCKSTEP_KERNEL(gate_bf16, GateParameters, kGateThreads) { gate<Bf16Rows>(p); }

}  // namespace lockstep::cuda
