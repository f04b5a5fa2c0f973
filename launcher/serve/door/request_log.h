// The lines of the server's log: one for each request, without its text.
//
//   [serve] 2026-01-31T12:00:00.250Z request id=req_1 client=127.0.0.1:50312 endpoint=/v1/completions status=200
//     … outcome=stop stream=true choices=1 prompt_tokens=12 cached_tokens=8 new_tokens=5 queue_s=0.002 ttft_s=0.031
//     … duration_s=0.105
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/serve/api/api.h"
#include "launcher/serve/http/server.h"
#include "runtime/core/log.h"

namespace lockstep::serve {

enum class LogFormat {
  kText,  // words NAME=VALUE; a value with other than plain characters is a JSON string
  kJson,  // an object a line
};

/// The format with that name; text for an unknown one.
LogFormat log_format(std::string_view name);

/// A line about the server itself.
std::string message_line(LogFormat format, LogLevel level, std::string_view message,
                         std::chrono::system_clock::time_point time);

/// On the loop's thread.
class RequestLog final : public ApiObserver {
 public:
  using WallClock = std::function<std::chrono::system_clock::time_point()>;
  using Sink = std::function<void(std::string_view line)>;

  /// `sink` gets each line without its end. An empty `wall_clock` is the machine's.
  RequestLog(LogFormat format, Sink sink, WallClock wall_clock = {});
  ~RequestLog() override;

  /// A request that the HTTP server itself refused.
  void refused(const HttpRefused& request);

  void on_started(const ApiRequest& request) override;
  void on_first_token(const ApiRequest& request, Duration waited) override;
  void on_tokens(const ApiRequest& request, size_t count, Duration gap) override;
  void on_ended(const ApiRequest& request, const ApiEnd& end) override;
  void on_answered(const ApiRequest& request, int status) override;

 private:
  struct Line;
  void write(Line line);

  const LogFormat format_;
  const Sink sink_;
  const WallClock wall_clock_;
  std::map<uint64_t, Duration> first_tokens_;  // of open requests, by number
};

}  // namespace lockstep::serve
