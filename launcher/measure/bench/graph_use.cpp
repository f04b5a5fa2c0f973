#include "launcher/measure/bench/graph_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/core/short_number.h"

namespace lockstep::launcher {
namespace {

using Json = nlohmann::ordered_json;

/// Bytes that a step of `graph` reads, on average over the steps of its phase.
double bytes_of(const graph::Graph& graph, const cost::Workload& load, int64_t chunk) {
  const cost::StepWork work = cost::step_work(graph);
  const auto steps = graph.name.starts_with("prefill") ? cost::prefill_rows(load, chunk)
                                                       : std::vector<std::vector<cost::Run>>{cost::decode_rows(load)};
  cost::Amounts sum;
  for (const std::vector<cost::Run>& rows : steps) sum += cost::amounts_of(work, rows);
  return (sum.weight_bytes + sum.cache_bytes) / static_cast<double>(steps.size());
}

}  // namespace

std::vector<GraphUse> graph_uses(const shards::Shard& shard, const std::vector<std::string>& names,
                                 const cost::Workload& load) {
  std::vector<GraphUse> uses;
  const std::vector<const graph::Graph*> graphs = shard.graphs().all();
  for (size_t i = 0; i < std::min(graphs.size(), names.size()); ++i) {
    const device::Executable& executable = *shard.executables()[i];
    const int64_t replays = shard.replays()[i];
    const double device_s = to_seconds(executable.device_time().device);
    uses.push_back({.name = names[i],
                    .replays = replays,
                    .launches = executable.launches(),
                    .bytes = bytes_of(*graphs[i], load, shard.chunk()),
                    .device_s = replays > 0 ? device_s / static_cast<double>(replays) : 0.0});
  }
  return uses;
}

Json to_json(const std::vector<GraphUse>& graphs) {
  Json list = Json::array();
  for (const GraphUse& graph : graphs) {
    list.push_back({{"graph", graph.name},
                    {"replays", graph.replays},
                    {"launches", graph.launches > 0 ? Json(graph.launches) : Json(nullptr)},
                    {"bytes", graph.bytes},
                    {"device_s", graph.device_s > 0 ? Json(graph.device_s) : Json(nullptr)}});
  }
  return list;
}

std::string to_table(const std::vector<GraphUse>& graphs) {
  std::string text = "  graphs of rank 0, each compiled once and replayed; a replay reads weights, keys and values\n";
  for (const GraphUse& graph : graphs) {
    text +=
        fmt::format("  {:<34}{:>6} replays of {} MB", graph.name, graph.replays, short_number(graph.bytes * 1e-6, 4));
    if (graph.launches > 0) text += fmt::format(", {} launches and copies", graph.launches);
    if (graph.device_s > 0) text += fmt::format(", {} ms on the device", short_number(graph.device_s * 1e3, 4));
    text += "\n";
  }
  return text;
}

}  // namespace lockstep::launcher
