#include "runtime/backends/neuron/nrt/call_watch.h"

#include <fmt/format.h>

namespace lockstep::nrt {
namespace {

int64_t now_ns() { return SteadyClock().now().time_since_epoch().count(); }

Error took_too_long(const std::string& operation, int64_t limit_ns) {
  return {
      ErrorKind::kDeadlineExceeded,
      fmt::format("[runtime/backends/neuron] cannot {}: found no end after {:.3g} s, expected one; see whether every "
                  "rank was started, runs the same module and has a core of its own (neuron-top), and raise the "
                  "deadline (--neuron-load-deadline-s of loads, --deadline-s of steps) if it only needs longer",
                  operation, static_cast<double>(limit_ns) * 1e-9)};
}

}  // namespace

CallWatch::CallWatch(Options options) : options_(std::move(options)) {
  if (options_.on_stuck) thread_ = std::thread([this] { look(); });
}

CallWatch::~CallWatch() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

CallWatch::Guard CallWatch::watch(const std::string& operation, Duration limit) {
  operation_.store(&operation, std::memory_order_relaxed);
  limit_ns_.store(limit.count(), std::memory_order_relaxed);
  until_.store(now_ns() + limit.count(), std::memory_order_release);
  return Guard(*this);
}

/// The report has read the operation's name before the call's owner gives it up.
void CallWatch::end_call() {
  if (until_.exchange(0, std::memory_order_release) == kReported) std::lock_guard wait_for_report(mutex_);
}

void CallWatch::look() {
  int64_t raised_at = 0;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, options_.period, [this] { return ends_; })) {
    const int64_t until = until_.load(std::memory_order_acquire);
    const int64_t now = now_ns();
    if (options_.abort != nullptr && options_.abort->is_raised() && raised_at == 0) raised_at = now;
    const bool is_aborted = raised_at != 0 && now - raised_at > options_.abort_grace.count();
    if (until == 0 || (now < until && !is_aborted)) continue;
    int64_t claimed = until;
    if (!until_.compare_exchange_strong(claimed, kReported, std::memory_order_acquire)) continue;  // it has just ended
    const Error error = now >= until ? took_too_long(*operation_.load(std::memory_order_relaxed), limit_ns_.load())
                                     : *options_.abort->reason();
    lock.unlock();
    options_.on_stuck(error);
    return;  // called once only
  }
}

}  // namespace lockstep::nrt
