// Numbers about requests for Prometheus, and a list of the open ones. No text of a request is kept.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/serve/api/api.h"
#include "launcher/serve/engine/engine.h"
#include "launcher/serve/http/server.h"

namespace lockstep::serve {

/// On the loop's thread only.
class Metrics final : public ApiObserver {
 public:
  Metrics();
  ~Metrics() override;

  void on_started(const ApiRequest& request) override;
  void on_first_token(const ApiRequest& request, Duration waited) override;
  void on_tokens(const ApiRequest& request, size_t count, Duration gap) override;
  void on_ended(const ApiRequest& request, const ApiEnd& end) override;
  void on_answered(const ApiRequest& request, int status) override;

  /// Tokens of answers that have arrived.
  uint64_t new_tokens() const { return new_tokens_; }

  /// A request that runs now.
  struct OpenRequest {
    ApiRequest request;
    TimePoint since;
    int64_t new_tokens = 0;
  };
  const std::map<uint64_t, OpenRequest>& open() const { return open_; }

  /// What is read when /metrics is asked for.
  struct Reading {
    bool is_healthy = false;
    EngineStatus status = {};
    EngineActivity activity = {};
    int restarts = 0;
    HttpCounters http = {};
  };
  /// The text of /metrics.
  std::string text(const Reading& reading);

 private:
  struct Series;

  std::unique_ptr<Series> series_;
  std::map<uint64_t, OpenRequest> open_;  // by ApiRequest::number
  uint64_t new_tokens_ = 0;
};

}  // namespace lockstep::serve
