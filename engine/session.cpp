#include "engine/session.h"

#include <fmt/format.h>

#include <string>

#include "engine/group/agreement.h"
#include "engine/group/binding.h"
#include "engine/group/control_plane.h"

namespace lockstep {
namespace {

/// The options without the ranks of this process.
actors::SessionOptions session_options(const group::Member& member, const Scheduling& scheduling) {
  const group::State& group = member.group();
  actors::SessionOptions options;
  options.size = member.size();
  options.keeps_prefixes = scheduling.reuse == PrefixReuse::kOn;
  if (scheduling.chunk_budget_ms) options.chunk_budget = duration_of(*scheduling.chunk_budget_ms / 1e3);
  if (const auto& on_step = group.hooks().on_step) {
    options.trace.step = [&on_step](RankId rank, const actors::ExecutorStatus& status) { on_step(rank.value, status); };
  }
  options.detection =
      group.hooks().detection == group::PeerDetection::kOn ? actors::PeerDetection::kOn : actors::PeerDetection::kOff;
  options.on_refused = [&group, rank = member.rank()](const std::string& line) { group.warn(rank, line); };
  options.hello_deadline = options.end_deadline = group.options().deadline;
  options.connect_deadline = group.options().deadline;
  return options;
}

actors::LocalRank local_rank(const group::Member& member, int rank) { return {RankId(rank), &member.abort_flag()}; }

}  // namespace

SessionRank::SessionRank(group::Member& member, actors::Session& session) : member_(member), session_(session) {
  const auto& on_running = member.group().hooks().on_running;
  if (!on_running) return;
  on_running(member.rank(), {.status = [&session, rank = RankId(member.rank())] { return session.status(rank); },
                             .cancel = [&session] { session.cancel(); }});
}

Result<void> SessionRank::run(std::span<const int> hardware_threads, shards::StepEngine& engine) {
  const Result<void> ended = [&] {
    const group::BoundThread bound(hardware_threads);
    return session_.run_executor(RankId(member_.rank()), engine);
  }();
  // Recorded while the rank still counts as running, so that its error names the step.
  const Result<void> settled =
      ended.has_value() ? ended : Result<void>(member_.group().fail(member_.rank(), ended.error()));
  leave();
  return settled;
}

void SessionRank::leave() {
  if (const auto& on_running = member_.group().hooks().on_running) on_running(member_.rank(), {});
}

Result<std::unique_ptr<SessionRank>> ProcessSession::open(group::Member& member, const Scheduling& scheduling) {
  LOCKSTEP_TRY_VOID(member.group().ranks_are_threads() ? open_for_threads(member, scheduling)
                                                       : open_between_processes(member, scheduling));
  return std::make_unique<SessionRank>(member, *session_);
}

/// Rank 0 makes the session for all threads.
Result<void> ProcessSession::open_for_threads(group::Member& member, const Scheduling& scheduling) {
  const auto host = [&]() -> Result<void> {
    if (!member.leads()) return ok();
    actors::SessionOptions options = session_options(member, scheduling);
    for (int rank = 0; rank < member.size(); ++rank) options.ranks.push_back(local_rank(member, rank));
    LOCKSTEP_TRY(session_, actors::Session::host(options));
    return ok();
  };
  LOCKSTEP_TRY_VOID(member.bootstrap().barrier());  // no rank uses the previous session
  return member.all_succeeded(host());
}

Result<void> ProcessSession::open_between_processes(group::Member& member, const Scheduling& scheduling) {
  actors::SessionOptions options = session_options(member, scheduling);
  options.ranks = {local_rank(member, member.rank())};
  const group::ControlPlane& plane = member.group().control_plane();
  options.bind_address = plane.address;
  options.secret = plane.secret;
  options.connect_deadline /= 2;  // a rank that cannot reach rank 0 reports it before the others stop waiting
  actors::Address address;
  const auto host = [&]() -> Result<void> {
    if (!member.leads()) return ok();
    LOCKSTEP_TRY(session_, actors::Session::host(options));
    address = session_->address();
    return ok();
  };
  LOCKSTEP_TRY_VOID(member.all_succeeded(host()));
  LOCKSTEP_TRY(const std::string told,
               group::value_of_rank_0(member.bootstrap(), fmt::format("{} {}", address.host, address.port)));
  const auto join = [&]() -> Result<void> {
    if (member.leads()) return ok();
    const size_t space = told.rfind(' ');
    const actors::Address coordinator{told.substr(0, space), static_cast<uint16_t>(std::stoi(told.substr(space + 1)))};
    LOCKSTEP_TRY_VOID(
        group::check_reach(plane, member.rank(), {coordinator.host, coordinator.port}, options.connect_deadline));
    LOCKSTEP_TRY(session_, actors::Session::join(options, coordinator));
    return ok();
  };
  return member.all_succeeded(join());
}

}  // namespace lockstep
