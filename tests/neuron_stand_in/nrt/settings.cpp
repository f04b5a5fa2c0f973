#include "tests/neuron_stand_in/nrt/settings.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace lockstep::stand_in {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

Error unreadable(const char* name, const std::string& expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[stand-in] {}: found '{}', expected {}", name, variable(name), expected)};
}

template <typename T>
bool parse(std::string_view text, T& value) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size();
}

template <typename T>
Result<void> read_number(const char* name, T& value) {
  const std::string_view text = variable(name);
  if (!text.empty() && !parse(text, value)) return unreadable(name, "a number");
  return ok();
}

Result<void> read_seconds(const char* name, std::chrono::seconds& value) {
  int64_t seconds = value.count();
  LOCKSTEP_TRY_VOID(read_number(name, seconds));
  value = std::chrono::seconds(seconds);
  return ok();
}

/// "4", "4-7", "4,5,6": contiguous and ascending.
std::optional<std::vector<uint32_t>> parse_cores(std::string_view text) {
  std::vector<uint32_t> cores;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t dash = std::min(part.find('-'), part.size());
    uint32_t first = 0, last = 0;
    if (!parse(part.substr(0, dash), first)) return std::nullopt;
    last = first;
    if (dash < part.size() && !parse(part.substr(dash + 1), last)) return std::nullopt;
    for (uint32_t core = first; core <= last; ++core) {
      if (!cores.empty() && core != cores.back() + 1) return std::nullopt;
      cores.push_back(core);
    }
  }
  return cores.empty() ? std::nullopt : std::optional(cores);
}

Result<void> read_cores(Settings& settings) {
  constexpr const char* kName = "NEURON_RT_VISIBLE_CORES";
  const std::string_view text = variable(kName);
  if (text.empty()) {
    for (uint32_t core = 0; core < settings.total_cores; ++core) settings.visible_cores.push_back(core);
    return ok();
  }
  const auto cores = parse_cores(text);
  if (!cores) return unreadable(kName, "contiguous cores, as in 4-7");
  if (cores->back() >= settings.total_cores) {
    return unreadable(kName, fmt::format("cores below {} (STAND_IN_NRT_CORES)", settings.total_cores));
  }
  settings.visible_cores = *cores;
  return ok();
}

Result<void> read_root(Settings& settings) {
  constexpr const char* kName = "NEURON_RT_ROOT_COMM_ID";
  const std::string_view text = variable(kName);
  if (text.empty()) return ok();
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || !parse(text.substr(colon + 1), settings.root_port)) {
    return unreadable(kName, "HOST:PORT");
  }
  settings.root_host = text.substr(0, colon);
  return ok();
}

Result<void> read_version(Settings& settings) {
  constexpr const char* kName = "STAND_IN_NRT_VERSION";
  std::string_view text = variable(kName);
  for (size_t i = 0; i < settings.version.size() && !text.empty(); ++i) {
    const size_t end = std::min(text.find('.'), text.size());
    if (!parse(text.substr(0, end), settings.version[i])) return unreadable(kName, "a version, as in 2.32.0.0");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return ok();
}

}  // namespace

Result<Settings> settings_from_environment() {
  Settings settings;
  LOCKSTEP_TRY_VOID(read_number("STAND_IN_NRT_CORES", settings.total_cores));
  LOCKSTEP_TRY_VOID(read_cores(settings));
  LOCKSTEP_TRY_VOID(read_root(settings));
  LOCKSTEP_TRY_VOID(read_seconds("NEURON_RT_EXEC_TIMEOUT", settings.execute_limit));
  LOCKSTEP_TRY_VOID(read_number("NEURON_LOGICAL_NC_CONFIG", settings.logical_cores));
  LOCKSTEP_TRY_VOID(read_number("STAND_IN_NRT_FAMILY", settings.family));
  LOCKSTEP_TRY_VOID(read_number("STAND_IN_NRT_CORE_MEMORY", settings.core_memory));
  LOCKSTEP_TRY_VOID(read_version(settings));
  LOCKSTEP_TRY_VOID(read_seconds("STAND_IN_NRT_LOAD_LIMIT_S", settings.load_limit));
  settings.machine = variable("STAND_IN_NRT_MACHINE");
  settings.log = variable("STAND_IN_NRT_LOG");
  LOCKSTEP_TRY(settings.faults, parse_planted_faults(variable("STAND_IN_NRT_FAULTS")));
  return settings;
}

}  // namespace lockstep::stand_in
