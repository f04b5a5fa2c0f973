#include "engine/observe/rank_memory.h"

#include <fmt/format.h>

#include <sstream>

namespace lockstep::observe {

RankMemory memory_of(const device::Store& store, const model::LoadingCost& loading) {
  const device::MemoryReport held = store.memory();
  return {.weights = held.weights,
          .states_reserved = held.states_reserved,
          .states_resident = held.states_resident,
          .workspace = held.workspace,
          .peak_loading = loading.peak,
          .read_loading = loading.read,
          .files = loading.files,
          .read_ahead = loading.ahead,
          .peak = model::peak_resident()};
}

std::string to_text(const RankMemory& memory) {
  std::string text;
  for_each_field(memory, [&](std::string_view, const Bytes& bytes) { text += fmt::format("{} ", bytes.value); });
  return text;
}

RankMemory parse_memory(const std::string& text) {
  RankMemory memory;
  std::istringstream stream(text);
  for_each_field(memory, [&](std::string_view, Bytes& bytes) { stream >> bytes.value; });
  return memory;
}

}  // namespace lockstep::observe
