// The bytes of a response, except its body: head, chunk framing, the server's own errors. Pure, except for DateLine.
#pragma once

#include <cstddef>
#include <ctime>
#include <string>
#include <string_view>

#include "launcher/serve/http/exchange.h"
#include "launcher/serve/http/head_rules.h"

namespace lockstep::serve {

/// How the client finds the end of a body.
enum class BodyFraming { kLength, kChunked, kUntilClose, kNone };

/// The headers that the server adds to those of a response.
struct ServerHeaders {
  BodyFraming framing = BodyFraming::kLength;
  size_t length = 0;
  bool keep_alive = false;
  std::string_view request_id;
  std::string_view date;
  std::string_view cors_origin = {};
};

/// Every head begins with these bytes.
inline constexpr std::string_view kHeadPrefix = "HTTP/1.1 ";

std::string response_head(const HttpResponse& response, const ServerHeaders& added);

/// "1a\r\n", 26 bytes, "\r\n". An empty chunk would end the body, so `body` has at least one byte.
std::string chunk(std::string_view body);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

/// {"error": {"message", "type", "param", "code"}}, the form that clients of OpenAI's protocol expect.
HttpResponse error_response(const HttpRefusal& refusal);
/// Of a handler that fails: 500.
HttpResponse failed_response();

/// The Date header, made once a second.
class DateLine {
 public:
  std::string_view now();

 private:
  std::time_t second_ = 0;
  std::string text_;
};

}  // namespace lockstep::serve
