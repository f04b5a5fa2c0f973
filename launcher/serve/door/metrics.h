// Numbers about requests for Prometheus, and a line in the log for each request. No text of a request is kept.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/serve/api/api.h"
#include "launcher/serve/engine/engine.h"
#include "runtime/core/log.h"

namespace lockstep::serve {

enum class LogFormat { kText, kJson };

/// On the loop's thread only.
class Metrics final : public ApiObserver {
 public:
  /// `log` outlives it.
  Metrics(const Log& log, LogFormat format);
  ~Metrics() override;

  void on_started(const ApiRequest& request) override;
  void on_first_token(const ApiRequest& request, Duration waited) override;
  void on_tokens(const ApiRequest& request, size_t count, Duration gap) override;
  void on_ended(const ApiRequest& request, const ApiEnd& end) override;
  void on_answered(std::string_view endpoint, int status) override;

  /// Tokens of answers that have arrived.
  uint64_t new_tokens() const { return new_tokens_; }

  /// A request that runs now.
  struct OpenRequest {
    ApiRequest request;
    TimePoint since;
    int64_t new_tokens = 0;
    std::optional<Duration> first_token;  // since its arrival
  };
  const std::map<uint64_t, OpenRequest>& open() const { return open_; }

  /// The text of /metrics. `is_healthy` and `status` are facts of now.
  std::string text(bool is_healthy, const EngineStatus& status, const EngineFacts& facts);

 private:
  struct Series;
  std::string line_of(const OpenRequest& open, const ApiEnd& end) const;

  const Log& log_;
  LogFormat format_;
  std::unique_ptr<Series> series_;
  std::map<uint64_t, OpenRequest> open_;  // by ApiRequest::number
  uint64_t new_tokens_ = 0;
};

}  // namespace lockstep::serve
