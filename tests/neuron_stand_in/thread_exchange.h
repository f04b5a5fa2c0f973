// Ranks as threads of one process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "tests/neuron_stand_in/interpreter/exchange.h"

namespace lockstep::stand_in {

/// Exchanges data between the threads of one run.
class ThreadMeeting {
 public:
  explicit ThreadMeeting(std::chrono::seconds deadline) : deadline_(deadline) {}

  Outcome all_gather(int64_t rank, std::span<const int64_t> group, std::span<const std::byte> own,
                     std::span<std::byte> all);

 private:
  /// One collective of one group under way.
  struct Round {
    std::map<int64_t, std::vector<std::byte>> given;
    size_t fetched = 0;
  };

  const std::chrono::seconds deadline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::vector<int64_t>, Round> rounds_;  // by group
};

class ThreadExchange final : public Exchange {
 public:
  /// `meeting` outlives the exchange.
  ThreadExchange(ThreadMeeting& meeting, int64_t rank) : meeting_(meeting), rank_(rank) {}

  Outcome all_gather(std::span<const int64_t> group, std::span<const std::byte> own,
                     std::span<std::byte> all) override {
    return meeting_.all_gather(rank_, group, own, all);
  }

 private:
  ThreadMeeting& meeting_;
  const int64_t rank_;
};

}  // namespace lockstep::stand_in
