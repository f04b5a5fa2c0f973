// SHA-256 of bytes and files, for names and integrity checks. `hash.h` has the faster, non-cryptographic fingerprint.
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

/// Accumulates bytes; the digest does not depend on how they are cut into pieces. FIPS 180-4.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& add(std::span<const std::byte> bytes);
  Sha256& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }

  /// 64 hexadecimal digits in lower case. Called once, after the last bytes were added.
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

/// Fails with `kNotFound` when the file does not exist, with `kUnavailable` when it cannot be read. @blocking (disk)
Result<FileDigest> digest_of_file(const std::filesystem::path& path);

}  // namespace lockstep
