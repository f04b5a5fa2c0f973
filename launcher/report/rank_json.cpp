#include "launcher/report/rank_json.h"

#include <nlohmann/json.hpp>

namespace lockstep::launcher {
namespace {

using Json = nlohmann::ordered_json;

Json device_json(const trace::StepTotals& steps) {
  return {{"device_s", to_seconds(steps.on_device.device)},
          {"host_before_s", to_seconds(steps.before_device())},
          {"host_after_s", to_seconds(steps.on_device.after)}};
}

Json phase_json(const trace::PhaseReport& phase) {
  Json json = launcher::to_json(phase.split);
  json["seconds"] = to_seconds(phase.steps.time);
  json["steps"] = phase.steps.steps;
  json["tokens"] = phase.steps.tokens;
  json["collectives"] = phase.collectives.count;
  json["collective_bytes"] = phase.collectives.bytes;
  json["entered_last"] = phase.arrivals.last;
  json["entered_last_share"] = phase.last_share;
  json["cost_to_others_s"] = to_seconds(phase.arrivals.cost);
  json["median_lateness_s"] = to_seconds(phase.arrivals.median_lateness);
  if (phase.steps.is_on_device()) json["device"] = device_json(phase.steps);
  return json;
}

}  // namespace

Json to_json(const trace::PhaseSplit& split) {
  return {{"compute_s", split.compute_s}, {"communication_s", split.communication_s}, {"waiting_s", split.waiting_s}};
}

Json to_json(const std::vector<trace::RankReport>& ranks) {
  Json list = Json::array();
  for (const trace::RankReport& rank : ranks) {
    const trace::PhaseSplit both = rank.prefill.split + rank.decode.split;
    Json json = {{"rank", rank.rank}, {"host", rank.host}};
    json.update(to_json(both));
    json["prefill"] = phase_json(rank.prefill);
    json["decode"] = phase_json(rank.decode);
    json["phases"] = Json::object();
    for (const auto& [name, split] : rank.phases) {
      json["phases"][name] = to_json(split);
      json["phases"][name]["seconds"] = split.total_s();
    }
    json["collectives_outside_steps"] = rank.collectives_outside;
    json["clock_error_s"] = rank.clock_error_s;
    json["dropped_steps"] = rank.dropped_steps;
    json["dropped_collectives"] = rank.dropped_collectives;
    list.push_back(std::move(json));
  }
  return list;
}

Json to_json(const RankCores& cores) {
  return {{"seconds", cores.seconds},
          {"waited_for_core_s", cores.waited_s},
          {"preemptions", cores.preemptions},
          {"stolen_s", cores.stolen_s}};
}

Json to_json(const RankMemory& memory) {
  return {{"weights", memory.weights.value},
          {"states_reserved", memory.states_reserved.value},
          {"states_resident", memory.states_resident.value},
          {"workspace", memory.workspace.value},
          {"peak_resident_loading", memory.peak_loading.value},
          {"bytes_read_loading", memory.read_loading.value},
          {"bytes_of_files", memory.files.value},
          {"bytes_read_ahead", memory.read_ahead.value},
          {"peak_resident", memory.peak.value}};
}

}  // namespace lockstep::launcher
