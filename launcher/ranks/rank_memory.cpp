#include "launcher/ranks/rank_memory.h"

#include <fmt/format.h>

#include <fstream>
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

RankMemory memory_of(const device::Store& store, Bytes peak_loading) {
  return {store.memory(), peak_loading, peak_resident()};
}

std::string to_text(const RankMemory& memory) {
  const device::MemoryReport& store = memory.store;
  return fmt::format("{} {} {} {} {} {}", store.weights.value, store.states_reserved.value, store.states_resident.value,
                     store.workspace.value, memory.peak_loading.value, memory.peak.value);
}

RankMemory parse_memory(const std::string& text) {
  RankMemory memory;
  device::MemoryReport& store = memory.store;
  std::istringstream(text) >> store.weights.value >> store.states_reserved.value >> store.states_resident.value >>
      store.workspace.value >> memory.peak_loading.value >> memory.peak.value;
  return memory;
}

nlohmann::ordered_json to_json(const RankMemory& memory) {
  return {{"weights", memory.store.weights.value},
          {"states_reserved", memory.store.states_reserved.value},
          {"states_resident", memory.store.states_resident.value},
          {"workspace", memory.store.workspace.value},
          {"peak_resident_loading", memory.peak_loading.value},
          {"peak_resident", memory.peak.value}};
}

}  // namespace lockstep::launcher
