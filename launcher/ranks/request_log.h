// What happened to each request, on rank 0: a sink that passes everything on to another and looks at the clock.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "actors/request.h"
#include "runtime/core/clock.h"
#include "runtime/trace/chrome_trace.h"
#include "runtime/trace/prometheus.h"

namespace lockstep::launcher {

/// All requests so far.
struct RequestTotals {
  int64_t submitted = 0;
  int64_t tokens = 0;
  std::map<std::string, int64_t> finished;  // by reason
  trace::Histogram first_token_s, token_s;  // TTFT; the mean time per token after it of each request (TPOT)
};

/// Thread-safe, but for `requests`, which is for the time after the session.
class RequestLog final : public actors::Sink {
 public:
  /// Borrows everything. Requests have ids from 0 to `most` − 1, and count as submitted now.
  RequestLog(actors::Sink& inner, const Clock& clock, size_t submitted, size_t most);

  actors::Verdict on_token(RequestId request, const actors::MadeToken& token) override;
  void on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) override;

  RequestTotals totals() const;
  /// Those that ended, in the order of their ids.
  std::vector<trace::RequestSpan> requests() const;

 private:
  actors::Sink& inner_;
  const Clock& clock_;
  const TimePoint begin_;
  std::vector<trace::RequestSpan> spans_;  // by id; the reason is empty until a request ends
  mutable std::mutex mutex_;               // of the totals
  RequestTotals totals_;
};

}  // namespace lockstep::launcher
