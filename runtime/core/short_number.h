// Numbers for people: a few digits, and no exponent for large ones.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace lockstep {

/// `digits` digits, but every digit before the point: "0.458", "61.3", "11394".
inline std::string short_number(double value, int digits = 3) {
  return std::abs(value) >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.{}g}", value, digits);
}

}  // namespace lockstep
