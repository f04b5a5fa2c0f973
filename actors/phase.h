// What an executor does.
#pragma once

#include <string_view>

namespace lockstep::actors {

/// The current activity of an executor.
enum class Phase { kIdle, kSlots, kPrefill, kScore, kDecode, kDecide, kConfirm, kEnded };

/// "idle", "slots", "prefill", "score", "decode", "decide", "confirm", "ended".
constexpr std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::kIdle: return "idle";
    case Phase::kSlots: return "slots";
    case Phase::kPrefill: return "prefill";
    case Phase::kScore: return "score";
    case Phase::kDecode: return "decode";
    case Phase::kDecide: return "decide";
    case Phase::kConfirm: return "confirm";
    case Phase::kEnded: return "ended";
  }
  return "unknown";
}

}  // namespace lockstep::actors
