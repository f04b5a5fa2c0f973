#include "transport/two_level/two_level.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "runtime/core/check.h"
#include "transport/tree_finisher.h"
#include "transport/two_level/two_level_communicator.h"
#include "transport/waiting.h"

namespace lockstep::transport::two_level {
namespace {

constexpr int64_t kLineElements = 16;  // f32 of a cache line

void grow(auto& scratch, size_t size) {
  if (scratch.size() < size) scratch.resize(size);
}

std::byte* copy(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  return to + bytes;
}

bool in_order(const Hosts& hosts) { return std::is_sorted(hosts.host_of.begin(), hosts.host_of.end()); }

int64_t total(std::span<const int64_t> counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

}  // namespace

TwoLevelCommunicator::TwoLevelCommunicator(Hosts hosts, int rank, Parts parts, const WaitOptions& wait,
                                           const Options& options)
    : hosts_(std::move(hosts)),
      rank_(rank),
      local_(hosts_.local_of[static_cast<size_t>(rank)]),
      hosts_in_order_(in_order(hosts_)),
      parts_(std::move(parts)),
      wait_(wait),
      options_(options),
      slices_(hosts_.of(rank).ranks.size()),
      within_counts_(hosts_.of(rank).ranks.size()),
      between_counts_(hosts_.hosts.size()) {
  LOCKSTEP_CHECK(parts_.within->size() == static_cast<int>(slices_.size()) && parts_.within->rank() == local_,
                 parts_.within->size(), parts_.within->rank(), local_);
  LOCKSTEP_CHECK((parts_.between != nullptr) == on_rail(hosts_.rails()), rank, hosts_.rails());
  LOCKSTEP_CHECK(parts_.between == nullptr || parts_.between->size() == hosts_.count(), hosts_.count());
}

std::string TwoLevelCommunicator::name() const { return "two-level"; }

int TwoLevelCommunicator::rails_for(int64_t bytes) const {
  return static_cast<int>(std::clamp<int64_t>(bytes / options_.rail_bytes, 1, hosts_.rails()));
}

const device::HostLevels& TwoLevelCommunicator::levels_of(const device::TreeSum& sum) {
  const auto known = std::find_if(sums_.begin(), sums_.end(), [&](const auto& s) { return s.split == sum.split; });
  if (known != sums_.end()) return known->levels;
  return sums_
      .emplace_back(PlannedSum{sum.split, device::divide_between_hosts(sum.finish, hosts_, hosts_.host_of[rank_])})
      .levels;
}

Result<void> TwoLevelCommunicator::all_reduce(const device::TreeSum& sum, std::span<const float> roots,
                                              std::span<float> dst, device::Stream) {
  LOCKSTEP_CHECK(sum.split.ranks() == size(), sum.split.ranks(), size());
  LOCKSTEP_TRY_VOID(enter("all_reduce", roots.size_bytes()));
  const device::HostLevels& levels = levels_of(sum);
  const int64_t row = options_.piece_bytes / static_cast<int64_t>(sizeof(float)) / levels.most_roots;
  const int64_t step = std::max(kLineElements, row / kLineElements * kLineElements);
  const auto elements = static_cast<int64_t>(dst.size());
  for (int64_t begin = 0; begin < elements; begin += step) {
    LOCKSTEP_TRY_VOID(reduce_piece(levels, roots, dst, {begin, std::min(begin + step, elements)}));
  }
  return ok();
}

Result<void> TwoLevelCommunicator::reduce_piece(const device::HostLevels& levels, std::span<const float> roots,
                                                std::span<float> dst, Range piece) {
  const int rails = rails_for(piece.size() * static_cast<int64_t>(sizeof(float)));
  for (size_t local = 0; local < slices_.size(); ++local) {
    const bool carries = static_cast<int>(local) < rails;
    slices_[local] = carries ? slice_of(piece.size(), rails, static_cast<int>(local)) : Range{};
    within_counts_[local] = slices_[local].size() * static_cast<int64_t>(sizeof(float));
  }
  const Range own = slices_[static_cast<size_t>(local_)];
  const size_t brought = levels.within.size() * static_cast<size_t>(own.size());
  grow(brought_, brought);
  const std::span<float> host_roots = std::span(brought_).first(brought);
  LOCKSTEP_TRY_VOID(after(
      Stage::kCollect, parts_.within->reduce_slices({levels.within, piece, slices_}, roots, dst.size(), host_roots)));
  const std::span<float> whole = dst.subspan(static_cast<size_t>(piece.begin), static_cast<size_t>(piece.size()));
  const std::span<float> slice = whole.subspan(static_cast<size_t>(own.begin), static_cast<size_t>(own.size()));
  if (!slice.empty()) {
    LOCKSTEP_TRY_VOID(after(Stage::kBetween, parts_.between->finish_sum(levels.between, host_roots, slice)));
  }
  return after(Stage::kSpread, parts_.within->all_gather(std::as_bytes(slice), within_counts_,
                                                         std::as_writable_bytes(whole), device::Stream::host()));
}

Result<void> TwoLevelCommunicator::all_gather(std::span<const std::byte> src, std::span<const int64_t> counts,
                                              std::span<std::byte> dst, device::Stream) {
  LOCKSTEP_CHECK(static_cast<int>(counts.size()) == size(), counts.size(), size());
  LOCKSTEP_CHECK(static_cast<int64_t>(src.size()) == counts[rank_], src.size(), counts[rank_]);
  LOCKSTEP_CHECK(static_cast<int64_t>(dst.size()) == total(counts), dst.size(), total(counts));
  LOCKSTEP_TRY_VOID(enter("all_gather", src.size()));
  const int rails = rails_for(static_cast<int64_t>(dst.size()));
  LOCKSTEP_TRY_VOID(collect_parts(src, counts, rails));
  if (on_rail(rails)) {
    for (int host = 0; host < hosts_.count(); ++host) {
      between_counts_[host] = bytes_on_rail(counts, hosts_.hosts[host], local_, rails);
    }
    grow(received_, static_cast<size_t>(total(between_counts_)));
    const auto received = std::span(received_).first(static_cast<size_t>(total(between_counts_)));
    const auto own = static_cast<size_t>(between_counts_[static_cast<size_t>(hosts_.host_of[rank_])]);
    LOCKSTEP_TRY_VOID(after(Stage::kBetween, parts_.between->all_gather(std::span(carried_).first(own), between_counts_,
                                                                        received, device::Stream::host())));
  }
  return spread_parts(counts, rails, dst);
}

int64_t TwoLevelCommunicator::bytes_on_rail(std::span<const int64_t> counts, const Host& host, int rail,
                                            int rails) const {
  int64_t bytes = 0;
  for (size_t local = static_cast<size_t>(rail); local < host.ranks.size(); local += static_cast<size_t>(rails)) {
    bytes += counts[host.ranks[local]];
  }
  return bytes;
}

Result<void> TwoLevelCommunicator::collect_parts(std::span<const std::byte> src, std::span<const int64_t> counts,
                                                 int rails) {
  const Host& host = hosts_.of(rank_);
  const bool own_part_only = static_cast<int>(host.ranks.size()) <= rails;
  if (own_part_only) {
    grow(carried_, src.size());
    copy(carried_.data(), src.data(), static_cast<int64_t>(src.size()));
    return ok();
  }
  for (size_t local = 0; local < host.ranks.size(); ++local) within_counts_[local] = counts[host.ranks[local]];
  const auto bytes = static_cast<size_t>(total(within_counts_));
  grow(collected_, bytes);
  LOCKSTEP_TRY_VOID(after(
      Stage::kCollect,
      parts_.within->all_gather(src, within_counts_, std::span(collected_).first(bytes), device::Stream::host())));
  grow(carried_, bytes);
  std::byte* to = carried_.data();
  const std::byte* from = collected_.data();
  for (size_t local = 0; local < host.ranks.size(); from += within_counts_[local++]) {
    if (static_cast<int>(local) % rails == local_) to = copy(to, from, within_counts_[local]);
  }
  return ok();
}

Result<void> TwoLevelCommunicator::spread_parts(std::span<const int64_t> counts, int rails, std::span<std::byte> dst) {
  for (size_t local = 0; local < within_counts_.size(); ++local) {
    within_counts_[local] = 0;
    for (const Host& host : hosts_.hosts) {
      if (static_cast<int>(local) >= rails) continue;
      within_counts_[local] += bytes_on_rail(counts, host, static_cast<int>(local), rails);
    }
  }
  const bool in_place = hosts_in_order_ && rails == 1;
  if (!in_place) grow(spread_, dst.size());
  const std::span<std::byte> spread = in_place ? dst : std::span(spread_).first(dst.size());
  const auto own = static_cast<size_t>(within_counts_[static_cast<size_t>(local_)]);
  LOCKSTEP_TRY_VOID(after(Stage::kSpread, parts_.within->all_gather(std::span(received_).first(own), within_counts_,
                                                                    spread, device::Stream::host())));
  if (in_place) return ok();
  const std::byte* from = spread.data();
  for (int rail = 0; rail < rails; ++rail) {
    for (const Host& host : hosts_.hosts) {
      for (size_t local = static_cast<size_t>(rail); local < host.ranks.size(); local += static_cast<size_t>(rails)) {
        const int owner = host.ranks[local];
        copy(dst.data() + total(counts.first(static_cast<size_t>(owner))), from, counts[owner]);
        from += counts[owner];
      }
    }
  }
  return ok();
}

Result<void> TwoLevelCommunicator::broadcast(std::span<std::byte> bytes, int root, device::Stream) {
  LOCKSTEP_CHECK(0 <= root && root < size(), root, size());
  LOCKSTEP_TRY_VOID(enter("broadcast", root == rank_ ? bytes.size() : 0));
  const int root_host = hosts_.host_of[root];
  const int root_local = hosts_.local_of[root];
  const bool at_home = hosts_.host_of[rank_] == root_host;
  const int rail = root_local < hosts_.rails() ? root_local : 0;
  const auto between = [&]() -> Result<void> {
    if (local_ != rail) return ok();
    return after(Stage::kBetween, parts_.between->broadcast(bytes, root_host, device::Stream::host()));
  };
  if (!at_home) {
    LOCKSTEP_TRY_VOID(between());
    return after(Stage::kSpread, parts_.within->broadcast(bytes, rail, device::Stream::host()));
  }
  LOCKSTEP_TRY_VOID(after(Stage::kCollect, parts_.within->broadcast(bytes, root_local, device::Stream::host())));
  return between();
}

Result<void> TwoLevelCommunicator::barrier(device::Stream) {
  LOCKSTEP_TRY_VOID(enter("barrier", 0));
  LOCKSTEP_TRY_VOID(after(Stage::kCollect, parts_.within->barrier(device::Stream::host())));
  if (local_ == 0) {
    LOCKSTEP_TRY_VOID(after(Stage::kBetween, parts_.between->barrier(device::Stream::host())));
  }
  return after(Stage::kSpread, parts_.within->barrier(device::Stream::host()));
}

Result<void> TwoLevelCommunicator::enter(const char* operation, uint64_t own_bytes) {
  if (failure_) return *failure_;
  log_.enter(operation, own_bytes);
  if (wait_.abort->is_raised()) failure_ = *wait_.abort->reason();
  if (failure_) return *failure_;
  return ok();
}

Result<void> TwoLevelCommunicator::after(Stage stage, Result<void> done) {
  if (done.has_value()) return ok();
  const PartCommunicator& part =
      stage == Stage::kBetween ? *parts_.between : static_cast<const PartCommunicator&>(*parts_.within);
  failure_ = part.missing() ? expired(stage, part) : done.error();
  return *failure_;
}

/// Within a host the missing ranks are known. For another host only the rank of its rail is known, which may itself
/// wait for any rank of its host; and a rank that waits for a rail of its own host may be waiting for any other host.
Error TwoLevelCommunicator::expired(Stage stage, const PartCommunicator& part) const {
  std::set<int> ranks;
  bool any_other_host = false;
  const std::span<const int> peers = *part.missing();
  for (const int peer : peers) {
    if (stage == Stage::kBetween) {
      ranks.insert(hosts_.hosts[peer].ranks.begin(), hosts_.hosts[peer].ranks.end());
    } else {
      ranks.insert(hosts_.of(rank_).ranks[peer]);
      any_other_host |= stage == Stage::kSpread && peer < hosts_.rails();
    }
  }
  for (int rank = 0; rank < size() && any_other_host; ++rank) {
    if (hosts_.host_of[rank] != hosts_.host_of[rank_]) ranks.insert(rank);
  }
  std::set<int> hosts;
  for (const int rank : ranks) hosts.insert(hosts_.host_of[rank]);
  std::vector<std::string> names;
  for (const int host : hosts) names.push_back(hosts_.hosts[host].name);
  const std::string where = fmt::format("{} {}", names.size() == 1 ? "host" : "hosts", fmt::join(names, ", "));
  const std::vector<int> missing(ranks.begin(), ranks.end());
  return expired_error({.component = "transport/two_level",
                        .rank = rank_,
                        .operation = log_.last(),
                        .missing = missing,
                        .deadline = wait_.deadline,
                        .where = where});
}

std::unique_ptr<device::Communicator> make_communicator(Hosts hosts, int rank, Parts parts, const WaitOptions& wait,
                                                        const Options& options) {
  return std::make_unique<TwoLevelCommunicator>(std::move(hosts), rank, std::move(parts), wait, options);
}

}  // namespace lockstep::transport::two_level
