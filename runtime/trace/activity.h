// The present state of an engine: its slots, its ranks and its last steps. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/ids.h"

namespace lockstep::trace {

/// A kept slot is free, and holds tokens that the next request may reuse.
enum class SlotUse { kFree, kKept, kPrefill, kDecode };

/// "free", "kept", "prefill", "decode".
constexpr const char* to_string(SlotUse use) {
  switch (use) {
    case SlotUse::kFree: return "free";
    case SlotUse::kKept: return "kept";
    case SlotUse::kPrefill: return "prefill";
    case SlotUse::kDecode: return "decode";
  }
  return "unknown";
}

struct SlotActivity {
  SlotUse use = SlotUse::kFree;
  RequestId request{-1};   // −1: none
  int64_t tokens = 0;      // that the slot holds
  int64_t new_tokens = 0;  // of the request

  friend bool operator==(const SlotActivity&, const SlotActivity&) = default;
};

struct RankActivity {
  std::string state = "starting";  // then "ready", "lost" or "ended"
  Bytes resident;                  // memory of its process after its last schedule; zero before the first

  friend bool operator==(const RankActivity&, const RankActivity&) = default;
};

struct StepActivity {
  int64_t number = 0;  // from 1, since the start
  std::string kind;    // "prefill", "decode", "score"
  int64_t rows = 0;
  Duration time{};
  TimePoint ended;  // on rank 0's clock

  friend bool operator==(const StepActivity&, const StepActivity&) = default;
};

struct Activity {
  std::vector<SlotActivity> slots;
  std::vector<RankActivity> ranks;
  std::vector<StepActivity> steps;  // the last ones, oldest first
  TimePoint read;                   // the time of this state

  friend bool operator==(const Activity&, const Activity&) = default;
};

}  // namespace lockstep::trace
