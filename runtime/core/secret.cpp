#include "runtime/core/secret.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <iterator>

#include "runtime/core/check.h"

namespace lockstep {
namespace {

constexpr size_t kSecretBytes = 32;

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

}  // namespace

std::string random_bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t have = 0; have < size;) {
    const ssize_t got = getrandom(bytes.data() + have, size - have, 0);
    LOCKSTEP_CHECK(got > 0 || errno == EINTR, errno);
    if (got > 0) have += static_cast<size_t>(got);
  }
  return bytes;
}

std::string random_secret() {
  std::string digits;
  for (const char byte : random_bytes(kSecretBytes)) {
    fmt::format_to(std::back_inserter(digits), "{:02x}", static_cast<unsigned char>(byte));
  }
  return digits;
}

std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::string proof(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  const auto* const made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes_of(text), text.size(),
                                reinterpret_cast<unsigned char*>(proof.data()), &size);
  LOCKSTEP_CHECK(made != nullptr);
  proof.resize(size);
  return proof;
}

bool is_equal_secret(std::string_view found, std::string_view expected) {
  return found.size() == expected.size() && CRYPTO_memcmp(found.data(), expected.data(), expected.size()) == 0;
}

}  // namespace lockstep
