// The http(s) address of a remote tier's objects, parsed from the user's text.
#pragma once

#include <string>

#include "runtime/cache/cache.h"

namespace lockstep::cache {

struct RemoteAddress {
  std::string name;  // the user's text without a password
  std::string base;  // "https://host/path": objects are BASE/NAME
  bool is_signed = false;

  friend bool operator==(const RemoteAddress&, const RemoteAddress&) = default;
};

/// Reads http://…, https://… or s3://BUCKET[/PREFIX]. Pure. Fails with `kInvalidArgument`.
Result<RemoteAddress> remote_address(const std::string& url, const S3Account& account);

}  // namespace lockstep::cache
