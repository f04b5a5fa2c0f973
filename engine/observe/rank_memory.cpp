#include "engine/observe/rank_memory.h"

#include "engine/observe/gathered_numbers.h"

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
  return gather_numbers(member, memory_of(loaded));
}

std::string to_text(const RankMemory& memory) { return line_of_numbers(memory); }

RankMemory parse_memory(const std::string& text) { return numbers_of_line<RankMemory>(text); }

}  // namespace lockstep::observe
