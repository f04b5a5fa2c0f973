// The listening socket of a server: TCP or a Unix socket, with or without TLS.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "launcher/serve/http/byte_stream.h"
#include "launcher/serve/http/server.h"

namespace lockstep::serve {

/// Listens until it is destroyed.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual std::string address() const = 0;
  virtual uint16_t port() const = 0;
};

/// `peer` is as in HttpRequest.
using OnConnection = std::function<void(std::unique_ptr<ByteStream> stream, std::string peer)>;

/// The loop outlives the listener and the streams.
Result<std::unique_ptr<Listener>> listen(RunningLoop& loop, const HttpOptions& options, OnConnection on_connection);

}  // namespace lockstep::serve
