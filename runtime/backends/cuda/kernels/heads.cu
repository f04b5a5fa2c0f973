// Heads on their way to attention: queries, keys and values of a row, in one launch.
//
//   head of q ──norm──► turn ──► queries            A block is a head of a row. Norms and turns where the model has
//   head of k ──norm──► turn ──► cache of keys      them; each rounds as its own kernel does. A head may be joined of
//   head of v ─────────────────► cache of values    these columns and others, which turn by themselves.
#include "runtime/backends/cuda/kernels/cache_tiles.h"
#include "runtime/backends/cuda/kernels/norms.h"
#include "runtime/backends/cuda/kernels/turns.h"

namespace lockstep::cuda {
namespace {

struct HeadsShared {
  NormShared norm;
  float head[kMostHeadDim];
};

/// `kJoins`: heads may be joined; else that takes no registers.
template <typename Rows, bool kJoins>
LOCKSTEP_DEVICE void prepare_heads(const HeadsParameters& p) {
  using Element = typename Rows::Element;
  HeadsShared& shared = shared_memory<HeadsShared>();
  const int64_t row = block_index() / p.heads_of_row;
  int head = block_index() % p.heads_of_row;
  int number = 0;
  while (head >= p.parts[number].heads) head -= p.parts[number++].heads;
  const HeadsPart& part = p.parts[number];
  const bool is_kept = part.cache != nullptr;
  const bool is_idle = row >= used(p.rows) || (is_kept && p.slot[row] < 0);
  const int32_t slot = is_kept && !is_idle ? p.slot[row] : 0;
  const int32_t position = is_kept && !is_idle ? p.position[row] : 0;
  follow_previous();  // slots and positions are there before the step's first launch
  if (is_idle) return;
  const HeadsRest none{};
  const HeadsRest& rest = kJoins ? part.rest : none;
  const int own = p.head_dim - static_cast<int>(rest.columns);
  const Element* x = static_cast<const Element*>(part.x) + row * part.x_stride + static_cast<int64_t>(head) * own;
  const Element* z = static_cast<const Element*>(rest.x) + row * rest.x_stride + head * rest.columns;
  const auto read = [&](int i) { return shared.head[i]; };
  const auto read_rest = [&](int i) { return shared.head[own + i]; };
  for (int i = thread_index(); i < own; i += thread_count()) shared.head[i] = Rows::read(x[i]);
  for (int i = thread_index(); i < rest.columns; i += thread_count()) shared.head[own + i] = Rows::read(z[i]);
  if (part.norm.is_present != 0) {  // a thread norms what it has loaded
    rms_norm_row<Rows>(
        part.norm, own, read, [&](int i, float value) { shared.head[i] = Rows::round(value); }, shared.norm);
  }
  sync_block();
  Element* y = is_kept ? static_cast<Element*>(part.cache) + row_place(p.tiles, slot, position, head, p.head_dim)
                       : static_cast<Element*>(part.y) + row * part.y_stride + static_cast<int64_t>(head) * p.head_dim;
  for (int i = thread_index(); i < own; i += thread_count()) {
    y[i] = Rows::write(part.turn.cosines == nullptr ? read(i) : turned(part.turn, row, i, read));
  }
  for (int i = thread_index(); i < rest.columns; i += thread_count()) {
    y[own + i] = Rows::write(rest.turn.cosines == nullptr ? read_rest(i) : turned(rest.turn, row, i, read_rest));
  }
}

}  // namespace

static_assert(sizeof(HeadsShared) == kHeadsSharedBytes);

LOCKSTEP_KERNEL(prepare_heads_f32, HeadsParameters, kHeadsThreads) { prepare_heads<F32Rows, false>(p); }
LOCKSTEP_KERNEL(prepare_heads_bf16, HeadsParameters, kHeadsThreads) { prepare_heads<Bf16Rows, false>(p); }
LOCKSTEP_KERNEL(prepare_heads_f16, HeadsParameters, kHeadsThreads) { prepare_heads<F16Rows, false>(p); }
LOCKSTEP_KERNEL(prepare_heads_joined_f32, HeadsParameters, kHeadsThreads) { prepare_heads<F32Rows, true>(p); }
LOCKSTEP_KERNEL(prepare_heads_joined_bf16, HeadsParameters, kHeadsThreads) { prepare_heads<Bf16Rows, true>(p); }
LOCKSTEP_KERNEL(prepare_heads_joined_f16, HeadsParameters, kHeadsThreads) { prepare_heads<F16Rows, true>(p); }

}  // namespace lockstep::cuda
