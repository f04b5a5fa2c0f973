// Recurrent layers: causal convolution and the gated delta rule, row by row in the order of the CPU backend
// (runtime/graph/OPERATIONS.md). The keys of a step lie in the workspace until all value heads have read them, because
// several of them share a key head.
#include "runtime/backends/cuda/kernels/activations.h"
#include "runtime/backends/cuda/kernels/recurrence_parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {
namespace {

/// The rows of a slot in this step; `count` 0: none.
struct Run {
  int first;
  int count;
  int position;
};

LOCKSTEP_DEVICE Run run_of(const RunRows& rows, int slot) {
  const int all = used(rows.rows);
  Run run{0, 0, 0};
  while (run.first < all && rows.slot[run.first] != slot) ++run.first;
  if (run.first >= all) return run;
  run.position = rows.position[run.first];
  while (run.first + run.count < all && rows.slot[run.first + run.count] == slot) ++run.count;
  return run;
}

/// Zeros in `columns` of every padding row.
template <typename Rows>
LOCKSTEP_DEVICE void clear_padding(const RunRows& rows, void* y, int64_t stride, int64_t first, int columns) {
  typename Rows::Element* const out = static_cast<typename Rows::Element*>(y);
  for (int row = 0; row < used(rows.rows); ++row) {
    if (rows.slot[row] >= 0) continue;
    for (int i = thread_index(); i < columns; i += thread_count()) out[row * stride + first + i] = Rows::write(0.0f);
  }
}

template <typename Rows>
LOCKSTEP_DEVICE void causal_conv(const ConvolveParameters& p) {
  using Element = typename Rows::Element;
  follow_previous();
  const int groups = (p.channels + kConvolveThreads - 1) / kConvolveThreads;
  const int slot = block_index() / groups, first = block_index() % groups * kConvolveThreads;
  if (slot == p.slots) {
    const int left = p.channels - first;
    clear_padding<Rows>(p.runs, p.y, p.y_stride, first, left < kConvolveThreads ? left : kConvolveThreads);
    return;
  }
  const int channel = first + thread_index();
  if (channel >= p.channels) return;
  const Run run = run_of(p.runs, slot);
  const Element* const x = static_cast<const Element*>(p.x) + run.first * p.x_stride + channel;
  Element* const kept = static_cast<Element*>(p.kept) + static_cast<int64_t>(slot) * p.kept_rows * p.channels + channel;
  const Element* const weight = static_cast<const Element*>(p.weight) + static_cast<int64_t>(channel) * p.taps;
  Element* const y = static_cast<Element*>(p.y) + run.first * p.y_stride + channel;
  for (int i = 0; i < run.count; ++i) {
    float sum = 0.0f;
    for (int tap = 0; tap < p.taps; ++tap) {
      const int from = i - (p.taps - 1 - tap), position = run.position + from;
      if (position < 0) continue;
      const Element value =
          from >= 0 ? x[from * p.x_stride] : kept[static_cast<int64_t>(position % p.kept_rows) * p.channels];
      sum = madd(Rows::read(weight[tap]), Rows::read(value), sum);
    }
    y[i * p.y_stride] = Rows::write(p.activates != 0 ? activate(p.activation, sum) : sum);
    kept[static_cast<int64_t>((run.position + i) % p.kept_rows) * p.channels] = x[i * p.x_stride];
  }
}

/// Lanes of sixteen, each of which sums every sixteenth square, then halves of them, as on the CPU.
LOCKSTEP_DEVICE float sum_of_sixteen(const float* lanes) {
  float sums[16];
  for (int i = 0; i < 16; ++i) sums[i] = lanes[i];
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) sums[i] = plus(sums[i], sums[i + width]);
  }
  return sums[0];
}

template <typename Rows>
LOCKSTEP_DEVICE void delta_norm(const DeltaRowParameters& p) {
  struct Shared {
    float lanes[16];
  };
  using Element = typename Rows::Element;
  follow_previous();
  const int heads = 2 * p.heads.key_heads, dim = p.heads.key_dim;
  const int row = block_index() / heads, head = block_index() % heads;
  if (row >= used(p.runs.rows)) return;
  const Element* const x = static_cast<const Element*>(p.x) + row * p.x_stride + static_cast<int64_t>(head) * dim;
  float* const unit = p.heads.unit + (static_cast<int64_t>(row) * heads + head) * dim;
  Shared& shared = shared_memory<Shared>();
  if (thread_index() < 16) {
    float sum = 0.0f;
    for (int i = thread_index(); i < dim; i += 16) {
      const float value = Rows::read(x[i]);
      sum = madd(value, value, sum);
    }
    shared.lanes[thread_index()] = sum;
  }
  sync_block();
  const float scale = head < p.heads.key_heads ? divide(1.0f, square_root(static_cast<float>(dim))) : 1.0f;
  const float factor = divide(scale, square_root(plus(sum_of_sixteen(shared.lanes), p.epsilon)));
  for (int i = thread_index(); i < dim; i += thread_count()) unit[i] = times(Rows::read(x[i]), factor);
}

