// Checks of the weights in memory while a model runs.
//
//   packed weights  ██████░░░░░░░░░░░░   a block of 1 MiB at a time, spread over the period
//                   first pass: sums; each later pass: compared with them
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/tensor_sum.h"
#include "runtime/device/backend.h"

namespace lockstep::model {

/// Reads the weights of one rank on a separate thread.
class WeightWatch {
 public:
  /// Called once, on the watch's thread, with the name of a weight that has changed; the watch is then over.
  using OnChange = std::function<void(std::string_view weight)>;

  /// Checks all `weights`, which outlive the watch, once in each `period`; sums them in the first tenth of it.
  WeightWatch(std::vector<device::ResidentWeight> weights, Duration period, OnChange on_change);
  ~WeightWatch();
  WeightWatch(const WeightWatch&) = delete;
  WeightWatch& operator=(const WeightWatch&) = delete;

 private:
  struct Block {
    std::string_view weight;
    std::span<const std::byte> bytes;
    TensorSum sum = {};
  };

  void run();
  /// Whether to go on after `time`.
  bool wait(Duration time);

  const Duration period_;
  const OnChange on_change_;
  std::vector<Block> blocks_;
  std::mutex mutex_;  // guards the next
  bool is_over_ = false;
  std::condition_variable changed_;
  std::thread thread_;  // uses the fields above
};

}  // namespace lockstep::model
