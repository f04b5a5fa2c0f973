#include "launcher/serve/door/health_json.h"

#include <nlohmann/json.hpp>

namespace lockstep::serve {

std::string health_json(const HealthFacts& facts, const EngineStatus& status) {
  nlohmann::ordered_json body{{"state", facts.state},        {"replicas", facts.replicas},
                              {"ranks", status.ranks},       {"step", status.steps},
                              {"last_token_age_s", nullptr}, {"open_requests", facts.open_requests},
                              {"running", status.running},   {"queue", status.queued}};
  if (facts.progress) body["last_token_age_s"] = to_seconds(*facts.progress);
  if (facts.loss) {
    body["loss"] = {{"rank", nullptr}, {"message", facts.loss->message}};
    if (facts.loss->origin_rank) body["loss"]["rank"] = *facts.loss->origin_rank;
  }
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::serve
