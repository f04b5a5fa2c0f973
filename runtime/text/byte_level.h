// The alphabet of byte-level tokenizers: one printable character per byte, so a vocabulary can be text. Printable
// Latin-1 represents itself; the other 68 bytes are U+0100, U+0101 … in order ("Ġ" is the space). Source: the byte
// encoder published with GPT-2. Also the byte tokens of other vocabularies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::text {

/// Converts each byte to its character.
std::string bytes_to_level(std::string_view bytes);

/// The byte of the character `c`; empty for a character outside the alphabet.
std::optional<uint8_t> byte_of_level(char32_t c);

/// The byte of a token of byte fallback, "<0x0A>"; empty for any other token.
std::optional<uint8_t> byte_of_fallback(std::string_view token);

/// The expression with which byte-level tokenizers split words.
inline constexpr std::string_view kByteLevelExpression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace lockstep::text
