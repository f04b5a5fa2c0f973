#include "launcher/measure/bench/spread.h"

#include <algorithm>

#include "runtime/core/check.h"

namespace lockstep::launcher {

Spread spread_of(std::vector<double> values) {
  LOCKSTEP_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {values.front(), median, values.back()};
}

}  // namespace lockstep::launcher
