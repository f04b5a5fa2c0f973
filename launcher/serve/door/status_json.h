// What /admin/status answers: the engine's slots, ranks and steps, and the open requests.
#pragma once

#include <string>
#include <string_view>

#include "launcher/serve/door/metrics.h"
#include "launcher/serve/engine/engine.h"
#include "launcher/serve/replicas/replicas.h"

namespace lockstep::serve {

struct StatusFacts {
  std::string_view state;  // Health::word
  std::string model;
  EngineFacts engine;
  Duration uptime{};
  Replicas::State replicas;
  double tokens_per_s = 0.0;
  TimePoint now{};
};

/// JSON with a line's end. The slots of `activity` name open requests of `metrics` by their tags.
std::string status_json(const StatusFacts& facts, const EngineStatus& status, const EngineActivity& activity,
                        const Metrics& metrics);

}  // namespace lockstep::serve
