#include "runtime/cache/remote_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace lockstep::cache {
namespace {

constexpr std::string_view kS3 = "s3://";

Error refused(std::string_view url, std::string_view found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/cache] cannot use {} as a compile cache: found {}, expected {}; name a folder, "
                      "http(s)://HOST/PATH or s3://BUCKET/PREFIX",
                      url, found, expected)};
}

std::string without_slashes_at_the_end(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text;
}

/// Removes "user:password@" of an http address, which only the server may see.
std::string without_password(const std::string& url) {
  const size_t host = url.find("://") + 3;
  const size_t at = url.substr(0, url.find('/', host)).rfind('@');
  return at == std::string::npos || at < host ? url : url.substr(0, host) + url.substr(at + 1);
}

bool is_plain(std::string_view path) {
  return std::ranges::all_of(path, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._~/").find(c) != std::string_view::npos;
  });
}

Result<RemoteAddress> bucket_address(const std::string& url, const S3Account& account) {
  const std::string path = without_slashes_at_the_end(url.substr(kS3.size()));
  const std::string bucket = path.substr(0, path.find('/'));
  const std::string prefix = path.substr(bucket.size());  // including its slash, or empty
  if (bucket.empty()) return refused(url, "no bucket", "its name behind s3://");
  if (!is_plain(path)) return refused(url, "a special character", "letters, digits, - . _ ~ and /");
  if (account.access_key.empty() != account.secret_key.empty()) {
    return refused(url, "half an account", "both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither");
  }
  RemoteAddress address{.name = url, .base = {}, .is_signed = !account.access_key.empty()};
  if (account.endpoint.empty()) {
    address.base = fmt::format("https://{}.s3.{}.amazonaws.com{}", bucket, account.region, prefix);
  } else {
    address.base = fmt::format("{}/{}{}", without_slashes_at_the_end(account.endpoint), bucket, prefix);
  }
  return address;
}

}  // namespace

Result<RemoteAddress> remote_address(const std::string& url, const S3Account& account) {
  if (url.starts_with(kS3)) return bucket_address(url, account);
  if (!url.starts_with("http://") && !url.starts_with("https://")) {
    return refused(url, fmt::format("{}://", url.substr(0, url.find("://"))), "http://, https:// or s3://");
  }
  const std::string name = without_password(url);
  if (url.find_first_of("?# ") != std::string::npos) return refused(name, "a query or a blank", "a path alone");
  const std::string base = without_slashes_at_the_end(url);
  if (base.find("://") == std::string::npos || base.substr(base.find("://") + 3).empty()) {
    return refused(name, "no host", "one");
  }
  return RemoteAddress{.name = name, .base = base};
}

}  // namespace lockstep::cache
