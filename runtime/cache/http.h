// Objects over HTTP, through libcurl, which is loaded when it is needed. Requests are signed (AWS Signature Version 4)
// where an account is given.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "runtime/cache/cache.h"

namespace lockstep::cache {

/// What a server said.
struct HttpAnswer {
  int status = 0;
  std::string said;  // the start of what came with a status other than 200
};

/// Thread-safe: each request has a connection of its own.
class Http {
 public:
  virtual ~Http() = default;

  /// Writes the object into the file `to`, if the status is 200. Fails with `kUnavailable` when there is no server,
  /// `kDeadlineExceeded` when it is too slow, `kFailedPrecondition` when the object ends early or is longer than `most`
  /// bytes, `kCancelled` when the abort flag was raised. @blocking
  virtual Result<HttpAnswer> get(const std::string& url, const std::filesystem::path& to, uint64_t most) = 0;

  /// Makes the file `from` the object. Fails alike. @blocking
  virtual Result<HttpAnswer> put(const std::string& url, const std::filesystem::path& from) = 0;
};

/// `account` null: requests are not signed. `abort` may be null. Both outlive it. Fails with `kUnavailable` when
/// libcurl is not installed, or too old to sign.
Result<std::unique_ptr<Http>> make_http(const S3Account* account, RemoteDeadlines deadlines, const AbortFlag* abort);

}  // namespace lockstep::cache
