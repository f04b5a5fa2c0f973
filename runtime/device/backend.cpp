#include "runtime/device/backend.h"

namespace lockstep::device {

Result<void> Store::load(const graph::Graph& graph, const WeightReader& reader) {
  std::vector<std::byte> contents;
  for (const graph::ValueId id : graph.values_of(graph::ValueKind::kWeight)) {
    const graph::Value& weight = graph.value(id);
    contents.resize(static_cast<size_t>(weight.type.bytes()));
    LOCKSTEP_TRY_VOID(reader.read(weight, rows_of(weight), contents));
    LOCKSTEP_TRY_VOID(set_weight(weight.name, contents));
  }
  return ok();
}

}  // namespace lockstep::device
