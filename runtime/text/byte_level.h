// The alphabet of byte-level tokenizers: every byte is written as one printable character, so a vocabulary can be
// text. Printable Latin-1 stands for itself; the other 68 bytes take U+0100, U+0101 … in order ("Ġ" is the space).
// Source: the byte encoder that GPT-2 was published with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::text {

/// `bytes`, each as its character.
std::string bytes_to_level(std::string_view bytes);

/// The byte that `c` stands for; empty for a character outside the alphabet.
std::optional<uint8_t> byte_of_level(char32_t c);

/// The expression that byte-level tokenizers split words with.
inline constexpr std::string_view kByteLevelExpression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace lockstep::text
