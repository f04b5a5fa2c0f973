#include "runtime/device/backend_driver.h"

#include <fmt/format.h>

#include "runtime/device/unavailable_driver.h"

namespace lockstep::device {

DevicePlan same_device(const RankSite& site, std::string_view device) {
  return {.devices = std::vector<std::string>(site.places.size(), std::string(device)), .ordinals = {}, .warnings = {}};
}

Error missing_backend(std::string_view backend, std::string_view cmake_option) {
  return {ErrorKind::kUnavailable,
          fmt::format("[runtime/backends/{}] --backend {}: this build lacks {}; configure with -D{}=ON", backend,
                      backend, backend, cmake_option)};
}

OptionValues own_options(const BackendDriver& driver, const OptionValues& values) {
  OptionValues own;
  for (const OptionRow& row : driver.options()) {
    if (const auto given = values.find(std::string(row.name)); given != values.end()) own.insert(*given);
  }
  return own;
}

}  // namespace lockstep::device
