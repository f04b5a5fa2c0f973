#include "launcher/serve/door/health.h"

namespace lockstep::serve {

std::string_view to_string(DoorState state) {
  switch (state) {
    case DoorState::kStarting: return "starting";
    case DoorState::kReady: return "ready";
    case DoorState::kRecovering: return "recovering";
    case DoorState::kDraining: return "draining";
    case DoorState::kLost: return "lost";
  }
  return "lost";
}

std::vector<std::string> ranks_after_loss(size_t ranks, std::optional<int> lost) {
  std::vector<std::string> states(ranks, lost ? "ended" : "lost");
  if (lost && *lost >= 0 && static_cast<size_t>(*lost) < ranks) states[static_cast<size_t>(*lost)] = "lost";
  return states;
}

void Health::note_ready() {
  if (state_ == DoorState::kStarting || state_ == DoorState::kRecovering) state_ = DoorState::kReady;
}

void Health::note_recovering() {
  if (state_ == DoorState::kReady) state_ = DoorState::kRecovering;
}

void Health::note_draining() {
  if (state_ != DoorState::kLost) state_ = DoorState::kDraining;
}

void Health::note_lost() { state_ = DoorState::kLost; }

std::string_view Health::word(TimePoint now, bool is_working) const {
  if (state_ == DoorState::kReady && is_stalled(now, is_working)) return "stalled";
  return to_string(state_);
}

}  // namespace lockstep::serve
