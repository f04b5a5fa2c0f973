// Times of each request on rank 0, recorded by a sink decorator.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "actors/request.h"
#include "runtime/core/clock.h"
#include "runtime/trace/chrome_trace.h"
#include "runtime/trace/prometheus.h"

namespace lockstep::observe {

/// Totals of all requests so far.
struct RequestTotals {
  int64_t submitted = 0;
  int64_t tokens = 0;
  std::map<std::string, int64_t> finished;  // by reason
  trace::Histogram first_token_s, token_s;  // TTFT; each request's mean time per token after the first (TPOT)
};

/// Thread-safe.
class RequestLog final : public actors::Sink {
 public:
  /// Borrows everything. Keeps the first `most` requests that end; the totals cover all requests.
  RequestLog(actors::Sink& inner, const Clock& clock, size_t most);

  /// Call before the session receives `request`, submitted at `at`: on the trace, at its begin if an earlier session
  /// had the request.
  void submitted(RequestId request, TimePoint at);

  void on_start(RequestId request) override { inner_.on_start(request); }
  actors::Verdict on_token(RequestId request, const actors::MadeToken& token) override;
  void on_reused(RequestId request, int64_t tokens) override { inner_.on_reused(request, tokens); }
  void on_score(RequestId request, std::span<const float> row, std::span<const float> logits) override {
    inner_.on_score(request, row, logits);
  }
  void on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) override;

  void on_abandoned(RequestId request, const Error& error) override;

  RequestTotals totals() const;
  /// The kept requests in the order of their ids.
  std::vector<trace::RequestSpan> requests() const;

 private:
  void note_end(RequestId request, std::string reason);

  actors::Sink& inner_;
  const Clock& clock_;
  const size_t most_;
  const TimePoint opened_;
  mutable std::mutex mutex_;  // guards the fields below
  std::map<RequestId, trace::RequestSpan> open_;
  std::vector<trace::RequestSpan> ended_;
  RequestTotals totals_;
};

}  // namespace lockstep::observe
