// Where the objects of a remote tier are: an http(s) address below which they lie, from what the user wrote.
#pragma once

#include <string>

#include "runtime/cache/cache.h"

namespace lockstep::cache {

struct RemoteAddress {
  std::string name;  // as the user wrote it, without a password
  std::string base;  // "https://host/path": objects are BASE/NAME
  bool is_signed = false;

  friend bool operator==(const RemoteAddress&, const RemoteAddress&) = default;
};

/// Reads http://…, https://… or s3://BUCKET[/PREFIX]. Pure. Fails with `kInvalidArgument`.
Result<RemoteAddress> remote_address(const std::string& url, const S3Account& account);

}  // namespace lockstep::cache
