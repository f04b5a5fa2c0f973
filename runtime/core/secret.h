// Secrets: random values, proofs of knowledge, comparison in constant time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

/// `size` bytes of the system's random numbers (getrandom, random(7)).
std::string random_bytes(size_t size);

/// A new secret of 256 bits: 64 hexadecimal digits.
std::string random_secret();

/// HMAC-SHA256 of `text` with `key` (RFC 2104): 32 bytes. Only a holder of the key can make it.
std::string hmac_sha256(std::string_view key, std::string_view text);

/// Whether both are equal, in a time that depends on their lengths alone.
bool is_equal_secret(std::string_view found, std::string_view expected);

}  // namespace lockstep