/// ln(1 + e^x) as max(x, 0) + ln(1 + e^−|x|), with ln(1 + y) = 2 artanh(y / (2 + y)) and its series to the 15th power.
LOCKSTEP_DEVICE float softplus_of(float x) {
  const float y = exp_of(x > 0.0f ? -x : x);
  const float z = divide(y, plus(2.0f, y)), square = times(z, z);
  float p = madd(square, 2.0f / 15.0f, 2.0f / 13.0f);
  p = madd(square, p, 2.0f / 11.0f);
  p = madd(square, p, 2.0f / 9.0f);
  p = madd(square, p, 2.0f / 7.0f);
  p = madd(square, p, 2.0f / 5.0f);
  p = madd(square, p, 2.0f / 3.0f);
  p = madd(square, p, 2.0f);
  return madd(z, p, x > 0.0f ? x : 0.0f);
}

/// A value head of a slot, moved through the rows of a step.
template <typename Rows>
struct DeltaHead {
  const DeltaRuleParameters& p;
  const Run run;
  const int slot, head;
  DeltaShared& shared;

  LOCKSTEP_DEVICE int64_t place(int number) const {
    return (static_cast<int64_t>(slot) * 2 + number % 2) * p.heads.heads + head;
  }
  LOCKSTEP_DEVICE float* changes(int number) const {
    return p.heads.changes + place(number) * p.heads.block * p.heads.value_dim;
  }
  LOCKSTEP_DEVICE float* decays(int number) const { return p.heads.decays + place(number) * p.heads.block; }
  LOCKSTEP_DEVICE float* border(int number) const {
    return p.heads.borders + place(number) * p.heads.key_dim * p.heads.value_dim;
  }
  /// Element d of the key at a position: of this step, or kept.
  LOCKSTEP_DEVICE float key(int position, int d) const {
    const int key_head = p.head_map[head];
    if (position >= run.position) {
      const int64_t row = run.first + position - run.position;
      return p.heads.unit[(row * 2 * p.heads.key_heads + p.heads.key_heads + key_head) * p.heads.key_dim + d];
    }
    const int half = position / p.heads.block % 2;
    const int64_t at = ((static_cast<int64_t>(slot) * 2 + half) * p.heads.key_heads + key_head) * p.heads.key_dim + d;
    return p.heads.keys[at * p.heads.block + position % p.heads.block];
  }

  /// The state before block `number`, from the block before it.
  LOCKSTEP_DEVICE void cross_border(int number) {
    const int block = p.heads.block, width = p.heads.value_dim;
    const float* const decay = decays(number - 1);
    const float* const change = changes(number - 1);
    const float last = decay[block - 1];
    for (int i = thread_index(); i < block; i += thread_count()) shared.weights[i] = exp_of(plus(last, -decay[i]));
    sync_block();
    for (int at = thread_index(); at < p.heads.key_dim * width; at += thread_count()) {
      const int d = at / width, v = at % width;
      float sum = number > 1 ? times(exp_of(last), border(number - 1)[at]) : 0.0f;
      for (int i = 0; i < block; ++i) {
        const float share = times(key((number - 1) * block + i, d), shared.weights[i]);
        sum = madd(share, change[i * width + v], sum);
      }
      border(number)[at] = sum;
    }
    sync_block();
  }

