// The constraints that were compiled last, by their texts. Private to this folder.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::constraint {

/// Thread-safe.
template <typename Made>
class KeptConstraints {
 public:
  explicit KeptConstraints(size_t most) : most_(most) {}

  /// Null if it is not kept.
  std::shared_ptr<const Made> find(std::string_view json) {
    const std::lock_guard lock(mutex_);
    for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
      if (kept->first != json) continue;
      kept_.splice(kept_.begin(), kept_, kept);
      return kept->second;
    }
    return nullptr;
  }

  /// Replaces one of the same text.
  void keep(std::string_view json, std::shared_ptr<const Made> made) {
    const std::lock_guard lock(mutex_);
    kept_.remove_if([&](const auto& kept) { return kept.first == json; });
    kept_.emplace_front(std::string(json), std::move(made));
    if (kept_.size() > most_) kept_.pop_back();
  }

 private:
  const size_t most_;
  std::mutex mutex_;
  std::list<std::pair<std::string, std::shared_ptr<const Made>>> kept_;  // latest first
};

}  // namespace lockstep::constraint
