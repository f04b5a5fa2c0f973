// The connection to one client as bytes: TCP, a Unix socket, or TLS over either.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <system_error>

namespace lockstep::serve {

/// At most one read and one write at a time. Functions given to it are called later, on the loop's thread, with an
/// error after `close`; each keeps the stream alive through what it captures.
class ByteStream {
 public:
  using OnBytes = std::function<void(std::error_code error, size_t bytes)>;
  using OnDone = std::function<void(std::error_code error)>;

  virtual ~ByteStream() = default;

  /// The handshake of TLS; without TLS done at once.
  virtual void open(OnDone done) = 0;
  /// Some bytes; 0 without an error: the client sends no more.
  virtual void read(std::span<char> to, OnBytes done) = 0;
  /// Sends some of `bytes`.
  virtual void write(std::string_view bytes, OnBytes done) = 0;
  /// Tells the client that no more bytes follow.
  virtual void finish_writing(OnDone done) = 0;
  /// Calls `gone` when the connection breaks, without reading. A client that only sends no more is not gone.
  virtual void wait_until_gone(OnDone gone) = 0;
  virtual void close() = 0;
};

}  // namespace lockstep::serve
