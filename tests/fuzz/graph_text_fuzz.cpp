// Fuzzes the text form of graphs: parse fails, or returns a valid graph that prints unchanged.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/core/check.h"
#include "runtime/graph/passes.h"
#include "runtime/graph/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::graph;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = parse(text);
  if (!parsed) {
    LOCKSTEP_CHECK(parsed.error().kind == lockstep::ErrorKind::kInvalidArgument, parsed.error().message);
    return 0;
  }
  const Graph& graph = parsed.value();
  const std::string printed = to_text(graph);
  const auto again = parse(printed);
  LOCKSTEP_CHECK(again.has_value(), again.error().message, printed);
  LOCKSTEP_CHECK(again.value() == graph, printed);
  LOCKSTEP_CHECK(fingerprint(again.value()) == fingerprint(graph), printed);
  LOCKSTEP_CHECK(cost_of(graph) == cost_of(again.value()), printed);
  const auto fused = run_passes(graph, default_passes());
  LOCKSTEP_CHECK(fused.has_value(), fused.error().message, printed);
  return 0;
}
