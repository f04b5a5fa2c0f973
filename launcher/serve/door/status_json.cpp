#include "launcher/serve/door/status_json.h"

#include <nlohmann/json.hpp>

namespace lockstep::serve {
namespace {

using Json = nlohmann::ordered_json;

Json ranks_of(const EngineActivity& activity) {
  Json ranks = Json::array();
  for (const EngineActivity::Rank& rank : activity.ranks) {
    ranks.push_back({{"rank", ranks.size()},
                     {"replica", rank.replica},
                     {"state", rank.presence.leaves ? "leaving" : rank.state},
                     {"host", rank.presence.host.empty() ? Json() : Json(rank.presence.host)},
                     {"resident_bytes", rank.resident_bytes}});
  }
  return ranks;
}

Json slots_of(const EngineActivity& activity, const Metrics& metrics) {
  Json slots = Json::array();
  for (const EngineActivity::Slot& slot : activity.slots) {
    Json one{{"slot", slots.size()},  {"state", slot.state},           {"request", nullptr},    {"endpoint", nullptr},
             {"tokens", slot.tokens}, {"new_tokens", slot.new_tokens}, {"most_tokens", nullptr}};
    if (const auto open = metrics.open().find(slot.tag); open != metrics.open().end()) {
      const ApiRequest& request = open->second.request;
      one["request"] = request.id;
      one["endpoint"] = request.endpoint;
      one["most_tokens"] = request.most_tokens;
    }
    slots.push_back(std::move(one));
  }
  return slots;
}

Json steps_of(const EngineActivity& activity) {
  Json steps = Json::array();
  for (const EngineActivity::Step& step : activity.steps) {
    steps.push_back({{"number", step.number},
                     {"kind", step.kind},
                     {"rows", step.rows},
                     {"seconds", step.seconds},
                     {"age_s", step.age_s}});
  }
  return steps;
}

/// A request waits until a slot has one of its sequences.
Json requests_of(const EngineActivity& activity, const Metrics& metrics, TimePoint now) {
  Json requests = Json::array();
  for (const auto& [number, open] : metrics.open()) {
    Json slots = Json::array();
    for (size_t slot = 0; slot < activity.slots.size(); ++slot) {
      if (activity.slots[slot].tag == number) slots.push_back(slot);
    }
    requests.push_back({{"id", open.request.id},
                        {"endpoint", open.request.endpoint},
                        {"state", slots.empty() ? "waiting" : "running"},
                        {"slots", slots},
                        {"choices", open.request.choices},
                        {"prompt_tokens", open.request.prompt_tokens},
                        {"new_tokens", open.new_tokens},
                        {"most_tokens", open.request.most_tokens},
                        {"age_s", to_seconds(now - open.since)}});
  }
  return requests;
}

}  // namespace

std::string status_json(const StatusFacts& facts, const EngineStatus& status, const EngineActivity& activity,
                        const Metrics& metrics) {
  Json json{{"state", facts.state},
            {"model", facts.model},
            {"backend", facts.engine.backend},
            {"dtype", facts.engine.dtype},
            {"slot_tokens", facts.engine.capacity},
            {"uptime_s", to_seconds(facts.uptime)},
            {"ranks", ranks_of(activity)},
            {"slots", slots_of(activity, metrics)},
            {"queue", status.queued},
            {"running", status.running},
            {"tokens_per_s", facts.tokens_per_s},
            {"cached_tokens", status.reused_tokens},
            {"prompt_tokens", status.prompt_tokens},
            {"new_tokens", status.new_tokens},
            {"restarts", facts.replicas.restarts},
            {"replicas", facts.replicas.replicas},
            {"tp", facts.engine.ranks},
            {"changing_to_tp", nullptr},
            {"change_failure", nullptr},
            {"steps", steps_of(activity)},
            {"requests", requests_of(activity, metrics, facts.now)}};
  if (facts.replicas.changing_to) json["changing_to_tp"] = *facts.replicas.changing_to;
  if (!facts.replicas.change_failure.empty()) json["change_failure"] = facts.replicas.change_failure;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::serve
