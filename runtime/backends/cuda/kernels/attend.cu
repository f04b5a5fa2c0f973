// Attention over cached keys and values.
//
// A query head of a row walks its tiles in ascending order. Tiles begin at multiples of 64 positions, so the order of
// every sum depends on the row's position and window alone: not on the chunk, the other rows or the other heads.
#include "runtime/backends/cuda/kernels/functions.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"
#include "runtime/backends/cuda/kernels/sums.h"

namespace lockstep::cuda {
namespace {

constexpr int kWarps = kAttendThreads / kWarpLanes;
constexpr int kColumns = kMostHeadDim / kAttendThreads;  // of the result, for each thread

struct AttendShared {
  float scores[kTileTokens];
  float weights[kTileTokens];
};

/// The row and head of a block.
struct Query {
  int row;
  int head;
  int position;
  int first_seen;  // the first position that the window reaches
};

LOCKSTEP_DEVICE bool is_seen(const AttendParameters& p, const Query& query, int position) {
  return position <= query.position && (position >= query.first_seen || position < p.pinned);
}

LOCKSTEP_DEVICE int64_t tile_at(const AttendParameters& p, const Query& query, int tile) {
  if (p.tiles.turning_tiles > 0 && tile >= p.tiles.fixed_tiles) {
    tile = p.tiles.fixed_tiles + (tile - p.tiles.fixed_tiles) % p.tiles.turning_tiles;
  }
  const int64_t head = static_cast<int64_t>(p.head_map[query.head]) * kTileTokens * p.head_dim;
  return p.slot[query.row] * p.tiles.slot_stride + tile * p.tiles.tile_stride + head;
}

/// The largest value of a warp, on every lane.
LOCKSTEP_DEVICE float warp_maximum(float value) {
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) value = larger(value, shuffle_xor(value, mask));
  return value;
}

template <typename Rows>
LOCKSTEP_DEVICE float number_of_head(const AttendParameters& p, const void* numbers, int head) {
  if (p.is_float_per_head != 0) return static_cast<const float*>(numbers)[head];
  return Rows::read(static_cast<const typename Rows::Element*>(numbers)[head]);
}

/// The scores of a tile: a warp multiplies a key at a time. −∞ where nothing is seen.
template <typename Rows>
LOCKSTEP_DEVICE void score_tile(const AttendParameters& p, const Query& query, int tile, AttendShared& shared) {
  using Element = typename Rows::Element;
  const int lane = thread_index() % kWarpLanes;
  const Element* keys = static_cast<const Element*>(p.keys) + tile_at(p, query, tile);
  const int64_t column = static_cast<int64_t>(query.head) * p.head_dim;
  for (int token = thread_index() / kWarpLanes; token < kTileTokens; token += kWarps) {
    const int position = tile * kTileTokens + token;
    float score = -infinity();
    if (is_seen(p, query, position)) {  // the same on all lanes
      const bool is_pinned = position < p.pinned && p.pinned_q != nullptr;
      const Element* q = is_pinned ? static_cast<const Element*>(p.pinned_q) + query.row * p.pinned_q_stride
                                   : static_cast<const Element*>(p.q) + query.row * p.q_stride;
      float sum = 0.0f;
      for (int i = lane; i < p.head_dim; i += kWarpLanes) {
        sum = madd(Rows::read(q[column + i]), Rows::read(keys[static_cast<int64_t>(token) * p.head_dim + i]), sum);
      }
      score = times(warp_sum(sum), p.scale);
      if (p.soft_cap != 0.0f) score = times(p.soft_cap, tanh_of(divide(score, p.soft_cap)));
      if (p.slopes != nullptr) {
        score = plus(
            score, times(number_of_head<Rows>(p, p.slopes, query.head), static_cast<float>(position - query.position)));
      }
    }
    if (lane == 0) shared.scores[token] = score;
  }
  sync_block();
}

template <typename Rows>
LOCKSTEP_DEVICE void attend(const AttendParameters& p) {
  using Element = typename Rows::Element;
  if (block_index() / p.heads >= used(p.rows)) return;
  AttendShared& shared = shared_memory<AttendShared>();
  const int lane = thread_index() % kWarpLanes;
  Query query{block_index() / p.heads, block_index() % p.heads, 0, 0};
  Element* y = static_cast<Element*>(p.y) + query.row * p.y_stride + static_cast<int64_t>(query.head) * p.head_dim;
  if (p.slot[query.row] < 0) {  // the same on all threads
    for (int i = thread_index(); i < p.head_dim; i += kAttendThreads) y[i] = Rows::write(0.0f);
    return;
  }
  query.position = p.position[query.row];
  query.first_seen = p.window > 0 && query.position >= p.window ? query.position - p.window + 1 : 0;

  float maximum = p.sinks == nullptr ? -infinity() : number_of_head<Rows>(p, p.sinks, query.head);
  float sum = p.sinks == nullptr ? 0.0f : 1.0f;
  float result[kColumns] = {};
  for (int tile = 0; tile <= query.position / kTileTokens; ++tile) {
    if ((tile + 1) * kTileTokens <= query.first_seen && tile * kTileTokens >= p.pinned) continue;
    score_tile<Rows>(p, query, tile, shared);
    const float old = maximum;
    maximum = larger(old, warp_maximum(larger(shared.scores[lane], shared.scores[lane + kWarpLanes])));
    const float origin = maximum == -infinity() ? 0.0f : maximum;
    if (thread_index() < kTileTokens) {
      shared.weights[thread_index()] = exp_of(plus(shared.scores[thread_index()], -origin));
    }
    sync_block();
    const float rescale = exp_of(plus(old, -origin));
    sum = madd(sum, rescale, warp_sum(plus(shared.weights[lane], shared.weights[lane + kWarpLanes])));
    const Element* values = static_cast<const Element*>(p.values) + tile_at(p, query, tile);
    LOCKSTEP_UNROLL
    for (int column = 0; column < kColumns; ++column) {
      const int i = column * kAttendThreads + thread_index();
      if (i >= p.head_dim) break;
      float value = times(result[column], rescale);
      for (int token = 0; token < kTileTokens; ++token) {
        if (!is_seen(p, query, tile * kTileTokens + token)) continue;
        value = madd(shared.weights[token], Rows::read(values[static_cast<int64_t>(token) * p.head_dim + i]), value);
      }
      result[column] = value;
    }
    sync_block();
  }
  LOCKSTEP_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    const int i = column * kAttendThreads + thread_index();
    if (i < p.head_dim) y[i] = Rows::write(divide(result[column], sum));
  }
}

}  // namespace

LOCKSTEP_KERNEL(attend_f32, AttendParameters, kAttendThreads) { attend<F32Rows>(p); }
LOCKSTEP_KERNEL(attend_bf16, AttendParameters, kAttendThreads) { attend<Bf16Rows>(p); }
LOCKSTEP_KERNEL(attend_f16, AttendParameters, kAttendThreads) { attend<F16Rows>(p); }

}  // namespace lockstep::cuda
