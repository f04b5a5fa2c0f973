// Mixtures of experts: routing, the lists of rows by expert, and the two products of an expert over its own rows.
#include "runtime/backends/cuda/kernels/expert_rows.h"
#include "runtime/backends/cuda/kernels/routes.h"
#include "runtime/backends/cuda/kernels/sums.h"

namespace lockstep::cuda {
namespace {

struct ListShared {
  int32_t counts[kListThreads];
};

/// One part of the sums of some rows of one expert. `row_at(row)` is a row of x, null: none.
template <typename Rows, int kGroups, typename RowAt>
LOCKSTEP_DEVICE void sum_expert(const void* packed, int64_t tile, int64_t k_steps, const SumPart& part, RowAt row_at,
                                float (&to)[kGroups][kTileElements]) {
  using Element = typename Rows::Element;
  const Element* weights = static_cast<const Element*>(packed) + (tile * k_steps + part.first_step) * 256;
  const int end = part.end_column - part.first_column;
  if constexpr (sizeof(Element) == 4) {
    const int columns = end < part.steps * kStepColumns ? end : part.steps * kStepColumns;
    sum_part_f32<kGroups>(
        weights, columns,
        [&](int group, int row, int column) {
          const Element* x = row_at(group * kTileRows + row);
          return x == nullptr ? 0.0f : x[part.first_column + column];
        },
        to);
  } else {
    sum_part<Rows, kGroups>(
        weights, part.steps,
        [&](int group, int row, int column) {
          const Element* x = row_at(group * kTileRows + row);
          return x == nullptr ? 0u : pair_at<Rows>(x + part.first_column, column, end);
        },
        to);
  }
}

/// The rows of `stride` elements at `x`, as `sum_expert` takes them.
template <typename Element, typename RowAt>
LOCKSTEP_DEVICE auto rows_at(const void* x, int64_t stride, RowAt row_at) {
  return [=](int row) {
    const int at = row_at(row);
    return at < 0 ? nullptr : static_cast<const Element*>(x) + at * stride;
  };
}

template <typename Rows, int kGroups>
LOCKSTEP_DEVICE void inner_of_elements(const ExpertsInnerParameters& p) {
  experts_inner<Rows, kGroups>(p, [&](bool is_up, int64_t tile, const SumPart& part, auto row_at, auto& to) {
    const auto rows = rows_at<typename Rows::Element>(p.x, p.x_stride, row_at);
    sum_expert<Rows, kGroups>(is_up ? p.up : p.gate, tile, p.k_steps, part, rows, to);
  });
}

template <typename Rows, int kGroups>
LOCKSTEP_DEVICE void down_of_elements(const ExpertsDownParameters& p) {
  experts_down<Rows, kGroups>(p, [&](int64_t tile, const SumPart& part, auto row_at, auto& to) {
    const auto rows = rows_at<typename Rows::Element>(p.inner, p.columns, row_at);
    sum_expert<Rows, kGroups>(p.down, tile, p.k_steps, part, rows, to);
  });
}

}  // namespace

LOCKSTEP_KERNEL(route, RouteParameters, kRouteThreads) {
  const int64_t row = static_cast<int64_t>(block_index()) * (kRouteThreads / kWarpLanes) + thread_index() / kWarpLanes;
  if (row >= used(p.rows)) return;  // the same on all lanes
  const int lane = thread_index() % kWarpLanes;
  const float* x = p.x + row * p.x_stride;
  float* y = p.y + row * p.experts;
  if (p.is_sigmoid != 0 || p.bias != nullptr || p.groups > 1 || p.least_sum != 0.0f) return route_by_scores(p, x, y);
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
  if (p.is_over_all != 0) {
    sum = 0.0f;
    for (int expert = lane; expert < p.experts; expert += kWarpLanes) {
      const float weight = exp_of(plus(x[expert], -highest));
      if (weight == weight) sum = plus(sum, weight);  // a NaN has no share
    }
    sum = sum_of_lanes(sum);
  }
  for (int expert = lane; expert < p.experts; expert += kWarpLanes) {
    y[expert] = y[expert] < 0.0f ? 0.0f : times(divide(y[expert], sum), p.scale);
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

LOCKSTEP_KERNEL(experts_inner_few_f32, ExpertsInnerParameters, kProductThreads) { inner_of_elements<F32Rows, 1>(p); }
LOCKSTEP_KERNEL(experts_inner_few_bf16, ExpertsInnerParameters, kProductThreads) { inner_of_elements<Bf16Rows, 1>(p); }
LOCKSTEP_KERNEL(experts_inner_few_f16, ExpertsInnerParameters, kProductThreads) { inner_of_elements<F16Rows, 1>(p); }
LOCKSTEP_KERNEL(experts_inner_f32, ExpertsInnerParameters, kProductThreads) { inner_of_elements<F32Rows, 4>(p); }
LOCKSTEP_KERNEL(experts_inner_bf16, ExpertsInnerParameters, kProductThreads) { inner_of_elements<Bf16Rows, 4>(p); }
LOCKSTEP_KERNEL(experts_inner_f16, ExpertsInnerParameters, kProductThreads) { inner_of_elements<F16Rows, 4>(p); }
LOCKSTEP_KERNEL(experts_down_few_f32, ExpertsDownParameters, kProductThreads) { down_of_elements<F32Rows, 1>(p); }
LOCKSTEP_KERNEL(experts_down_few_bf16, ExpertsDownParameters, kProductThreads) { down_of_elements<Bf16Rows, 1>(p); }
LOCKSTEP_KERNEL(experts_down_few_f16, ExpertsDownParameters, kProductThreads) { down_of_elements<F16Rows, 1>(p); }
LOCKSTEP_KERNEL(experts_down_f32, ExpertsDownParameters, kProductThreads) { down_of_elements<F32Rows, 4>(p); }
LOCKSTEP_KERNEL(experts_down_bf16, ExpertsDownParameters, kProductThreads) { down_of_elements<Bf16Rows, 4>(p); }
LOCKSTEP_KERNEL(experts_down_f16, ExpertsDownParameters, kProductThreads) { down_of_elements<F16Rows, 4>(p); }

}  // namespace lockstep::cuda
