// One HTTP request and its response.
//
//   handler ── respond ──────────────────────────► client       a whole response
//           ── begin_stream, write …, end_stream ► client       a response that grows
//           ◄─ on_disconnect ───────────────────── client gone
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;

/// A complete request. Names of headers are in lower case.
struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // "/v1/models", percent-decoded
  std::string query;   // after "?", as sent
  Headers headers;
  std::string body;
  std::string peer;  // "127.0.0.1:50312"; a Unix socket: empty
  std::string id;    // x-request-id of the client, or one of the server's

  std::optional<std::string_view> header(std::string_view lower_case_name) const {
    for (const auto& [name, value] : headers) {
      if (name == lower_case_name) return value;
    }
    return std::nullopt;
  }

  /// Whether the head announces a body, which may not have arrived yet.
  bool announces_body() const {
    const auto length = header("content-length");
    return header("transfer-encoding") || (length && length->find_first_not_of('0') != std::string_view::npos);
  }
};

/// The server adds Content-Length, Date, Connection and x-request-id.
struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  Headers headers = {};
};

/// On the loop's thread only. When the last reference goes before a response, the client gets status 500.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const HttpRequest& request() const = 0;

  /// Sends a whole response. Once, unless a stream has begun.
  virtual void respond(HttpResponse response) = 0;

  /// Sends the head of a stream: status, type and headers. Once.
  virtual void begin_stream(HttpResponse head) = 0;
  /// Appends to the stream. Never blocks; what the client has not read yet is kept. No effect after a disconnect.
  virtual void write(std::string bytes) = 0;
  virtual void end_stream() = 0;

  /// Bytes written that the client has not taken yet.
  virtual size_t unsent() const = 0;
  /// Calls `call` once as soon as `unsent` is at most `bytes`.
  virtual void on_sent(size_t bytes, std::function<void()> call) = 0;
  /// Calls `call` once when the client closes the connection before the response is complete, streaming or not.
  virtual void on_disconnect(std::function<void()> call) = 0;
};

/// Judges a request by its head, before its body is read: a response is the answer, and the last of its connection;
/// none: the request is read to its end. May throw, as a handler.
using RefuseHead = std::function<std::optional<HttpResponse>(const HttpRequest& head)>;

/// Takes each request.
using Handler = std::function<void(std::shared_ptr<Exchange> exchange)>;

}  // namespace lockstep::serve
