#include "launcher/serve/http/asio_loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <utility>

namespace lockstep::serve {
namespace {

namespace asio = boost::asio;

class AsioTimer final : public Timer {
 public:
  AsioTimer(asio::io_context& context, Duration delay, std::function<void()> call)
      : timer_(context, delay), call_(std::make_shared<std::function<void()>>(std::move(call))) {
    timer_.async_wait([waiting = std::weak_ptr(call_)](const boost::system::error_code& cancelled) {
      const auto due = waiting.lock();  // empty: cancelled after it became due
      if (!cancelled && due) (*due)();
    });
  }

 private:
  asio::steady_timer timer_;
  std::shared_ptr<std::function<void()>> call_;  // shared with the call while it runs, which may destroy the timer
};

}  // namespace

void AsioLoop::post(std::function<void()> call) { asio::post(context_, std::move(call)); }

std::unique_ptr<Timer> AsioLoop::after(Duration delay, std::function<void()> call) {
  return std::make_unique<AsioTimer>(context_, delay, std::move(call));
}

void AsioLoop::compute(ComputeLane lane, std::function<void()> work, std::function<void()> done) {
  auto& computations = lane == ComputeLane::kLong ? long_computations_ : short_computations_;
  asio::post(computations, [this, work = std::move(work), done = std::move(done)]() mutable {
    try {
      work();
    } catch (const std::exception& failure) {
      report(failure.what());
    }
    post(std::move(done));
  });
}

void AsioLoop::run() {
  const auto work = asio::make_work_guard(context_);
  while (!context_.stopped()) {
    try {
      context_.run();
    } catch (const std::exception& failure) {
      report(failure.what());
    } catch (...) {
      report("unknown exception");
    }
  }
  // What is computed may use what the loop's owner destroys next.
  for (asio::thread_pool* computations : {&short_computations_, &long_computations_}) computations->stop();
  for (asio::thread_pool* computations : {&short_computations_, &long_computations_}) computations->join();
}

void AsioLoop::report(const char* failure) const {
  if (log_ != nullptr) log_->error("[serve] a function of the loop failed: {}; report this as a bug", failure);
}

std::unique_ptr<RunningLoop> make_loop(const Log* log) { return std::make_unique<AsioLoop>(log); }

}  // namespace lockstep::serve
