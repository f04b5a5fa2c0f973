// Mixtures of experts: routing, the lists of rows by expert, and the two products of an expert over its own rows.
#include "runtime/backends/cuda/kernels/activations.h"
#include "runtime/backends/cuda/kernels/sum_tile.h"
#include "runtime/backends/cuda/kernels/sums.h"

namespace lockstep::cuda {
namespace {

struct ListShared {
  int32_t counts[kListThreads];
};

struct InnerShared {
  TileSums<1> gate;
  TileSums<1> up;
};

struct DownShared {
  TileSums<1> sums;
  float leaf[kTileElements];
};

/// One part of the sums of up to 8 rows of one expert. `row_at(row)` is a row of x, null: none.
template <typename Rows, typename RowAt>
LOCKSTEP_DEVICE void sum_expert(const void* packed, int64_t tile, int64_t k_steps, const SumPart& part, RowAt row_at,
                                float (&to)[1][kTileElements]) {
  using Element = typename Rows::Element;
  const Element* weights = static_cast<const Element*>(packed) + (tile * k_steps + part.first_step) * 256;
  const int end = part.end_column - part.first_column;
  if constexpr (sizeof(Element) == 4) {
    const int columns = end < part.steps * kStepColumns ? end : part.steps * kStepColumns;
    sum_part_f32<1>(
        weights, columns,
        [&](int, int row, int column) {
          const Element* x = row_at(row);
          return x == nullptr ? 0.0f : x[part.first_column + column];
        },
        to);
  } else {
    sum_part<Rows, 1>(
        weights, part.steps,
        [&](int, int row, int column) {
          const Element* x = row_at(row);
          return x == nullptr ? 0u : pair_at<Rows>(x + part.first_column, column, end);
        },
        to);
  }
}

/// The sum of the plain parts in ascending order.
LOCKSTEP_DEVICE float fold_plain(const TileSums<1>& sums, int element) {
  float sum = sums.parts[0][0][element];
  for (int part = 1; part < kPlainParts; ++part) sum = plus(sum, sums.parts[part][0][element]);
  return sum;
}

template <typename Rows>
LOCKSTEP_DEVICE void experts_inner(const ExpertsInnerParameters& p) {
  using Element = typename Rows::Element;
  InnerShared& shared = shared_memory<InnerShared>();
  const int tiles = (p.columns + kTileOutputs - 1) / kTileOutputs;
  const int expert = block_index() / tiles;
  const int warp = thread_index() / 32;
  const int32_t* list = p.list + static_cast<int64_t>(expert) * p.rows;
  const int count = p.counts[expert];
  for (int first = 0; first < count; first += kTileRows) {
    const auto row_at = [&](int row) {
      return first + row < count ? static_cast<const Element*>(p.x) + list[first + row] * p.x_stride : nullptr;
    };
    sum_expert<Rows>(p.gate, block_index(), p.k_steps, p.parts[warp], row_at, shared.gate.parts[warp]);
    sum_expert<Rows>(p.up, block_index(), p.k_steps, p.parts[warp], row_at, shared.up.parts[warp]);
    sync_block();
    const int element = thread_index();
    const int column = block_index() % tiles * kTileOutputs + element / kTileRows;
    const int row = first + element % kTileRows;
    if (element < kTileElements && column < p.columns && row < count) {
      float gate = fold_plain(shared.gate, element);
      float up = fold_plain(shared.up, element);
      if (p.gate_bias != nullptr) {
        const int64_t at = static_cast<int64_t>(expert) * p.columns + column;
        gate = plus(gate, Rows::read(static_cast<const Element*>(p.gate_bias)[at]));
        up = plus(up, Rows::read(static_cast<const Element*>(p.up_bias)[at]));
      }
      const float value = p.activation == kClampedSwiglu ? clamped_swiglu(gate, up, p.limit, p.alpha)
                                                         : times(activate(p.activation, gate), up);
      const int64_t token = list[row];
      const int64_t place = p.places[token * p.experts + expert];
      static_cast<Element*>(p.y)[(token * p.most + place) * p.columns + column] = Rows::write(value);
    }
    sync_block();
  }
}

template <typename Rows>
LOCKSTEP_DEVICE void experts_down(const ExpertsDownParameters& p) {
  using Element = typename Rows::Element;
  DownShared& shared = shared_memory<DownShared>();
  const int tiles = (p.hidden + kTileOutputs - 1) / kTileOutputs;
  const int warp = thread_index() / 32;
  const int rows = used(p.rows);
  const int element = thread_index();  // those of a tile own one
  const int output = block_index() * kTileOutputs + element / kTileRows;
  for (int first_row = 0; first_row < rows; first_row += kTileRows) {
    const int own_row = first_row + element % kTileRows;
    if (element < kTileElements) shared.leaf[element] = 0.0f;
    int height = 0;
    for (int first = 0; first < p.part_count; first += kProductWarps) {
      if (first + warp < p.part_count) {
        const ExpertPart& part = p.parts[first + warp];
        const auto place_of = [&](int row) {
          return first_row + row < rows ? p.places[static_cast<int64_t>(first_row + row) * p.experts + part.expert]
                                        : -1;
        };
        int has_rows = 0;  // the same on all lanes
        for (int row = 0; row < kTileRows; ++row) has_rows |= place_of(row) >= 0 ? 1 : 0;
        if (has_rows != 0) {
          const auto row_at = [&](int row) {
            const int64_t place = place_of(row);
            const Element* inner = static_cast<const Element*>(p.inner);
            return place < 0 ? nullptr : inner + ((first_row + row) * static_cast<int64_t>(p.most) + place) * p.columns;
          };
          sum_expert<Rows>(p.down, static_cast<int64_t>(part.expert) * tiles + block_index(), p.k_steps, part.sum,
                           row_at, shared.sums.parts[warp]);
        }
      }
      sync_block();
      for (int i = first; i < first + kProductWarps && i < p.part_count; ++i) {
        const ExpertPart& part = p.parts[i];
        if (element < kTileElements) {
          const int64_t at = static_cast<int64_t>(own_row) * p.experts + part.expert;
          if (own_row < rows && output < p.hidden && p.places[at] >= 0) {
            float value = shared.sums.parts[i - first][0][element];
            if (part.has_bias != 0) {
              const int64_t bias = static_cast<int64_t>(part.expert) * p.hidden + output;
              value = plus(value, Rows::read(static_cast<const Element*>(p.bias)[bias]));
            }
            const float route = p.route[own_row * p.route_stride + p.first_expert + part.expert];
            shared.leaf[element] = madd(route, value, shared.leaf[element]);
          }
          if (part.ends != 0) {
            float sum = shared.leaf[element];
            shared.leaf[element] = 0.0f;
            push<1>(shared.sums.stack, 0, element, height, part.sum.merges, sum);
            if (part.sum.root >= 0 && own_row < rows && output < p.hidden) {
              p.y[part.sum.root * p.y_plane + own_row * p.y_stride + output] = sum;
            }
          }
        }
        if (part.ends != 0) height = part.sum.root < 0 ? height + 1 - part.sum.merges : 0;
      }
      sync_block();
    }
  }
}

}  // namespace

static_assert(sizeof(InnerShared) == kExpertsInnerSharedBytes && sizeof(DownShared) == kExpertsDownSharedBytes);

LOCKSTEP_KERNEL(route, RouteParameters, kRouteThreads) {
  const int64_t row = static_cast<int64_t>(block_index()) * (kRouteThreads / kWarpLanes) + thread_index() / kWarpLanes;
  if (row >= used(p.rows)) return;  // the same on all lanes
  const int lane = thread_index() % kWarpLanes;
  const float* x = p.x + row * p.x_stride;
  float* y = p.y + row * p.experts;
  for (int expert = lane; expert < p.experts; expert += kWarpLanes) y[expert] = -1.0f;  // not chosen yet
  sync_warp();
  float highest = 0.0f;
  float sum = 0.0f;
  for (int choice = 0; choice < p.chosen; ++choice) {
    float best = -infinity();
    int32_t at = p.experts;
    for (int expert = lane; expert < p.experts; expert += kWarpLanes) {
      if (y[expert] >= 0.0f) continue;
      if (at == p.experts || x[expert] > best) {
        best = x[expert];
        at = expert;
      }
    }
    for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) {
      const float other = shuffle_xor(best, mask);
      const int32_t other_at = shuffle_xor(at, mask);
      const bool takes = other_at < p.experts && (at == p.experts || other > best || (other == best && other_at < at));
      if (takes) {
        best = other;
        at = other_at;
      }
    }
    if (choice == 0) highest = best;
    const float weight = exp_of(plus(best, -highest));
    sum = plus(sum, weight);
    if (lane == at % kWarpLanes) y[at] = weight;
    sync_warp();
  }
  for (int expert = lane; expert < p.experts; expert += kWarpLanes) {
    y[expert] = y[expert] < 0.0f ? 0.0f : divide(y[expert], sum);
  }
}

