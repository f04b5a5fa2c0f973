#include "runtime/backends/reference/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/core/cache_rows.h"
#include "runtime/core/weight_format.h"

namespace lockstep::reference {
namespace {

/// The group's scale: its largest magnitude over `most`; NaN or 0 as in OPERATIONS.md.
float scale_of(std::span<const float> group, float most) {
  float largest = 0.0f;
  for (const float value : group) {
    if (!std::isfinite(value)) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::abs(value));
  }
  return largest < 0x1p-100f ? 0.0f : largest / most;
}

}  // namespace

void round_row(std::span<const float> row, const CodeRounding& how, float* dst) {
  const float most = how.is_e4m3 ? 448.0f : 127.0f;
  while (!row.empty()) {
    const std::span<const float> group = row.first(std::min(static_cast<size_t>(how.group), row.size()));
    row = row.subspan(group.size());
    const float scale = how.scale != nullptr ? *how.scale : scale_of(group, most);
    for (const float value : group) {
      const float code = std::isnan(value) ? value : std::clamp(value / scale, -most, most);
      const float rounded = how.is_e4m3 && !std::isnan(code) ? e4m3_value(to_e4m3(code)) : std::nearbyint(code);
      *dst++ = scale == 0.0f ? 0.0f : rounded * scale;
    }
  }
}

}  // namespace lockstep::reference
