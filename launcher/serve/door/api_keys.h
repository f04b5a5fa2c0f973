// The keys that clients have to send.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/serve/http/exchange.h"
#include "runtime/core/result.h"

namespace lockstep::serve {

/// Immutable.
class ApiKeys {
 public:
  /// No keys: every request may pass.
  ApiKeys() = default;

  /// One key a line; empty lines and lines that begin with # count for nothing. `origin` names the text in messages.
  /// Fails with `kInvalidArgument` when there is no key, or one with characters that a header cannot carry; the message
  /// does not show it.
  static Result<ApiKeys> parse(std::string_view text, std::string_view origin);

  bool are_needed() const { return !keys_.empty(); }
  /// A key for a client of this program's own; some are needed.
  const std::string& first() const { return keys_.front(); }
  /// Whether the request has one of the keys: "Authorization: Bearer KEY", or "x-api-key: KEY". The time does not show
  /// how much of a key is right.
  bool allow(const HttpRequest& request) const;

 private:
  bool has(std::string_view key) const;

  std::vector<std::string> keys_;
};

}  // namespace lockstep::serve
