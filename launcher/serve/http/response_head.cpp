#include "launcher/serve/http/response_head.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/core/buffer_traits.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/serializer.hpp>

namespace lockstep::serve {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;

/// A value cannot end its line.
std::string one_line(std::string_view value) {
  std::string text(value);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; }, ' ');
  return text;
}

void add_framing(http::response<http::empty_body>& message, const ServerHeaders& added) {
  if (added.framing == BodyFraming::kLength) message.set(http::field::content_length, std::to_string(added.length));
  if (added.framing == BodyFraming::kChunked) message.set(http::field::transfer_encoding, "chunked");
  message.set(http::field::connection, added.keep_alive ? "keep-alive" : "close");
}

void add_cors(http::response<http::empty_body>& message, std::string_view origin) {
  if (origin.empty()) return;
  message.set(http::field::access_control_allow_origin, one_line(origin));
  message.set(http::field::access_control_expose_headers, "x-request-id");
  if (origin != "*") message.insert(http::field::vary, "Origin");
}

std::string text_of(const http::response<http::empty_body>& message) {
  http::response_serializer<http::empty_body> serializer(message);
  serializer.split(true);  // without the last chunk of an empty body
  std::string text;
  boost::system::error_code error;
  while (!serializer.is_header_done() && !error) {
    serializer.next(error, [&](boost::system::error_code&, const auto& buffers) {
      for (const auto piece : beast::buffers_range_ref(buffers)) {
        text.append(static_cast<const char*>(piece.data()), piece.size());
      }
      serializer.consume(beast::buffer_bytes(buffers));
    });
  }
  return text;
}

}  // namespace

std::string response_head(const HttpResponse& response, const ServerHeaders& added) {
  http::response<http::empty_body> message;
  message.version(11);
  message.result(static_cast<unsigned>(response.status));
  if (!response.content_type.empty() && added.framing != BodyFraming::kNone) {
    message.set(http::field::content_type, one_line(response.content_type));
  }
  for (const auto& [name, value] : response.headers) message.insert(name, one_line(value));
  add_framing(message, added);
  add_cors(message, added.cors_origin);
  message.set(http::field::date, std::string(added.date));
  message.set("x-request-id", std::string(added.request_id));
  return text_of(message);
}

std::string chunk(std::string_view body) { return fmt::format("{:x}\r\n{}\r\n", body.size(), body); }

HttpResponse error_response(const HttpRefusal& refusal) {
  const std::string_view type = refusal.status < 500 ? "invalid_request_error" : "server_error";
  return {.status = refusal.status,
          .body = fmt::format(R"({{"error": {{"message": "{}", "type": "{}", "param": null, "code": "{}"}}}})",
                              refusal.message, type, refusal.code)};
}

HttpResponse failed_response() {
  return error_response({500, "internal_error", "the server failed to answer; its log has the reason"});
}

std::string_view DateLine::now() {
  const std::time_t second = std::time(nullptr);
  if (second != second_ || text_.empty()) {
    second_ = second;
    text_ = fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(second));
  }
  return text_;
}

}  // namespace lockstep::serve
