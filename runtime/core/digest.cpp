#include "runtime/core/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

namespace lockstep {
namespace {

constexpr size_t kPiece = size_t{1} << 20;  // bytes read at once

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  LOCKSTEP_CHECK(state_->context != nullptr && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

Sha256& Sha256::add(std::span<const std::byte> bytes) {
  LOCKSTEP_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
  return *this;
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  LOCKSTEP_CHECK(EVP_DigestFinal_ex(state_->context, digest, &size) == 1);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) fmt::format_to(std::back_inserter(text), "{:02x}", digest[i]);
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) { return Sha256().add(bytes).hex(); }

Result<FileDigest> digest_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Error{errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kUnavailable,
                 fmt::format("[runtime/core] cannot read {}: {}", path.string(), std::strerror(errno))};
  }
  Sha256 hash;
  uint64_t size = 0;
  std::vector<char> piece(kPiece);
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    const auto got = static_cast<size_t>(file.gcount());
    hash.add(std::string_view(piece.data(), got));
    size += got;
  }
  if (file.bad()) {
    return Error{ErrorKind::kUnavailable,
                 fmt::format("[runtime/core] cannot read {}: {}", path.string(), std::strerror(errno))};
  }
  return FileDigest{size, hash.hex()};
}

}  // namespace lockstep
