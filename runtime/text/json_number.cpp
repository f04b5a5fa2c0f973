#include "runtime/text/json_number.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace lockstep::text {
namespace {

constexpr int64_t kLargestPower = 308;
constexpr int64_t kLargestExponent = 1'000'000;  // beyond it every value is 0 or too large

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// 10 to 0 … kLargestPower, correctly rounded, which std::pow does not promise.
const std::array<double, kLargestPower + 1>& powers_of_ten() {
  static const auto powers = [] {
    std::array<double, kLargestPower + 1> made{};
    for (size_t exponent = 0; exponent < made.size(); ++exponent) {
      const std::string text = fmt::format("1e{}", exponent);
      std::from_chars(text.data(), text.data() + text.size(), made[exponent]);
    }
    return made;
  }();
  return powers;
}

std::optional<double> scale(uint64_t digits, int64_t exponent) {
  const auto power = [](int64_t of) { return powers_of_ten()[static_cast<size_t>(of)]; };
  auto value = static_cast<double>(digits);
  for (; exponent < -kLargestPower && value != 0; exponent += kLargestPower) value /= power(kLargestPower);
  if (value == 0) return value;
  if (exponent > kLargestPower) return std::nullopt;
  value = exponent < 0 ? value / power(-exponent) : value * power(exponent);
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

/// The integer behind an "e".
int64_t exponent_of(std::string_view text) {
  const bool negative = text.starts_with('-');
  int64_t exponent = 0;
  for (const char c : text) {
    if (is_digit(c) && exponent < kLargestExponent) exponent = 10 * exponent + (c - '0');
  }
  return negative ? -exponent : exponent;
}

}  // namespace

std::optional<double> read_number(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  uint64_t digits = 0;
  int64_t exponent = 0;
  bool in_fraction = false;
  bool is_full = false;  // the next digit does not fit
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == 'e' || text[at] == 'E') {
      exponent += exponent_of(text.substr(at + 1));
      break;
    }
    if (!is_digit(text[at])) {  // the point; a small digit behind it may fit again
      in_fraction = true;
      is_full = false;
      continue;
    }
    const auto digit = static_cast<uint64_t>(text[at] - '0');
    is_full = is_full || digits > (UINT64_MAX - digit) / 10;
    if (!is_full) digits = 10 * digits + digit;
    if (is_full != in_fraction) exponent += is_full ? 1 : -1;  // a digit left out before the point, or one behind it
  }
  const auto value = scale(digits, exponent);
  return value && negative ? -*value : value;
}

}  // namespace lockstep::text
