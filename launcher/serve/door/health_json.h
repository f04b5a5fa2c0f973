// What /health answers: a pure function.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/serve/engine/engine.h"
#include "runtime/core/clock.h"
#include "runtime/core/result.h"

namespace lockstep::serve {

struct HealthFacts {
  std::string_view state;              // Health::word
  std::optional<Duration> progress{};  // since the last token or step
  size_t open_requests = 0;
  std::optional<Error> loss{};               // of a replica's engine
  std::vector<std::string_view> replicas{};  // Replicas::State
};

/// After a loss it has the rank where that began (null: not known) and what happened.
std::string health_json(const HealthFacts& facts, const EngineStatus& status);

}  // namespace lockstep::serve
