#include "transport/loopback/loopback.h"

#include <deque>
#include <mutex>

#include "runtime/core/check.h"
#include "transport/exchange.h"
#include "transport/region/region_communicator.h"

namespace lockstep::transport::loopback {

using region::Layout;
using region::Memory;
using region::RegionCommunicator;
using region::View;

namespace {
constexpr size_t kBootstrapMessage = 64 * 1024;
enum Purpose { kForBootstrap, kForCommunicator, kPurposes };
}  // namespace

/// The regions of the group. The k-th endpoint that one rank makes for a purpose meets the k-th of every other.
class Group {
 public:
  Group(int size, size_t message_bytes, Crowding crowding)
      : size_(size),
        layouts_{Layout::of(size, kBootstrapMessage), Layout::of(size, message_bytes)},
        crowded_(crowding == Crowding::kCrowded || static_cast<size_t>(size) > own_hardware_threads().size()),
        made_{std::vector<size_t>(size), std::vector<size_t>(size)} {}

  int size() const { return size_; }
  bool is_crowded() const { return crowded_; }
  /// Of the process, read by the first rank that asks.
  const OwnPlace& place() {
    std::call_once(place_is_known_, [this] { place_ = own_place(); });
    return place_;
  }

  View next_region(Purpose purpose, int rank) {
    const std::lock_guard lock(mutex_);
    std::deque<Memory>& regions = regions_[purpose];
    const size_t index = made_[purpose][rank]++;
    if (index == regions.size()) regions.push_back(Memory::anonymous(layouts_[purpose].bytes()).value());
    return {regions[index].data(), layouts_[purpose]};
  }

 private:
  const int size_;
  const Layout layouts_[kPurposes];
  const bool crowded_;
  std::once_flag place_is_known_;
  OwnPlace place_;
  std::mutex mutex_;
  std::deque<Memory> regions_[kPurposes];
  std::vector<size_t> made_[kPurposes];  // [rank]
};

namespace {

std::unique_ptr<RegionCommunicator> make_endpoint(const std::shared_ptr<Group>& group, Purpose purpose, int rank,
                                                  const WaitOptions& wait) {
  LOCKSTEP_CHECK(0 <= rank && rank < group->size(), rank, group->size());
  return std::make_unique<RegionCommunicator>(
      group->next_region(purpose, rank),
      // Past the cache, the safer choice without knowing the distance between the threads' cores
      // (copy_out.h).
      region::Member{
          .name = "loopback", .rank = rank, .crowded = group->is_crowded(), .past_cache = true, .owner = group},
      wait);
}

}  // namespace

std::shared_ptr<Group> make_group(int size, size_t message_bytes, Crowding crowding) {
  LOCKSTEP_CHECK(size >= 1, size);
  return std::make_shared<Group>(size, message_bytes, crowding);
}

std::unique_ptr<Bootstrap> make_bootstrap(std::shared_ptr<Group> group, int rank, const WaitOptions& wait) {
  auto endpoint = make_endpoint(group, kForBootstrap, rank, wait);
  return make_bootstrap_over(std::move(endpoint), "threads", [group = std::move(group)] { return group->place(); });
}

std::unique_ptr<HostCommunicator> make_communicator(std::shared_ptr<Group> group, int rank, const WaitOptions& wait) {
  return make_endpoint(group, kForCommunicator, rank, wait);
}

}  // namespace lockstep::transport::loopback
