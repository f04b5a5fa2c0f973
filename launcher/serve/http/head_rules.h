// The rules of a request's head that the parser does not enforce.
//
// Boost.Beast accepts folded headers, repeated lengths and a body of any transfer coding; two programs that read such a
// request differently can be played off against each other (request smuggling), so the server refuses it. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/serve/http/server.h"

namespace lockstep::serve {

/// An error that the server answers itself.
struct HttpRefusal {
  int status = 400;
  std::string code;     // "header_too_large"
  std::string message;  // constant text and numbers, nothing of the client's

  friend bool operator==(const HttpRefusal&, const HttpRefusal&) = default;
};

/// Finds the end of a head whose bytes arrive in pieces. What it finds does not depend on the pieces.
class HeadScanner {
 public:
  explicit HeadScanner(const HttpLimits& limits) : limits_(limits) {}

  /// `bytes` begins with the request line and grows between calls. Refuses it as soon as it can only be refused.
  std::optional<HttpRefusal> scan(std::string_view bytes);
  bool has_begun() const { return seen_ > 0; }
  /// Bytes of the head with its empty line; 0 while it is incomplete.
  size_t size() const { return size_; }

 private:
  HttpLimits limits_;
  size_t seen_ = 0;
  size_t line_ = 0;  // where the current line begins
  size_t size_ = 0;
};

/// Checks a complete head: form of its lines, Host, Content-Length, Transfer-Encoding and Expect.
std::optional<HttpRefusal> check_head(std::string_view head);

/// Decodes %XX. Fails on incomplete or zero bytes.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace lockstep::serve
