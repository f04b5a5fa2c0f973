#include "launcher/ranks/rank_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

namespace lockstep::launcher {

Bytes peak_resident() {
  constexpr std::string_view kName = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kName)) continue;
    int64_t kib = 0;
    std::istringstream(line.substr(kName.size())) >> kib;
    return Bytes(kib * 1024);
  }
  return Bytes(0);
}

double process_age_s() {
  std::ifstream stat("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(stat), {}};
  const size_t name_end = text.rfind(')');  // the name may hold anything
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

RankMemory memory_of(const device::Store& store, const LoadingCost& loading) {
  return {store.memory(), loading, peak_resident()};
}

std::string to_text(const RankMemory& memory) {
  const device::MemoryReport& store = memory.store;
  return fmt::format("{} {} {} {} {} {} {} {} {}", store.weights.value, store.states_reserved.value,
                     store.states_resident.value, store.workspace.value, memory.loading.peak.value,
                     memory.loading.read.value, memory.loading.files.value, memory.loading.ahead.value,
                     memory.peak.value);
}

RankMemory parse_memory(const std::string& text) {
  RankMemory memory;
  device::MemoryReport& store = memory.store;
  std::istringstream(text) >> store.weights.value >> store.states_reserved.value >> store.states_resident.value >>
      store.workspace.value >> memory.loading.peak.value >> memory.loading.read.value >> memory.loading.files.value >>
      memory.loading.ahead.value >> memory.peak.value;
  return memory;
}

nlohmann::ordered_json to_json(const RankMemory& memory) {
  return {{"weights", memory.store.weights.value},
          {"states_reserved", memory.store.states_reserved.value},
          {"states_resident", memory.store.states_resident.value},
          {"workspace", memory.store.workspace.value},
          {"peak_resident_loading", memory.loading.peak.value},
          {"bytes_read_loading", memory.loading.read.value},
          {"bytes_of_files", memory.loading.files.value},
          {"bytes_read_ahead", memory.loading.ahead.value},
          {"peak_resident", memory.peak.value}};
}

}  // namespace lockstep::launcher
