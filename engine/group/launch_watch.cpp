#include "engine/group/launch_watch.h"

#include <utility>

#include "engine/group/agreement.h"
#include "engine/group/host.h"
#include "engine/group/state.h"

namespace lockstep::group {

using transport::watch::Endpoint;
using transport::watch::PeerWatch;

Result<void> LaunchWatch::open(const State& group, transport::Bootstrap& launch, const ControlPlane& plane) {
  if (group.hooks().detection == PeerDetection::kOff) return ok();
  transport::watch::WatchOptions options{
      .rank = launch.rank(),
      .size = launch.size(),
      .host = host_name(),
      .silence = group.options().silence,
      .activity = {},
      .on_refused = [&group](const std::string& line) { group.warn(/*rank=*/0, line); },
      .on_end = [this](const Error& error) { lost_.raise(error); }};
  std::string told;
  if (launch.rank() == 0) {
    const Endpoint free_port{.local = {}, .host = plane.address, .port = 0, .secret = plane.secret};
    if (auto hosted = PeerWatch::host(options, free_port); hosted.has_value()) watch_ = std::move(hosted).value();
    if (watch_ != nullptr) told = to_text(watch_->endpoint());
  }
  LOCKSTEP_TRY(const std::string endpoint_text, value_of_rank_0(launch, told));
  if (watch_ != nullptr || endpoint_text.empty()) return ok();
  LOCKSTEP_TRY(Endpoint endpoint, transport::watch::parse_endpoint(endpoint_text));
  endpoint.secret = plane.secret;
  watch_ = PeerWatch::join(std::move(options), endpoint);
  return ok();
}

void LaunchWatch::leave() {
  if (watch_ != nullptr) watch_->leave(Duration::zero());
}

}  // namespace lockstep::group
