#include "launcher/serve/door/health_json.h"

#include <nlohmann/json.hpp>

namespace lockstep::serve {

std::string health_json(const HealthFacts& facts, const EngineStatus& status) {
  nlohmann::ordered_json body{{"state", facts.state},
                              {"ranks", status.ranks},
                              {"step", status.steps},
                              {"last_token_age_s", nullptr},
                              {"open_requests", facts.open_requests},
                              {"running", status.running},
                              {"queue", status.queued}};
  if (facts.progress) body["last_token_age_s"] = std::chrono::duration<double>(*facts.progress).count();
  return body.dump() + "\n";
}

}  // namespace lockstep::serve
