// Exchanges of ranks on several hosts: what a host makes alone, and what follows when the other hosts' parts are there.
#include "runtime/backends/cuda/kernels/meet.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/sum_end.h"

namespace lockstep::cuda {
namespace {

/// The rail whose columns hold `column`.
LOCKSTEP_DEVICE int rail_of(const int32_t* bounds, int column) {
  int rail = 0;
  while (column >= bounds[rail + 1]) ++rail;
  return rail;
}

LOCKSTEP_DEVICE void add_roots_of_host(const HostSumParameters& p) {
  const int ranks = p.meeting.ranks;
  const int own = thread_index();
  SumShared& shared = shared_roots(p.plan[ranks]);
  const int32_t* pairs = p.plan + ranks + 1;
  const int32_t* results = pairs + 2 * p.additions;
  const int width = p.end - p.begin;
  const int64_t plane = static_cast<int64_t>(p.rows.rows) * p.columns;
  const int64_t sum_plane = static_cast<int64_t>(p.rows.rows) * width;
  const int64_t elements = static_cast<int64_t>(used(p.rows)) * width;
  const int64_t stride = static_cast<int64_t>(block_count()) * thread_count();
  for (int64_t i = static_cast<int64_t>(block_index()) * thread_count() + own; i < elements; i += stride) {
    const int64_t at = i / width * p.columns + p.begin + i % width;
    for (int rank = 0; rank < ranks; ++rank) {
      for (int root = p.plan[rank]; root < p.plan[rank + 1]; ++root) {
        shared.roots[root][own] = p.roots[rank][(root - p.plan[rank]) * plane + at];
      }
    }
    add_pairs(shared, pairs, p.additions);
    for (int sum = 0; sum < p.sums; ++sum) p.y[sum * sum_plane + i] = shared.roots[results[sum]][own];
  }
}

LOCKSTEP_DEVICE void add_sums_of_hosts(const HostsSumParameters& p) {
  const int own = thread_index();
  SumShared& shared = shared_roots(p.roots);
  const int64_t elements = static_cast<int64_t>(used(p.rows)) * p.columns;
  const int64_t stride = static_cast<int64_t>(block_count()) * thread_count();
  for (int64_t i = static_cast<int64_t>(block_index()) * thread_count() + own; i < elements; i += stride) {
    const auto row = i / p.columns;
    const int column = static_cast<int>(i % p.columns);
    const int rail = rail_of(p.plan, column);
    const int64_t width = p.plan[rail + 1] - p.plan[rail];
    const float* received = p.received[rail] + row * width + column - p.plan[rail];
    for (int root = 0; root < p.roots; ++root) shared.roots[root][own] = received[root * p.rows.rows * width];
    add_pairs(shared, p.plan + p.rails + 1, p.additions);
    write_sum(p, i, shared.roots[p.result][own]);
  }
}

template <typename Element>
LOCKSTEP_DEVICE void take_owners(const HostsOwnersParameters& p) {
  const int32_t* host_of = p.plan + p.rails + 1;
  for (int64_t row = block_index(); row < used(p.rows); row += block_count()) {
    const int owner = p.slot[row] < 0 ? p.ranks : p.slot[row] / p.slots;
    Element* y = static_cast<Element*>(p.y) + row * p.y_stride;
    for (int i = thread_index(); i < p.kept; i += thread_count()) {
      Element value{0};
      if (owner < p.ranks) {
        const int column = p.first_kept + i;
        const int rail = rail_of(p.plan, column);
        const int64_t width = p.plan[rail + 1] - p.plan[rail];
        const int64_t row_of_host = host_of[owner] * static_cast<int64_t>(p.rows.rows) + row;
        value = static_cast<const Element*>(p.received[rail])[row_of_host * width + column - p.plan[rail]];
      }
      y[i] = value;
    }
  }
}

}  // namespace

LOCKSTEP_KERNEL(sum_of_host, HostSumParameters, kMeetThreads) {
  meet_ranks(p.meeting);
  add_roots_of_host(p);
}

LOCKSTEP_KERNEL(sum_of_hosts, HostsSumParameters, kMeetThreads) {
  meet_ranks(p.meeting);
  add_sums_of_hosts(p);
}

LOCKSTEP_KERNEL(owners_of_hosts_2, HostsOwnersParameters, kMeetThreads) {
  meet_ranks(p.meeting);
  take_owners<uint16_t>(p);
}

LOCKSTEP_KERNEL(owners_of_hosts_4, HostsOwnersParameters, kMeetThreads) {
  meet_ranks(p.meeting);
  take_owners<uint32_t>(p);
}

}  // namespace lockstep::cuda
