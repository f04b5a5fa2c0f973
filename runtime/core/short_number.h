// Short numbers for reports: few digits, no exponent for large values.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace lockstep {

/// Up to `digits` significant digits below 1000, whole numbers from there on: "0.458", "61.3", "11394".
inline std::string short_number(double value, int digits = 3) {
  return std::abs(value) >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.{}g}", value, digits);
}

}  // namespace lockstep
