#include "engine/group/member.h"

#include <utility>

#include "runtime/device/rank_exchange.h"

namespace lockstep::group {

Member::Member(State& group, int rank, std::unique_ptr<transport::Bootstrap> bootstrap, AbortFlag& abort)
    : group_(group),
      rank_(rank),
      bootstrap_(std::move(bootstrap)),
      abort_(abort),
      phases_(group.clock(), [this](const char* phase) {
        if (group_.hooks().on_phase) group_.hooks().on_phase(rank_, phase);
      }) {
  phases_.follow(group.phases());
}

Result<void> Member::all_succeeded(const Result<void>& mine) {
  bool all_know = false;
  const auto exchange = [&](std::string_view text) {
    auto told = bootstrap_->exchange(text);
    all_know = told.has_value();
    return told;
  };
  Result<void> done = device::all_succeeded(exchange, mine);
  if (!done.has_value() && all_know) failed_together_ = true;
  return done;
}

Result<void> Member::agree(std::string_view what, std::string_view statement) {
  Result<void> agreed = transport::agree(*bootstrap_, what, statement);
  if (!agreed.has_value() && agreed.error().kind == ErrorKind::kFailedPrecondition) failed_together_ = true;
  return agreed;
}

}  // namespace lockstep::group
