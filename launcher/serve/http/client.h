// One request to a server of this program, for commands. Everything else here is the server.
#pragma once

#include <string>

#include "launcher/serve/http/exchange.h"
#include "runtime/core/clock.h"
#include "runtime/core/result.h"

namespace lockstep::serve {

/// A request without a peer and an id; `headers` as they are sent, besides Host, Connection and Content-Length.
struct ClientRequest {
  std::string method, path;
  Headers headers = {};
  std::string body = {};
};

/// The answer of the server at `url`: "http://127.0.0.1:8000", "unix:/run/lockstep.sock". Fails with `kUnsupported` for
/// other forms, TLS among them, with `kUnavailable` when no server answers, and with `kDeadlineExceeded` when it does
/// not within `limit`. @blocking
Result<HttpResponse> ask(const std::string& url, const ClientRequest& request, Duration limit);

}  // namespace lockstep::serve
