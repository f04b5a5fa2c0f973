// Sums over ranks by reading peers' memory: one kernel, no library, the additions of runtime/core/block_tree.h.
//
// Where every rank has one root and the tree is even, which is what sums of equal parts over 1, 2, 4 or 8 ranks are, a
// thread takes four elements and has the loads of all ranks under way at once; else one element, by the plan.
#include "runtime/backends/cuda/kernels/meet.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/sum_end.h"

namespace lockstep::cuda {
namespace {

/// Neighbouring elements that a thread moves together.
template <typename Element, int kWidth>
struct alignas(sizeof(Element) * kWidth) Neighbours {
  Element at[kWidth];
};

/// Sums by the plan.
struct ByPlan {
  static constexpr int kWidth = 1;

  LOCKSTEP_DEVICE static void add(const SumParameters& p, int64_t i, float (&sums)[kWidth]) {
    SumShared& shared = shared_roots(p.plan[p.meeting.ranks]);
    const int own = thread_index();
    const int64_t plane = static_cast<int64_t>(p.rows.rows) * p.columns;
    for (int rank = 0; rank < p.meeting.ranks; ++rank) {
      for (int root = p.plan[rank]; root < p.plan[rank + 1]; ++root) {
        shared.roots[root][own] = p.roots[rank][(root - p.plan[rank]) * plane + i];
      }
    }
    add_pairs(shared, p.plan + p.meeting.ranks + 1, p.additions);
    sums[0] = shared.roots[p.result][own];
  }
};

/// Sums of one root a rank along the even tree.
template <int kRanks>
struct ByEvenTree {
  static constexpr int kWidth = 4;

  LOCKSTEP_DEVICE static void add(const SumParameters& p, int64_t i, float (&sums)[kWidth]) {
    Neighbours<float, kWidth> roots[kRanks];
    LOCKSTEP_UNROLL
    for (int rank = 0; rank < kRanks; ++rank) {
      roots[rank] = *reinterpret_cast<const Neighbours<float, kWidth>*>(p.roots[rank] + i);
    }
    LOCKSTEP_UNROLL
    for (int apart = 1; apart < kRanks; apart *= 2) {
      LOCKSTEP_UNROLL
      for (int rank = 0; rank + apart < kRanks; rank += 2 * apart) {
        LOCKSTEP_UNROLL
        for (int k = 0; k < kWidth; ++k) roots[rank].at[k] = plus(roots[rank].at[k], roots[rank + apart].at[k]);
      }
    }
    LOCKSTEP_UNROLL
    for (int k = 0; k < kWidth; ++k) sums[k] = roots[0].at[k];
  }
};

/// The elements of one thread at a time.
template <typename Rows, typename By>
using Unit = Neighbours<typename Rows::Element, By::kWidth>;

template <typename Rows, typename By>
LOCKSTEP_DEVICE Unit<Rows, By>* units_of(void* elements) {
  return static_cast<Unit<Rows, By>*>(elements);
}

/// A unit of rounded sums, with the residual.
template <typename Rows, typename By>
LOCKSTEP_DEVICE Unit<Rows, By> finished(const SumParameters& p, int64_t unit) {
  float sums[By::kWidth];
  By::add(p, unit * By::kWidth, sums);
  Unit<Rows, By> result;
  if (p.residual == nullptr) {
    LOCKSTEP_UNROLL
    for (int k = 0; k < By::kWidth; ++k) result.at[k] = Rows::write(sums[k]);
    return result;
  }
  const Unit<Rows, By> residual = static_cast<const Unit<Rows, By>*>(p.residual)[unit];
  LOCKSTEP_UNROLL
  for (int k = 0; k < By::kWidth; ++k) {
    result.at[k] = Rows::write(plus(Rows::round(sums[k]), Rows::read(residual.at[k])));
  }
  return result;
}

/// Calls `work(i)` for this thread's units of [begin, end): those of a block are the same on every rank.
template <typename Work>
LOCKSTEP_DEVICE void for_own(int64_t begin, int64_t end, Work work) {
  const int64_t stride = static_cast<int64_t>(block_count()) * thread_count();
  for (int64_t i = begin + static_cast<int64_t>(block_index()) * thread_count() + thread_index(); i < end;
       i += stride) {
    work(i);
  }
}

template <typename By>
LOCKSTEP_DEVICE int64_t count_units(const SumParameters& p) {
  return static_cast<int64_t>(used(p.rows)) * p.columns / By::kWidth;
}

template <typename Rows, typename By>
LOCKSTEP_DEVICE void add_roots(const SumParameters& p) {
  auto* y = units_of<Rows, By>(p.y);
  for_own(0, count_units<By>(p), [&](int64_t i) { y[i] = finished<Rows, By>(p, i); });
}

template <typename Rows, typename By>
LOCKSTEP_DEVICE void add_slices(const SlicedSumParameters& p) {
  const int ranks = p.sum.meeting.ranks;
  const int own = p.sum.meeting.rank;
  const int64_t units = count_units<By>(p.sum);
  for_own(units * own / ranks, units * (own + 1) / ranks, [&](int64_t i) {
    const Unit<Rows, By> result = finished<Rows, By>(p.sum, i);
    for (int rank = 0; rank < ranks; ++rank) units_of<Rows, By>(p.slices[rank])[i] = result;
  });
  meet_ranks(p.sum.meeting, 1);
  auto* y = units_of<Rows, By>(p.sum.y);
  const auto* slices = units_of<Rows, By>(p.slices[own]);
  for (int rank = 0; rank < ranks; ++rank) {
    for_own(units * rank / ranks, units * (rank + 1) / ranks, [&](int64_t i) { y[i] = slices[i]; });
  }
}

template <typename Rows, typename Work>
LOCKSTEP_DEVICE void with_tree(const SumParameters& p, Work work) {
  const int even_ranks = p.is_even != 0 ? p.meeting.ranks : 0;
  if (even_ranks == 1) {
    work(Rows{}, ByEvenTree<1>{});
  } else if (even_ranks == 2) {
    work(Rows{}, ByEvenTree<2>{});
  } else if (even_ranks == 4) {
    work(Rows{}, ByEvenTree<4>{});
  } else if (even_ranks == 8) {
    work(Rows{}, ByEvenTree<8>{});
  } else {
    work(Rows{}, ByPlan{});
  }
}

/// Calls `work` with the type of y and the way to add.
template <typename Work>
LOCKSTEP_DEVICE void with_form(const SumParameters& p, Work work) {
  if (p.y_type == kF32) {
    with_tree<F32Rows>(p, work);
  } else if (p.y_type == kBf16) {
    with_tree<Bf16Rows>(p, work);
  } else {
    with_tree<F16Rows>(p, work);
  }
}

}  // namespace

LOCKSTEP_KERNEL(sum_of_ranks, SumParameters, kMeetThreads) {
  meet_ranks(p.meeting);
  with_form(p, [&]<typename Rows, typename By>(Rows, By) { add_roots<Rows, By>(p); });
}

LOCKSTEP_KERNEL(sum_of_roots, SumParameters, kMeetThreads) {
  follow_previous();
  with_form(p, [&]<typename Rows, typename By>(Rows, By) { add_roots<Rows, By>(p); });
}

LOCKSTEP_KERNEL(sum_in_slices, SlicedSumParameters, kMeetThreads) {
  meet_ranks(p.sum.meeting);
  with_form(p.sum, [&]<typename Rows, typename By>(Rows, By) { add_slices<Rows, By>(p); });
}

}  // namespace lockstep::cuda
