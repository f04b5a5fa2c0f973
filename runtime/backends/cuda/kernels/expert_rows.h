// Products of experts with their own rows. What multiplies, elements or codes, is a parameter.
#pragma once

#include "runtime/backends/cuda/kernels/activations.h"
#include "runtime/backends/cuda/kernels/sum_tile.h"

namespace lockstep::cuda {

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

/// The sum of the plain parts in ascending order.
template <int kGroups>
LOCKSTEP_DEVICE float fold_plain(const TileSums<kGroups>& sums, int group, int element) {
  float sum = sums.parts[0][group][element];
  for (int part = 1; part < kPlainParts; ++part) sum = plus(sum, sums.parts[part][group][element]);
  return sum;
}

/// `sum(is_up, tile, part, row_at, to)` makes a part of a tile's sums; `row_at(row)` is the number of a row of x,
/// negative: none.
template <typename Rows, int kGroups, typename Sum>
LOCKSTEP_DEVICE void experts_inner(const ExpertsInnerParameters& p, Sum sum) {
  using Element = typename Rows::Element;
  InnerShared<kGroups>& shared = shared_memory<InnerShared<kGroups>>();
  const int tiles = (p.columns + kTileOutputs - 1) / kTileOutputs;
  const int expert = block_index() / tiles;
  const int warp = thread_index() / 32;
  const int32_t* list = p.list + static_cast<int64_t>(expert) * p.rows;
  const int count = p.counts[expert];
  for (int first = 0; first < count; first += kGroups * kTileRows) {
    const auto row_at = [&](int row) { return first + row < count ? list[first + row] : -1; };
    LOCKSTEP_NO_UNROLL
    for (int i = 0; i < 2; ++i) {
      const bool is_up = i == 1;
      sum(is_up, block_index(), p.parts[warp], row_at, (is_up ? shared.up : shared.gate).parts[warp]);
    }
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

/// The sums over experts of a tile of outputs, of some rows. `sum(tile, part, row_at, to)` makes a part of a tile's
/// sums; `row_at(row)` is the number of a row of the inner values, negative: none.
template <typename Rows, int kGroups, typename Sum>
class DownRows {
  using Element = typename Rows::Element;
  using Shared = DownShared<kGroups>;

 public:
  LOCKSTEP_DEVICE DownRows(const ExpertsDownParameters& p, Sum sum, Shared& shared, int first_row)
      : p_(p), sum_(sum), shared_(shared), first_row_(first_row), rows_(used(p.rows)) {}

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
      const int place = place_of(row, part.expert);
      return place < 0 ? -1 : (first_row_ + row) * p_.most + place;
    };
    const int tiles = (p_.hidden + kTileOutputs - 1) / kTileOutputs;
    sum_(static_cast<int64_t>(part.expert) * tiles + block_index(), part.sum, row_at, to);
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
  const Sum sum_;
  Shared& shared_;
  const int first_row_;
  const int rows_;
};

template <typename Rows, int kGroups, typename Sum>
LOCKSTEP_DEVICE void experts_down(const ExpertsDownParameters& p, Sum sum) {
  DownShared<kGroups>& shared = shared_memory<DownShared<kGroups>>();
  for (int first_row = 0; first_row < used(p.rows); first_row += kGroups * kTileRows) {
    DownRows<Rows, kGroups, Sum>(p, sum, shared, first_row).run();
  }
}

static_assert(sizeof(InnerShared<1>) == kExpertsInnerFewSharedBytes &&
              sizeof(DownShared<1>) == kExpertsDownFewSharedBytes);
static_assert(sizeof(InnerShared<4>) == kExpertsInnerSharedBytes && sizeof(DownShared<4>) == kExpertsDownSharedBytes);

}  // namespace lockstep::cuda
