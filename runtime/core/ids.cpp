#include "runtime/core/ids.h"

#include <array>

namespace lockstep {

std::string to_string(Bytes bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double amount = static_cast<double>(bytes.value);
  size_t unit = 0;
  while (amount >= 1024.0 && unit + 1 < kUnits.size()) {
    amount /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes.value) : fmt::format("{:.2f} {}", amount, kUnits[unit]);
}

}  // namespace lockstep
