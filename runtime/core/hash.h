// A stable 64-bit hash for fingerprints and agreement between ranks.
//
// FNV-1a over words of eight bytes, finished by a bit mixer. The same on every rank, run and platform of one byte
// order. Not secure against adversaries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace lockstep {

/// Accumulates values into a fingerprint; order matters.
class Fingerprint {
 public:
  Fingerprint& add_bytes(std::span<const std::byte> bytes) {
    size_t i = 0;
    for (; i + sizeof(uint64_t) <= bytes.size(); i += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + i, sizeof word);
      add_word(word);
    }
    for (; i < bytes.size(); ++i) add_word(static_cast<uint64_t>(bytes[i]));
    return *this;
  }
  Fingerprint& add(std::string_view text) {
    add(static_cast<uint64_t>(text.size()));
    return add_bytes(std::as_bytes(std::span(text)));
  }
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T> Fingerprint& add(T value) {
    return add_bytes(std::as_bytes(std::span(&value, 1)));
  }

  /// The hash of the values so far; more may be added afterwards.
  uint64_t value() const {
    uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }

 private:
  void add_word(uint64_t word) { state_ = (state_ ^ word ^ (state_ >> 32)) * 0x100000001b3ull; }

  uint64_t state_ = 0xcbf29ce484222325ull;
};

}  // namespace lockstep
