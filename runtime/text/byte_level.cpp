#include "runtime/text/byte_level.h"

#include <array>
#include <charconv>

#include "runtime/text/unicode.h"

namespace lockstep::text {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char16_t, 256> char_of{};
  std::array<int16_t, 0x100 + 68> byte_of{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.byte_of) byte = -1;
  char16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char16_t c = stands_for_itself(byte) ? static_cast<char16_t>(byte) : next++;
    alphabet.char_of[byte] = c;
    alphabet.byte_of[c] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string bytes_to_level(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(kAlphabet.char_of[static_cast<uint8_t>(byte)], out);
  return out;
}

std::optional<uint8_t> byte_of_level(char32_t c) {
  if (c >= kAlphabet.byte_of.size() || kAlphabet.byte_of[c] < 0) return std::nullopt;
  return static_cast<uint8_t>(kAlphabet.byte_of[c]);
}

std::optional<uint8_t> byte_of_fallback(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  uint8_t byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return byte;
}

}  // namespace lockstep::text
