// A bootstrap with a record of each operation's begin and end.
#pragma once

#include <memory>
#include <utility>

#include "runtime/core/clock.h"
#include "runtime/trace/timeline.h"
#include "transport/bootstrap.h"

namespace lockstep::observe {

/// Borrows the clock and the log.
class TimedBootstrap final : public transport::Bootstrap {
  template <typename Operation>
  auto timed(trace::CollectiveKind kind, size_t bytes, Operation&& operation) {
    const TimePoint enter = clock_.now();
    auto done = operation();
    log_.add(kind, ++sequence_, bytes, enter, clock_.now());
    return done;
  }

 public:
  TimedBootstrap(std::unique_ptr<transport::Bootstrap> inner, const Clock& clock, trace::CollectiveLog& log)
      : inner_(std::move(inner)), clock_(clock), log_(log) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name() const override { return inner_->name(); }
  Result<std::vector<std::string>> exchange(std::string_view mine) override {
    return timed(trace::CollectiveKind::kExchange, mine.size(), [&] { return inner_->exchange(mine); });
  }
  Result<void> barrier() override {
    return timed(trace::CollectiveKind::kSetupBarrier, 0, [&] { return inner_->barrier(); });
  }
  Result<std::vector<transport::RankPlace>> places() override { return inner_->places(); }
  Result<void> finish() override { return inner_->finish(); }

 private:
  std::unique_ptr<transport::Bootstrap> inner_;
  const Clock& clock_;
  trace::CollectiveLog& log_;
  uint64_t sequence_ = 0;
};

}  // namespace lockstep::observe
