#include "engine/observe/request_log.h"

#include <algorithm>
#include <utility>

namespace lockstep::observe {
namespace {

// Seconds, from a cached answer to a long prompt on a slow machine, and from a small model to a large one.
const std::vector<double> kFirstToken = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
const std::vector<double> kToken = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5};

}  // namespace

RequestLog::RequestLog(actors::Sink& inner, const Clock& clock, size_t most)
    : inner_(inner),
      clock_(clock),
      most_(most),
      opened_(clock.now()),
      totals_{.submitted = 0,
              .tokens = 0,
              .finished = {},
              .first_token_s = trace::Histogram(kFirstToken),
              .token_s = trace::Histogram(kToken)} {}

void RequestLog::submitted(RequestId request, TimePoint at) {
  std::lock_guard lock(mutex_);
  ++totals_.submitted;
  open_[request] = {.request = request.value, .begin = std::max(at, opened_)};
}

actors::Verdict RequestLog::on_token(RequestId request, const actors::MadeToken& token) {
  {
    std::lock_guard lock(mutex_);
    trace::RequestSpan& span = open_[request];
    if (span.tokens++ == 0) {
      span.first_token = token.made;
      totals_.first_token_s.observe(to_seconds(token.made - span.begin));
    }
    span.end = token.made;
    ++totals_.tokens;
  }
  return inner_.on_token(request, token);
}

void RequestLog::note_end(RequestId request, std::string reason) {
  std::lock_guard lock(mutex_);
  auto node = open_.extract(request);
  trace::RequestSpan span = node.empty() ? trace::RequestSpan{.request = request.value} : std::move(node.mapped());
  span.reason = std::move(reason);
  if (span.tokens == 0) span.end = clock_.now();
  ++totals_.finished[span.reason];
  if (span.tokens > 1) {
    totals_.token_s.observe(to_seconds(span.end - *span.first_token) / static_cast<double>(span.tokens - 1));
  }
  if (ended_.size() < most_) ended_.push_back(std::move(span));
}

void RequestLog::on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) {
  note_end(request, std::string(generation::to_string(reason)));
  inner_.on_finish(request, reason, error);
}

void RequestLog::on_abandoned(RequestId request, const Error& error) {
  note_end(request, std::string(generation::to_string(generation::FinishReason::kError)));
  inner_.on_abandoned(request, error);
}

RequestTotals RequestLog::totals() const {
  std::lock_guard lock(mutex_);
  return totals_;
}

std::vector<trace::RequestSpan> RequestLog::requests() const {
  std::lock_guard lock(mutex_);
  std::vector<trace::RequestSpan> requests = ended_;
  std::ranges::sort(requests, {}, &trace::RequestSpan::request);
  return requests;
}

}  // namespace lockstep::observe
