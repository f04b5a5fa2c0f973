#include "launcher/ranks/request_log.h"

namespace lockstep::launcher {
namespace {

// Seconds. From an answer out of a cache to a long prompt on a slow machine; from a small model to a large one.
const std::vector<double> kFirstToken = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
const std::vector<double> kToken = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5};

}  // namespace

RequestLog::RequestLog(actors::Sink& inner, const Clock& clock, size_t submitted, size_t most)
    : inner_(inner),
      clock_(clock),
      begin_(clock.now()),
      spans_(most),
      totals_{.submitted = static_cast<int64_t>(submitted),
              .tokens = 0,
              .finished = {},
              .first_token_s = trace::Histogram(kFirstToken),
              .token_s = trace::Histogram(kToken)} {}

actors::Verdict RequestLog::on_token(RequestId request, const actors::MadeToken& token) {
  const TimePoint now = token.made;
  trace::RequestSpan& span = spans_.at(static_cast<size_t>(request.value));
  const bool is_first = span.tokens++ == 0;
  if (is_first) span.first_token = now;
  span.end = now;
  {
    std::lock_guard lock(mutex_);
    ++totals_.tokens;
    if (is_first) totals_.first_token_s.observe(to_seconds(now - begin_));
  }
  return inner_.on_token(request, token);
}

void RequestLog::on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) {
  trace::RequestSpan& span = spans_.at(static_cast<size_t>(request.value));
  span.request = request.value;
  span.begin = begin_;
  span.reason = generation::to_string(reason);
  if (span.tokens == 0) span.end = clock_.now();
  {
    std::lock_guard lock(mutex_);
    ++totals_.finished[span.reason];
    if (span.tokens > 1) {
      totals_.token_s.observe(to_seconds(span.end - *span.first_token) / static_cast<double>(span.tokens - 1));
    }
  }
  inner_.on_finish(request, reason, error);
}

RequestTotals RequestLog::totals() const {
  std::lock_guard lock(mutex_);
  return totals_;
}

std::vector<trace::RequestSpan> RequestLog::requests() const {
  std::vector<trace::RequestSpan> ended;
  for (const trace::RequestSpan& span : spans_) {
    if (!span.reason.empty()) ended.push_back(span);
  }
  return ended;
}

}  // namespace lockstep::launcher
