#include "launcher/process/own_environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>

#include "engine/group/environment.h"

namespace lockstep::launcher {

process::EnvironmentMap own_environment() { return group::whole_environment(); }

std::optional<std::string> own_variable(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void set_own_variable(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
}

double process_age_s() {
  std::ifstream stat("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(stat), {}};
  const size_t name_end = text.rfind(')');  // the name may contain any character
  if (name_end == std::string::npos) return 0.0;
  constexpr int kStartField = 22, kFirstAfterName = 3;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = kFirstAfterName; i <= kStartField; ++i) fields >> field;
  char* end = nullptr;
  const double ticks = std::strtod(field.c_str(), &end);
  timespec now{};
  if (end == field.c_str() || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0.0;
  const double started = ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  return std::max(0.0, static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - started);
}

}  // namespace lockstep::launcher
