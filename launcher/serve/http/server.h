// An HTTP server that gives complete, well-formed requests to a handler.
//
//   socket ─► connection ─► request reader: head ─► RefuseHead? ─► body ─► Handler(exchange)
//                 │              └─ malformed, too large, too slow: the server answers itself (400 … 505)
//                 └─ limits on connections, times and bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/serve/http/event_loop.h"
#include "launcher/serve/http/exchange.h"
#include "runtime/core/clock.h"
#include "runtime/core/log.h"
#include "runtime/core/result.h"

namespace lockstep::serve {

/// What one client may use.
struct HttpLimits {
  size_t head_bytes = 32 << 10;                      // request line and headers, or the trailers: 431
  size_t uri_bytes = 8 << 10;                        // 414
  size_t body_bytes = 32 << 20;                      // 413
  size_t unfinished_bytes = 512 << 20;               // arrived of incomplete bodies, of all clients together: 503
  size_t connections = 512;                          // of all clients together: 503
  Duration request_time = std::chrono::seconds(25);  // from a request's first byte to its last: 408
  Duration idle_time = std::chrono::seconds(75);     // between requests: closed
  Duration write_time = std::chrono::seconds(30);    // without the client taking a byte: closed
  Duration linger_time =
      std::chrono::seconds(2);  // after an answer that ends the connection, for the client to read it
};

/// A request that the server itself answered with an error. Valid during the call.
struct HttpRefused {
  std::string_view id, peer;
  int status = 400;
  std::string_view code;  // "request_timeout"
};

/// The address and the limits of a server.
struct HttpOptions {
  std::string host = "127.0.0.1";    // an address or a name
  uint16_t port = 8000;              // 0: any free one
  std::string unix_socket = {};      // a path instead of host and port; mode 0600
  std::string tls_certificate = {};  // PEM files; both or none
  std::string tls_key = {};
  std::string cors_origin = {};  // "*" or one origin; empty: no Access-Control header
  HttpLimits limits = {};
  const Log* log = nullptr;  // outlives the server
  std::function<void(const HttpRefused&)> on_refused = {};
  RefuseHead refuse_head = {};  // empty: every request is read. Not asked about preflights without a body

  Result<void> validate() const;
};

/// Totals since the start, except `connections`.
struct HttpCounters {
  size_t connections = 0;  // open now
  uint64_t accepted = 0;
  uint64_t requests = 0;     // given to the handler, or refused by their heads
  uint64_t refused = 0;      // answered by the server itself with an error
  uint64_t disconnects = 0;  // clients that left before their response was complete
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
};

/// On the loop's thread only. The destructor closes every connection; exchanges that the handler keeps become inert.
class HttpServer {
 public:
  virtual ~HttpServer() = default;

  /// Listens; requests are read as soon as the loop runs. The loop outlives the server.
  /// Fails with kInvalidArgument (options, certificate, key) and kUnavailable (the address is in use).
  static Result<std::unique_ptr<HttpServer>> open(RunningLoop& loop, HttpOptions options, Handler handler);

  /// "http://127.0.0.1:8000", "https://[::1]:8443", "unix:/run/lockstep.sock".
  virtual std::string address() const = 0;
  /// 0 for a Unix socket.
  virtual uint16_t port() const = 0;

  /// From now on, every answer is the last of its connection: clients look for another server.
  virtual void close_after_answers() = 0;
  /// Closes the listening socket and the idle connections. Requests that have begun are still answered, each as the
  /// last of its connection.
  virtual void stop_accepting() = 0;
  /// Exchanges whose response the client has not taken completely.
  virtual size_t open_exchanges() const = 0;
  virtual HttpCounters counters() const = 0;
};

}  // namespace lockstep::serve
