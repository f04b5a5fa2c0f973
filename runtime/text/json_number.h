// Reading of JSON numbers to exactly the values that the tokenizers package reads.
#pragma once

#include <optional>
#include <string_view>

namespace lockstep::text {

/// The value of `text`, a number of JSON with a fraction, an exponent or more digits than 64 bits hold; empty when it
/// is too large. Any character may stand for the point.
///
/// The package's parser (serde_json without `float_roundtrip`) does not round correctly: it takes the digits as an
/// integer of 64 bits, drops those that do not fit, and multiplies or divides once by a power of ten. Where two paths
/// of Unigram are nearly tied, the last bit of a score decides.
std::optional<double> read_number(std::string_view text);

}  // namespace lockstep::text
