#include "engine/observe/rank_memory.h"

#include <fmt/format.h>

#include <sstream>

namespace lockstep::observe {
namespace {

RankMemory memory_of(const model::LoadedModel& loaded) {
  const device::MemoryReport held = loaded.shard->store().memory();
  const model::LoadingCost& loading = loaded.loading;
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

}  // namespace

Result<std::vector<RankMemory>> gather_memory(group::Member& member, const model::LoadedModel& loaded) {
  LOCKSTEP_TRY(const auto texts, member.bootstrap().exchange(to_text(memory_of(loaded))));
  std::vector<RankMemory> memory;
  for (const std::string& text : texts) memory.push_back(parse_memory(text));
  return memory;
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
