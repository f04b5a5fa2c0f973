// A bootstrap with a record of its operations in a flight recorder.
#pragma once

#include <memory>

#include "runtime/trace/flight_recorder.h"
#include "transport/bootstrap.h"

namespace lockstep::launcher {

/// Borrows the recorder.
class RecordedBootstrap final : public transport::Bootstrap {
  template <typename Operation>
  auto recorded(const char* name, size_t bytes, Operation&& operation) {
    recorder_.enter("setup", name, ++exchanges_, bytes);
    auto done = operation();
    if (done.has_value()) recorder_.leave();
    return done;
  }

 public:
  /// `exchanges` counts the rank's exchanges over all its bootstraps. Both are borrowed.
  RecordedBootstrap(std::unique_ptr<transport::Bootstrap> inner, trace::FlightRecorder& recorder, uint64_t& exchanges)
      : inner_(std::move(inner)), recorder_(recorder), exchanges_(exchanges) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name() const override { return inner_->name(); }
  Result<std::vector<std::string>> exchange(std::string_view mine) override {
    return recorded("exchange", mine.size(), [&] { return inner_->exchange(mine); });
  }
  Result<void> barrier() override {
    return recorded("barrier", 0, [&] { return inner_->barrier(); });
  }
  Result<std::vector<device::RankPlace>> places() override {
    return recorded("places", 0, [&] { return inner_->places(); });
  }
  Result<void> finish() override {
    return recorded("finish", 0, [&] { return inner_->finish(); });
  }

 private:
  const std::unique_ptr<transport::Bootstrap> inner_;
  trace::FlightRecorder& recorder_;
  uint64_t& exchanges_;
};

}  // namespace lockstep::launcher
