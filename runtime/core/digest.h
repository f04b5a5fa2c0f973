// SHA-256 of bytes and files, for names and checks that must hold against more than accidents; `hash.h` has the quick
// fingerprint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/core/result.h"

namespace lockstep {

/// Accumulates bytes; pieces of any length give the digest of the whole. FIPS 180-4.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& add(std::span<const std::byte> bytes);
  Sha256& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }

  /// 64 hexadecimal digits in lower case. Once, after everything was added.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The SHA-256 of `bytes`: 64 hexadecimal digits in lower case.
std::string sha256_hex(std::span<const std::byte> bytes);
inline std::string sha256_hex(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); }

/// The SHA-256 of a file, read piece by piece, and its size.
struct FileDigest {
  uint64_t size = 0;  // bytes
  std::string sha256;

  friend bool operator==(const FileDigest&, const FileDigest&) = default;
};

/// Fails with `kNotFound` when there is no such file, with `kUnavailable` when it cannot be read. @blocking (disk)
Result<FileDigest> digest_of_file(const std::filesystem::path& path);

}  // namespace lockstep
