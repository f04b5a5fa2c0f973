// Reads requests from the bytes of one connection, one after another.
//
//   append ─► head ─► OnHead ─► body ─► complete ─► next_request ─┐
//              └────────┴────────┴─► refused (the last state)     └─► head of a pipelined request
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/serve/http/exchange.h"
#include "launcher/serve/http/head_rules.h"
#include "launcher/serve/http/server.h"

namespace lockstep::serve {

/// A complete request and what its response must keep to.
struct ReceivedRequest {
  HttpRequest request;  // with what OnHead has added
  bool keep_alive = false;
  bool is_http_1_0 = false;
};

/// Gets a complete head, with which the request goes on; returns whether to read its body. Otherwise it is refused.
using OnHead = std::function<bool(HttpRequest& head)>;

/// What it reads does not depend on the pieces in which the bytes arrive. Pure, not thread-safe.
class RequestReader {
 public:
  enum class State { kIncomplete, kComplete, kRefused };

  explicit RequestReader(const HttpLimits& limits, OnHead on_head = {});
  ~RequestReader();

  void append(std::string_view bytes);
  /// Reads as far as the bytes reach, at most to the end of one request.
  State advance();

  /// True from the first byte of a request to its last.
  bool has_begun() const;
  /// True once, after a head with "Expect: 100-continue" whose body has not begun.
  bool take_continue();
  /// Bytes of the body so far, while it is incomplete.
  size_t body_bytes() const;
  /// Bytes of later requests, while this one is complete.
  size_t buffered() const;

  /// The complete request; the reader continues with the next one.
  ReceivedRequest next_request();
  const HttpRefusal& refusal() const;
  /// Drops all bytes: nothing more is read.
  void end();

 private:
  struct Parsing;
  const std::unique_ptr<Parsing> parsing_;
};

}  // namespace lockstep::serve
