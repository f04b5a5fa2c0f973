// Mixtures of experts: routing, the lists of rows by expert, and the two products of an expert over its own rows.
#include "runtime/backends/cuda/kernels/activations.h"
#include "runtime/backends/cuda/kernels/routes.h"
#include "runtime/backends/cuda/kernels/sum_tile.h"
#include "runtime/backends/cuda/kernels/sums.h"

namespace lockstep::cuda {
namespace {

struct ListShared {
  int32_t counts[kListThreads];
};

template <int kGroups>
struct InnerShared {
  TileSums<kGroups> gate;
  TileSums<kGroups> up;
};

template <int kGroups>
struct DownShared {
  TileSums<kGroups> sums;
  float leaf[kGroups][kTileElements];
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

/// The sum of the plain parts in ascending order.
template <int kGroups>
LOCKSTEP_DEVICE float fold_plain(const TileSums<kGroups>& sums, int group, int element) {
  float sum = sums.parts[0][group][element];
  for (int part = 1; part < kPlainParts; ++part) sum = plus(sum, sums.parts[part][group][element]);
  return sum;
}

template <typename Rows, int kGroups>
LOCKSTEP_DEVICE void experts_inner(const ExpertsInnerParameters& p) {
  using Element = typename Rows::Element;
  InnerShared<kGroups>& shared = shared_memory<InnerShared<kGroups>>();
  const int tiles = (p.columns + kTileOutputs - 1) / kTileOutputs;
  const int expert = block_index() / tiles;
  const int warp = thread_index() / 32;
  const int32_t* list = p.list + static_cast<int64_t>(expert) * p.rows;
  const int count = p.counts[expert];
  for (int first = 0; first < count; first += kGroups * kTileRows) {
    const auto row_at = [&](int row) {
      return first + row < count ? static_cast<const Element*>(p.x) + list[first + row] * p.x_stride : nullptr;
    };
    sum_expert<Rows, kGroups>(p.gate, block_index(), p.k_steps, p.parts[warp], row_at, shared.gate.parts[warp]);
    sum_expert<Rows, kGroups>(p.up, block_index(), p.k_steps, p.parts[warp], row_at, shared.up.parts[warp]);
    sync_block();
    for (int i = thread_index(); i < kGroups * kTileElements; i += kProductThreads) {
      const int group = i / kTileElements;
      const int element = i % kTileElements;
      const int column = block_index() % tiles * kTileOutputs + element / kTileRows;
      const int row = first + group * kTileRows + element % kTileRows;
      if (column >= p.columns || row >= count) continue;
      float gate = fold_plain(shared.gate, group, element);
      float up = fold_plain(shared.up, group, element);
      if (p.gate_bias != nullptr) {
        const int64_t at = static_cast<int64_t>(expert) * p.columns + column;
        gate = plus(gate, Rows::read(static_cast<const Element*>(p.gate_bias)[at]));
        up = plus(up, Rows::read(static_cast<const Element*>(p.up_bias)[at]));
      }
      if (p.route != nullptr) {
        const float route = p.route[list[row] * p.route_stride + p.first_expert + expert];
        gate = times(gate, route);
        up = times(up, route);
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

/// The sums over experts of a tile of outputs, of some rows.
template <typename Rows, int kGroups>
class DownRows {
  using Element = typename Rows::Element;
  using Shared = DownShared<kGroups>;

 public:
  LOCKSTEP_DEVICE DownRows(const ExpertsDownParameters& p, Shared& shared, int first_row)
      : p_(p), shared_(shared), first_row_(first_row), rows_(used(p.rows)) {}

  LOCKSTEP_DEVICE void run() {
    for_own([&](int group, int element) { shared_.leaf[group][element] = 0.0f; });
    int height = 0;
    for (int first = 0; first < p_.part_count; first += kProductWarps) {
      const int own = first + thread_index() / 32;
      if (own < p_.part_count) sum_part_of(p_.parts[own], shared_.sums.parts[thread_index() / 32]);
      sync_block();
      for (int i = first; i < first + kProductWarps && i < p_.part_count; ++i) {
        const ExpertPart& part = p_.parts[i];
        for_own([&](int group, int element) { join(part, i - first, group, element, height); });
        if (part.ends != 0) height = part.sum.root < 0 ? height + 1 - part.sum.merges : 0;
      }
      sync_block();
    }
  }

 private:
  /// Calls `work` for this thread's elements of the tile.
  template <typename Work>
  LOCKSTEP_DEVICE void for_own(Work work) {
    for (int i = thread_index(); i < kGroups * kTileElements; i += kProductThreads) {
      work(i / kTileElements, i % kTileElements);
    }
  }

  /// Where the expert is among those of a row; −1: it is none of them.
  LOCKSTEP_DEVICE int place_of(int row, int expert) const {
    return first_row_ + row < rows_ ? p_.places[static_cast<int64_t>(first_row_ + row) * p_.experts + expert] : -1;
  }

  LOCKSTEP_DEVICE float route_of(int row, int expert) const {
    return p_.route == nullptr ? 1.0f : p_.route[row * p_.route_stride + p_.first_expert + expert];
  }

  LOCKSTEP_DEVICE void sum_part_of(const ExpertPart& part, float (&to)[kGroups][kTileElements]) {
    int has_rows = 0;  // the same on all lanes
    for (int row = 0; row < kGroups * kTileRows; ++row) has_rows |= place_of(row, part.expert) >= 0 ? 1 : 0;
    if (has_rows == 0) return;
    const auto row_at = [&](int row) {
      const int64_t place = place_of(row, part.expert);
      const Element* inner = static_cast<const Element*>(p_.inner);
      return place < 0 ? nullptr : inner + ((first_row_ + row) * static_cast<int64_t>(p_.most) + place) * p_.columns;
    };
    const int tiles = (p_.hidden + kTileOutputs - 1) / kTileOutputs;
    sum_expert<Rows, kGroups>(p_.down, static_cast<int64_t>(part.expert) * tiles + block_index(), p_.k_steps, part.sum,
                              row_at, to);
  }

  /// Adds a part to its leaf; where it ends the leaf, the leaf to the tree.
  LOCKSTEP_DEVICE void join(const ExpertPart& part, int which, int group, int element, int height) {
    const int row = group * kTileRows + element % kTileRows;
    const int output = block_index() * kTileOutputs + element / kTileRows;
    const bool is_inside = first_row_ + row < rows_ && output < p_.hidden;
    float& leaf = shared_.leaf[group][element];
    if (is_inside && place_of(row, part.expert) >= 0) {
      float value = shared_.sums.parts[which][group][element];
      if (part.has_bias != 0) {
        const int64_t bias = static_cast<int64_t>(part.expert) * p_.hidden + output;
        value = plus(value, Rows::read(static_cast<const Element*>(p_.bias)[bias]));
      }
      leaf = madd(route_of(first_row_ + row, part.expert), value, leaf);
    }
    if (part.ends == 0) return;
    float sum = leaf;
    leaf = 0.0f;
    push<kGroups>(shared_.sums.stack, group, element, height, part.sum.merges, sum);
    if (part.sum.root >= 0 && is_inside) {
      p_.y[part.sum.root * p_.y_plane + (first_row_ + row) * p_.y_stride + output] = sum;
    }
  }

  const ExpertsDownParameters& p_;
  Shared& shared_;
  const int first_row_;
  const int rows_;
};

template <typename Rows, int kGroups>
LOCKSTEP_DEVICE void experts_down(const ExpertsDownParameters& p) {
  DownShared<kGroups>& shared = shared_memory<DownShared<kGroups>>();
  for (int first_row = 0; first_row < used(p.rows); first_row += kGroups * kTileRows) {
    DownRows<Rows, kGroups>(p, shared, first_row).run();
  }
}

}  // namespace

static_assert(sizeof(InnerShared<1>) == kExpertsInnerFewSharedBytes &&
              sizeof(DownShared<1>) == kExpertsDownFewSharedBytes);
static_assert(sizeof(InnerShared<4>) == kExpertsInnerSharedBytes && sizeof(DownShared<4>) == kExpertsDownSharedBytes);

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

LOCKSTEP_KERNEL(experts_inner_few_f32, ExpertsInnerParameters, kProductThreads) { experts_inner<F32Rows, 1>(p); }
LOCKSTEP_KERNEL(experts_inner_few_bf16, ExpertsInnerParameters, kProductThreads) { experts_inner<Bf16Rows, 1>(p); }
LOCKSTEP_KERNEL(experts_inner_few_f16, ExpertsInnerParameters, kProductThreads) { experts_inner<F16Rows, 1>(p); }
LOCKSTEP_KERNEL(experts_inner_f32, ExpertsInnerParameters, kProductThreads) { experts_inner<F32Rows, 4>(p); }
LOCKSTEP_KERNEL(experts_inner_bf16, ExpertsInnerParameters, kProductThreads) { experts_inner<Bf16Rows, 4>(p); }
LOCKSTEP_KERNEL(experts_inner_f16, ExpertsInnerParameters, kProductThreads) { experts_inner<F16Rows, 4>(p); }
LOCKSTEP_KERNEL(experts_down_few_f32, ExpertsDownParameters, kProductThreads) { experts_down<F32Rows, 1>(p); }
LOCKSTEP_KERNEL(experts_down_few_bf16, ExpertsDownParameters, kProductThreads) { experts_down<Bf16Rows, 1>(p); }
LOCKSTEP_KERNEL(experts_down_few_f16, ExpertsDownParameters, kProductThreads) { experts_down<F16Rows, 1>(p); }
LOCKSTEP_KERNEL(experts_down_f32, ExpertsDownParameters, kProductThreads) { experts_down<F32Rows, 4>(p); }
LOCKSTEP_KERNEL(experts_down_bf16, ExpertsDownParameters, kProductThreads) { experts_down<Bf16Rows, 4>(p); }
LOCKSTEP_KERNEL(experts_down_f16, ExpertsDownParameters, kProductThreads) { experts_down<F16Rows, 4>(p); }

}  // namespace lockstep::cuda
