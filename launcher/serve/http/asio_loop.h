// The loop over Boost.Asio; only this folder's sources include it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>

#include "launcher/serve/http/event_loop.h"

namespace lockstep::serve {

class AsioLoop final : public RunningLoop {
 public:
  explicit AsioLoop(const Log* log) : log_(log) {}

  void post(std::function<void()> call) override;
  std::unique_ptr<Timer> after(Duration delay, std::function<void()> call) override;
  void compute(ComputeLane lane, std::function<void()> work, std::function<void()> done) override;
  void run() override;
  void stop() override { context_.stop(); }

  boost::asio::io_context& context() { return context_; }

 private:
  void report(const char* failure) const;

  const Log* const log_;
  boost::asio::io_context context_{1};
  boost::asio::thread_pool short_computations_{1};  // both end before the context that they post to
  boost::asio::thread_pool long_computations_{1};
};

}  // namespace lockstep::serve
