#include "transport/collective_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/core/check.h"

namespace lockstep::transport {
namespace {

BlockSplit one_leaf_each(int ranks) {
  BlockSplit split;
  split.bounds.resize(static_cast<size_t>(ranks) + 1);
  std::iota(split.bounds.begin(), split.bounds.end(), 0);
  return split;
}

template <typename T>
Error wrong_result(const device::Communicator& way, Collective collective, size_t place, T found, T expected) {
  return {ErrorKind::kInternal,
          fmt::format("[transport] rank {}: {} gives a wrong {}: found {} at element {}, expected {}; choose another "
                      "--communicator and report it",
                      way.rank(), way.name(), to_string(collective), found, place, expected),
          way.rank()};
}

// Small whole numbers: every order of additions gives the same sum.
float summand(int rank, size_t i) { return static_cast<float>((rank + 1) * static_cast<int>(i % 13 + 1)); }

Result<void> check_sum(device::Communicator& way, size_t elements) {
  const device::TreeSum sum(one_leaf_each(way.size()));
  std::vector<float> src(elements), dst(elements);
  for (size_t i = 0; i < elements; ++i) src[i] = summand(way.rank(), i);
  LOCKSTEP_TRY_VOID(way.all_reduce(sum, src, dst, device::Stream::host()));
  const int ranks = way.size() * (way.size() + 1) / 2;
  for (size_t i = 0; i < elements; ++i) {
    const float expected = summand(ranks - 1, i);
    if (dst[i] != expected) return wrong_result(way, Collective::kAllReduce, i, dst[i], expected);
  }
  return ok();
}

int byte_of(int rank, size_t i) { return (rank * 31 + static_cast<int>(i % 200)) % 251; }

Result<void> compare(const device::Communicator& way, Collective collective, std::span<const std::byte> found, int src,
                     size_t first) {
  for (size_t i = 0; i < found.size(); ++i) {
    const int expected = byte_of(src, i);
    if (static_cast<int>(found[i]) == expected) continue;
    return wrong_result(way, collective, first + i, static_cast<int>(found[i]), expected);
  }
  return ok();
}

std::vector<std::byte> bytes_of(int rank, size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(byte_of(rank, i));
  return bytes;
}

/// Ranks contribute different amounts, some of them nothing.
Result<void> check_gather(device::Communicator& way, size_t unit) {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < way.size(); ++rank) counts.push_back(static_cast<int64_t>(unit) * ((rank + 1) % 3));
  std::vector<std::byte> gathered(static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0})));
  const auto own = bytes_of(way.rank(), static_cast<size_t>(counts[static_cast<size_t>(way.rank())]));
  LOCKSTEP_TRY_VOID(way.all_gather(own, counts, gathered, device::Stream::host()));
  size_t begin = 0;
  for (int rank = 0; rank < way.size(); ++rank) {
    const auto count = static_cast<size_t>(counts[static_cast<size_t>(rank)]);
    LOCKSTEP_TRY_VOID(compare(way, Collective::kAllGather, std::span(gathered).subspan(begin, count), rank, begin));
    begin += count;
  }
  return ok();
}

Result<void> check_broadcast(device::Communicator& way, size_t count) {
  const int root = way.size() - 1;
  auto bytes = bytes_of(way.rank() == root ? root : root + 1, count);
  LOCKSTEP_TRY_VOID(way.broadcast(bytes, root, device::Stream::host()));
  return compare(way, Collective::kBroadcast, bytes, root, 0);
}

}  // namespace

std::string_view to_string(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce: return "all_reduce";
    case Collective::kAllGather: return "all_gather";
    case Collective::kBroadcast: return "broadcast";
  }
  return "unknown";
}

int timed_together(int64_t bytes) { return bytes <= (1 << 16) ? 8 : 1; }

CollectiveProbe::CollectiveProbe(int ranks, int64_t most_bytes, const Clock& clock)
    : clock_(clock),
      sum_(one_leaf_each(ranks)),
      counts_(static_cast<size_t>(ranks)),
      src_(static_cast<size_t>(most_bytes) / sizeof(float)),
      dst_(src_.size()) {}

Result<void> CollectiveProbe::run(device::Communicator& way, Collective collective, int64_t bytes) {
  const auto dst = std::span(dst_).first(static_cast<size_t>(bytes) / sizeof(float));
  const auto src = std::span(src_).first(dst.size());
  switch (collective) {
    case Collective::kAllReduce: return way.all_reduce(sum_, src, dst, device::Stream::host());
    case Collective::kBroadcast: return way.broadcast(std::as_writable_bytes(dst), 0, device::Stream::host());
    case Collective::kAllGather: break;
  }
  const int64_t share = bytes / way.size();
  std::fill(counts_.begin(), counts_.end(), share);
  return way.all_gather(std::as_bytes(src).first(static_cast<size_t>(share)), counts_,
                        std::as_writable_bytes(dst).first(static_cast<size_t>(share * way.size())),
                        device::Stream::host());
}

Result<double> CollectiveProbe::time(device::Communicator& way, std::span<const Collective> collectives, int64_t bytes,
                                     int repeats) {
  LOCKSTEP_CHECK(bytes <= std::ssize(dst_) * static_cast<int64_t>(sizeof(float)), bytes);
  LOCKSTEP_TRY_VOID(way.barrier(device::Stream::host()));
  const TimePoint start = clock_.now();
  for (int i = 0; i < repeats; ++i) {
    for (const Collective collective : collectives) LOCKSTEP_TRY_VOID(run(way, collective, bytes));
  }
  return to_seconds(clock_.now() - start) / repeats;
}

Result<void> check_collectives(device::Communicator& way) {
  for (const size_t elements : {size_t{1}, size_t{1000}, size_t{300'001}}) {
    LOCKSTEP_TRY_VOID(check_sum(way, elements));
    LOCKSTEP_TRY_VOID(check_gather(way, elements));
    LOCKSTEP_TRY_VOID(check_broadcast(way, elements));
  }
  return ok();
}

}  // namespace lockstep::transport
