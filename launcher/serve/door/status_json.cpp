#include "launcher/serve/door/status_json.h"

#include <nlohmann/json.hpp>

namespace lockstep::serve {
namespace {

using Json = nlohmann::ordered_json;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

Json ranks_of(const EngineActivity& activity) {
  Json ranks = Json::array();
  for (const EngineActivity::Rank& rank : activity.ranks) {
    ranks.push_back({{"rank", ranks.size()}, {"state", rank.state}, {"resident_bytes", rank.resident_bytes}});
  }
  return ranks;
}

Json slots_of(const EngineActivity& activity) {
  Json slots = Json::array();
  for (const EngineActivity::Slot& slot : activity.slots) {
    Json one{{"slot", slots.size()}, {"state", slot.state}, {"request", nullptr}};
    if (slot.request >= 0) one["request"] = std::to_string(slot.request);
    one["tokens"] = slot.tokens;
    one["new_tokens"] = slot.new_tokens;
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

Json requests_of(const Metrics& metrics, TimePoint now) {
  Json requests = Json::array();
  for (const auto& [number, open] : metrics.open()) {
    requests.push_back({{"id", open.request.id},
                        {"endpoint", open.request.endpoint},
                        {"prompt_tokens", open.request.prompt_tokens},
                        {"new_tokens", open.new_tokens},
                        {"age_s", seconds(now - open.since)}});
  }
  return requests;
}

}  // namespace

std::string status_json(const StatusFacts& facts, const EngineStatus& status, const EngineActivity& activity,
                        const Metrics& metrics) {
  const Json json{{"state", facts.state},
                  {"model", facts.model},
                  {"uptime_s", seconds(facts.uptime)},
                  {"ranks", ranks_of(activity)},
                  {"slots", slots_of(activity)},
                  {"queue", status.queued},
                  {"running", status.running},
                  {"tokens_per_s", facts.tokens_per_s},
                  {"cached_tokens", status.reused_tokens},
                  {"prompt_tokens", status.prompt_tokens},
                  {"new_tokens", status.new_tokens},
                  {"restarts", 0},
                  {"steps", steps_of(activity)},
                  {"requests", requests_of(metrics, facts.now)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::serve