LOCKSTEP_KERNEL(list_experts, ListExpertsParameters, kListThreads) {
  ListShared& shared = shared_memory<ListShared>();
  const int expert = block_index();
  const int rows = used(p.rows);
  const int share = (rows + kListThreads - 1) / kListThreads;
  const int begin = thread_index() * share;
  const int end = begin + share < rows ? begin + share : rows;
  const auto is_routed = [&](int row, int which) {
    return (p.slot == nullptr || p.slot[row] >= 0) && p.route[row * p.route_stride + p.first_expert + which] != 0.0f;
  };
  int count = 0;
  for (int row = begin; row < end; ++row) count += is_routed(row, expert) ? 1 : 0;
  shared.counts[thread_index()] = count;
  sync_block();
  int at = 0;
  for (int thread = 0; thread < thread_index(); ++thread) at += shared.counts[thread];
  for (int row = begin; row < end; ++row) {
    int place = -1;
    if (is_routed(row, expert)) {
      place = 0;
      for (int other = 0; other < expert; ++other) place += is_routed(row, other) ? 1 : 0;
      p.list[static_cast<int64_t>(expert) * p.rows.rows + at++] = row;
    }
    p.places[static_cast<int64_t>(row) * p.experts + expert] = place;
  }
  if (thread_index() == kListThreads - 1) p.counts[expert] = at;
}

LOCKSTEP_KERNEL(experts_inner_f32, ExpertsInnerParameters, kProductThreads) { experts_inner<F32Rows>(p); }
LOCKSTEP_KERNEL(experts_inner_bf16, ExpertsInnerParameters, kProductThreads) { experts_inner<Bf16Rows>(p); }
LOCKSTEP_KERNEL(experts_inner_f16, ExpertsInnerParameters, kProductThreads) { experts_inner<F16Rows>(p); }
LOCKSTEP_KERNEL(experts_down_f32, ExpertsDownParameters, kProductThreads) { experts_down<F32Rows>(p); }
LOCKSTEP_KERNEL(experts_down_bf16, ExpertsDownParameters, kProductThreads) { experts_down<Bf16Rows>(p); }
LOCKSTEP_KERNEL(experts_down_f16, ExpertsDownParameters, kProductThreads) { experts_down<F16Rows>(p); }

}  // namespace lockstep::cuda
