// Holds a request open while a test does something else.
#pragma once

#include <future>
#include <memory>
#include <span>

#include "lockstep/engine.h"

namespace lockstep::model {

/// Keeps a request from its end until the test opens it.
class Gate final : public LogitsProcessor {
 public:
  /// Closed to sequences of more than `most` ids.
  explicit Gate(size_t most) : most_(most) {}

  void process(std::span<const int32_t> ids, std::span<float>) const override {
    if (ids.size() > most_) opened_.wait();
  }
  void open() { open_.set_value(); }

 private:
  const size_t most_;
  std::promise<void> open_;
  std::shared_future<void> opened_ = open_.get_future().share();
};

}  // namespace lockstep::model
