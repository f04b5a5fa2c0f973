// HTTP access to objects through libcurl, loaded on demand. Requests are signed (AWS Signature Version 4) if there is
// an account.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "runtime/cache/cache.h"

namespace lockstep::cache {

/// A server's response.
struct HttpAnswer {
  int status = 0;
  std::string said;  // start of the body, for a status other than 200
};

/// Thread-safe: each request uses a separate connection.
class Http {
 public:
  virtual ~Http() = default;

  /// Downloads the object into the file `to`, if the status is 200. Fails with `kUnavailable` when the server cannot be
  /// reached, `kDeadlineExceeded` when it is too slow, `kFailedPrecondition` when the object is truncated or longer
  /// than `most` bytes, `kCancelled` when the abort flag was raised. @blocking
  virtual Result<HttpAnswer> get(const std::string& url, const std::filesystem::path& to, uint64_t most) = 0;

  /// Uploads the file `from` as the object. Fails as `get` does. @blocking
  virtual Result<HttpAnswer> put(const std::string& url, const std::filesystem::path& from) = 0;
};

/// With `account` null, requests are not signed. `abort` may be null. Both outlive the result. Fails with
/// `kUnavailable` when libcurl is not installed, or is too old to sign.
Result<std::unique_ptr<Http>> make_http(const S3Account* account, RemoteDeadlines deadlines, const AbortFlag* abort);

}  // namespace lockstep::cache
