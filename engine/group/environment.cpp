#include "engine/group/environment.h"

#include <cstdlib>

namespace lockstep::group {

std::optional<std::string> environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace lockstep::group
