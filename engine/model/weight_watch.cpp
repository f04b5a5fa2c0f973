#include "engine/model/weight_watch.h"

#include <algorithm>

namespace lockstep::model {
namespace {

constexpr size_t kWatchedBlock = size_t{1} << 20;  // bytes: about 0.1 ms

TensorSum sum_of_block(std::span<const std::byte> bytes) {
  return sum_of_rows(bytes, static_cast<int64_t>(bytes.size()), {});
}

}  // namespace

WeightWatch::WeightWatch(std::vector<device::ResidentWeight> weights, Duration period, OnChange on_change)
    : period_(period), on_change_(std::move(on_change)) {
  for (const device::ResidentWeight& weight : weights) {
    for (size_t begin = 0; begin < weight.bytes.size(); begin += kWatchedBlock) {
      blocks_.push_back(
          {weight.name, weight.bytes.subspan(begin, std::min(kWatchedBlock, weight.bytes.size() - begin))});
    }
  }
  if (!blocks_.empty()) thread_ = std::thread([this] { run(); });
}

WeightWatch::~WeightWatch() {
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool WeightWatch::wait(Duration time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return is_over_; });
}

void WeightWatch::run() {
  const Duration between = period_ / std::ssize(blocks_);
  for (Block& block : blocks_) {
    block.sum = sum_of_block(block.bytes);
    if (!wait(between / 10)) return;
  }
  for (size_t i = 0; wait(between); i = (i + 1) % blocks_.size()) {
    if (sum_of_block(blocks_[i].bytes) == blocks_[i].sum) continue;
    on_change_(blocks_[i].weight);
    return;
  }
}

}  // namespace lockstep::model