  LOCKSTEP_DEVICE void step(int row, int position) {
    using Element = typename Rows::Element;
    const int block = p.heads.block, dim = p.heads.key_dim, width = p.heads.value_dim;
    const int number = position / block, at = position % block;
    if (at == 0 && number > 0) cross_border(number);
    float* const decay = decays(number);
    float* const change = changes(number);
    if (thread_index() == 0) {
      const float* const gates = p.gates + row * p.gates_stride;
      const float rate = exp_of(Rows::read(static_cast<const Element*>(p.a_log)[head]));
      const float a = plus(gates[p.heads.heads + head], Rows::read(static_cast<const Element*>(p.dt_bias)[head]));
      decay[at] = plus(at > 0 ? decay[at - 1] : 0.0f, -times(rate, softplus_of(a)));
      shared.beta = divide(1.0f, plus(1.0f, exp_of(-gates[head])));
    }
    sync_block();
    const int64_t unit = static_cast<int64_t>(row) * 2 * p.heads.key_heads;
    const float* const query = p.heads.unit + (unit + p.head_map[head]) * dim;
    const float* const own_key = query + static_cast<int64_t>(p.heads.key_heads) * dim;
    for (int i = thread_index(); i <= at; i += thread_count()) {
      float of_key = 0.0f, of_query = 0.0f;
      for (int d = 0; d < dim; ++d) {
        const float other = key(number * block + i, d);
        of_key = madd(own_key[d], other, of_key);
        of_query = madd(query[d], other, of_query);
      }
      const float share = exp_of(plus(decay[at], -decay[i]));
      shared.key_shares[i] = times(of_key, share);
      shared.query_shares[i] = times(of_query, share);
    }
    sync_block();
    const float whole = exp_of(decay[at]);
    const Element* const value =
        static_cast<const Element*>(p.x) + row * p.x_stride + 2 * p.heads.key_heads * dim + head * width;
    Element* const y = static_cast<Element*>(p.y) + row * p.y_stride + static_cast<int64_t>(head) * width;
    for (int v = thread_index(); v < width; v += thread_count()) {
      float known = 0.0f, read = 0.0f;
      for (int d = 0; number > 0 && d < dim; ++d) {
        const float state = border(number)[d * width + v];
        known = madd(own_key[d], state, known);
        read = madd(query[d], state, read);
      }
      known = times(known, whole);
      read = times(read, whole);
      for (int i = 0; i < at; ++i) {
        known = madd(shared.key_shares[i], change[i * width + v], known);
        read = madd(shared.query_shares[i], change[i * width + v], read);
      }
      const float own = times(shared.beta, plus(Rows::read(value[v]), -known));
      change[at * width + v] = own;
      y[v] = Rows::write(madd(shared.query_shares[at], own, read));
    }
    sync_block();
  }
};

template <typename Rows>
LOCKSTEP_DEVICE void delta_rule(const DeltaRuleParameters& p) {
  follow_previous();
  const int slot = block_index() / p.heads.heads, head = block_index() % p.heads.heads;
  if (slot == p.heads.slots) {
    const int width = p.heads.value_dim;
    clear_padding<Rows>(p.runs, p.y, p.y_stride, static_cast<int64_t>(head) * width, width);
    return;
  }
  const Run run = run_of(p.runs, slot);
  DeltaHead<Rows> delta{p, run, slot, head, shared_memory<DeltaShared>()};
  for (int i = 0; i < run.count; ++i) delta.step(run.first + i, run.position + i);
}

LOCKSTEP_DEVICE void keep(const DeltaRowParameters& p) {
  follow_previous();
  const DeltaHeads& heads = p.heads;
  const int row = block_index() / heads.key_heads, head = block_index() % heads.key_heads;
  if (row >= used(p.runs.rows) || p.runs.slot[row] < 0) return;
  const int later = row + 2 * heads.block;  // the row that would have this one's place
  if (later < used(p.runs.rows) && p.runs.slot[later] == p.runs.slot[row]) return;
  const int half = p.runs.position[row] / heads.block % 2, at = p.runs.position[row] % heads.block;
  const float* const key = heads.unit + ((static_cast<int64_t>(row) * 2 + 1) * heads.key_heads + head) * heads.key_dim;
  float* const keys = heads.keys + ((static_cast<int64_t>(p.runs.slot[row]) * 2 + half) * heads.key_heads + head) *
                                       heads.key_dim * heads.block;
  for (int d = thread_index(); d < heads.key_dim; d += thread_count()) keys[d * heads.block + at] = key[d];
}

}  // namespace

LOCKSTEP_KERNEL(causal_conv_f32, ConvolveParameters, kConvolveThreads) { causal_conv<F32Rows>(p); }
LOCKSTEP_KERNEL(causal_conv_bf16, ConvolveParameters, kConvolveThreads) { causal_conv<Bf16Rows>(p); }
LOCKSTEP_KERNEL(causal_conv_f16, ConvolveParameters, kConvolveThreads) { causal_conv<F16Rows>(p); }
LOCKSTEP_KERNEL(delta_norm_f32, DeltaRowParameters, kDeltaThreads) { delta_norm<F32Rows>(p); }
LOCKSTEP_KERNEL(delta_norm_bf16, DeltaRowParameters, kDeltaThreads) { delta_norm<Bf16Rows>(p); }
LOCKSTEP_KERNEL(delta_norm_f16, DeltaRowParameters, kDeltaThreads) { delta_norm<F16Rows>(p); }
LOCKSTEP_KERNEL(delta_rule_f32, DeltaRuleParameters, kDeltaThreads) { delta_rule<F32Rows>(p); }
LOCKSTEP_KERNEL(delta_rule_bf16, DeltaRuleParameters, kDeltaThreads) { delta_rule<Bf16Rows>(p); }
LOCKSTEP_KERNEL(delta_rule_f16, DeltaRuleParameters, kDeltaThreads) { delta_rule<F16Rows>(p); }
LOCKSTEP_KERNEL(delta_keep, DeltaRowParameters, kDeltaThreads) { keep(p); }

}  // namespace lockstep::cuda
