#include "actors/coordinator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep::actors {
namespace {

using generation::FinishReason;

Error lost(int32_t rank, const std::string& operation) {
  return {ErrorKind::kPeerLost,
          fmt::format("[actors] rank {} was lost: its connection closed while rank 0 was at {}, expected it to stay "
                      "until the session ends; look at that rank's own log, then start again",
                      rank, operation),
          rank};
}

Error missing(const std::vector<int32_t>& ranks, Duration deadline) {
  return {
      ErrorKind::kDeadlineExceeded,
      fmt::format("[actors] rank 0: ranks are missing: found no word from rank {} within {:.3g} s, expected a hello "
                  "from each; check that they were started and can reach rank 0",
                  fmt::join(ranks, ", "), to_seconds(deadline))};
}

Error uneven(int32_t schedule, int32_t rank, int32_t steps, int32_t others) {
  return {ErrorKind::kInternal,
          fmt::format("[actors] ranks ran apart: found {} steps of schedule {} on rank {}, expected {} as on the first "
                      "rank that reported; this is a bug, please report it",
                      steps, schedule, rank, others),
          rank};
}

Error expired(RequestId request) {
  return {
      ErrorKind::kDeadlineExceeded,
      fmt::format("[actors] request {} is not done: found its deadline passed, expected its end before; give it more "
                  "time, or ask for fewer tokens",
                  request)};
}

Error refused_late(RequestId request) {
  return {
      ErrorKind::kFailedPrecondition,
      fmt::format("[actors] cannot take request {}: the session has been told to finish; submit before that", request)};
}

Error known(RequestId request) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[actors] cannot take request {}: found a request with this id still running, expected ids that "
                      "are unique in a session",
                      request)};
}

}  // namespace

void Coordinator::start(Self self, CoordinatorPorts ports) {
  self_ = self;
  ports_ = std::move(ports);
  refused_.emplace(/*rank=*/0, ports_.on_refused);
  book_ = ActiveRequests(ports_.choosers);
  peers_.resize(static_cast<size_t>(ports_.size));
  note_ranks();
  self_->delayed_send(self_, ports_.hello_deadline, late_atom::value);
}

void Coordinator::hello(int32_t rank, int32_t size, const ShardHandle& shard) {
  const bool fits = size == ports_.size && rank >= 0 && rank < size && !peers_[static_cast<size_t>(rank)].said_hello;
  if (!fits) return drop(fmt::format("a hello of rank {} of {}", rank, size));
  if (!is_open()) return self_->send(shard, close_atom::value, closing());
  Peer& peer = peers_[static_cast<size_t>(rank)];
  peer.shard = shard;
  peer.said_hello = true;
  if (ports_.detection == PeerDetection::kOn) self_->monitor(shard);
  note_ranks();
  if (std::ranges::all_of(peers_, &Peer::said_hello)) phase_ = Phase::kRunning;
  pump();
}

void Coordinator::late() {
  if (phase_ != Phase::kGathering) return;
  std::vector<int32_t> silent;
  for (size_t r = 0; r < peers_.size(); ++r) {
    if (!peers_[r].said_hello) silent.push_back(static_cast<int32_t>(r));
  }
  close(missing(silent, ports_.hello_deadline));
}

void Coordinator::begin(const PlannerLimits& limits) {
  limits_ = limits;
  planner_.emplace(limits);
  if (ports_.chunk_budget) timing_.emplace(limits, *ports_.chunk_budget, ports_.in_flight);
  for (const Request& request : std::exchange(early_, {})) admit(request);
  pump();
}

void Coordinator::submit(const Submission& submission) {
  for (const Request& request : submission.requests) accept(request, *submission.sink);
  if (planner_) pump();
}

void Coordinator::accept(const Request& request, Sink& sink) {
  const auto refuse = [&](const Error& error) { sink.on_finish(request.id, FinishReason::kError, error); };
  if (error_) return sink.on_abandoned(request.id, *error_);
  if (no_more_requests_) return refuse(refused_late(request.id));
  if (book_.has(request.id)) return refuse(known(request.id));
  if (request.deadline) {
    const Duration left = *request.deadline - SteadyClock().now();
    if (left <= Duration::zero()) return refuse(expired(request.id));
    self_->delayed_send(self_, left, expire_atom::value, request.id.value);
  }
  book_.open(request, sink);
  if (!planner_) return early_.push_back(request);
  admit(request);
}

void Coordinator::admit(const Request& request) {
  if (!book_.has(request.id)) return;  // stopped before the session began
  Result<Admission> admission = lockstep::actors::admit(request, limits_);
  if (!admission.has_value()) return book_.close(request.id, FinishReason::kError, admission.error());
  if (admission.value().goes_on) book_.divide(request, admission.value().new_tokens);
  if (admission.value().host_chosen) ports_.choosers->open(request, admission.value());
  planner_->add(std::move(admission).assume_value());
}

void Coordinator::stop(RequestId request) {
  if (!book_.has(request)) return;
  stop_slots(request);
  book_.close(request, FinishReason::kStop);
  pump();
}

void Coordinator::expire(RequestId request) {
  if (!book_.has(request)) return;
  stop_slots(request);
  book_.close(request, FinishReason::kError, expired(request));
  pump();
}

/// Sets the stop request in the device state, so running schedules need not continue for these slots only. Skips a slot
/// that belongs to another request in any running schedule.
void Coordinator::stop_slots(RequestId request) {
  if (!planner_) return;
  const auto occupants = planner_->occupants();
  for (size_t s = 0; s < occupants.size(); ++s) {
    const SlotId slot(static_cast<int32_t>(s));
    if (occupants[s] == request && book_.owns(request, slot)) ports_.request_stop(slot);
  }
  planner_->finish(request);
}

void Coordinator::finish() {
  no_more_requests_ = true;
  pump();
}

void Coordinator::take(std::span<const StepResult> results) {
  for (const StepResult& result : results) {
    if (is_open()) take(result);
  }
  pump();
}

void Coordinator::take(const StepResult& result) {
  const ActiveRequests::Taken taken = book_.take(result);
  for (const auto& [request, token] : taken.made) planner_->note_token(request, token);
  for (const ActiveRequests::Ended& ended : taken.ended) {
    if (ended.reason == FinishReason::kStop) stop_slots(ended.request);
    planner_->finish(ended.request);
  }
  for (const Request& rest : taken.rests) planner_->go_on(lockstep::actors::admit(rest, limits_).value());
}

void Coordinator::done(int32_t rank, const ScheduleDone& done) {
  if (!is_open() || !is_known(rank)) return;
  Peer& peer = peers_[static_cast<size_t>(rank)];
  LOCKSTEP_CHECK(done.schedule == peer.schedules_done && done.schedule < sent_, rank, done.schedule, sent_);
  ++peer.schedules_done;
  if (done.resident > 0 && std::exchange(peer.resident, done.resident) != done.resident) note_ranks();
  compare_steps(rank, done);
  if (rank == 0) {  // its executor has sent all results
    for (const RequestId left : book_.drop_schedule(done.schedule)) {
      LOCKSTEP_CHECK(planner_->expects(left), left, done.schedule);  // otherwise the request would never end
    }
  }
  if (last_ && slowest() > *last_) return close(std::nullopt);
  pump();
}

void Coordinator::compare_steps(int32_t rank, const ScheduleDone& done) {
  const int32_t steps = steps_.emplace(done.schedule, done.steps).first->second;
  if (steps != done.steps) close(uneven(done.schedule, rank, done.steps, steps));
  steps_.erase(steps_.begin(), steps_.lower_bound(slowest()));
}

int32_t Coordinator::slowest() const { return std::ranges::min(peers_, {}, &Peer::schedules_done).schedules_done; }

void Coordinator::pump() {
  plan();
  note_slots();
}

/// Bounds the next schedule by the steps that have ended since the last one was planned.
void Coordinator::bound_schedules() {
  if (!timing_ || ports_.activity == nullptr) return;
  for (const EndedStep& step : ports_.activity->steps_after(steps_seen_)) {
    const Duration time = step.end - step.begin;
    switch (step.phase) {
      case actors::Phase::kDecode: timing_->note_decode(time); break;
      case actors::Phase::kPrefill: timing_->note_prefill(step.rows, time); break;
      case actors::Phase::kScore: timing_->note_score(step.rows, time); break;
      default: break;  // no step
    }
  }
  planner_->set_bounds(timing_->bounds());
}

/// Sends schedules ahead, as many as may be in flight.
void Coordinator::plan() {
  while (may_plan() && sent_ - slowest() < ports_.in_flight) {
    bound_schedules();
    if (auto schedule = planner_->next()) {
      send(*schedule);
    } else if (no_more_requests_ && book_.empty()) {
      last_ = sent_;
      send(planner_->last());
    } else {
      return;
    }
  }
}

void Coordinator::send(const Schedule& schedule) {
  LOCKSTEP_CHECK(schedule.number == sent_, schedule.number, sent_);
  ++sent_;
  const auto occupants = planner_->occupants();
  book_.note_schedule(schedule.number, occupants);
  for (const OpenedSlot& opened : schedule.opened) {
    if (opened.prefix.ids.empty()) continue;
    book_.note_reused(*occupants[static_cast<size_t>(opened.slot.value)], std::ssize(opened.prefix.ids));
  }
  note_slots();  // before the ranks begin: while a step runs, its slots show as in use
  for (const Peer& peer : peers_) self_->send(peer.shard, schedule_atom::value, schedule);
}

void Coordinator::down(const caf::actor_addr& who) {
  const auto peer =
      std::ranges::find_if(peers_, [&](const Peer& p) { return p.said_hello && p.shard.address() == who; });
  if (peer == peers_.end() || peer->is_gone) return;
  peer->is_gone = peer->is_lost = true;
  note_ranks();
  close(lost(static_cast<int32_t>(peer - peers_.begin()), ports_.operation()));
  end_if_all_gone();
}

void Coordinator::close(const std::optional<Error>& error) {
  if (!is_open()) return;
  phase_ = Phase::kClosing;
  error_ = error;
  for (const Peer& peer : peers_) {
    if (peer.said_hello && !peer.is_gone) self_->send(peer.shard, close_atom::value, closing());
  }
  if (error) book_.fail_all(*error);  // after the message to the ranks, because it may wait for client code
  end_if_all_gone();
}

void Coordinator::closed(int32_t rank) {
  if (!is_known(rank)) return;
  peers_[static_cast<size_t>(rank)].is_gone = true;
  note_ranks();
  end_if_all_gone();
}

void Coordinator::end_if_all_gone() {
  if (phase_ != Phase::kClosing) return;
  if (!std::ranges::all_of(peers_, [](const Peer& peer) { return peer.is_gone || !peer.said_hello; })) return;
  phase_ = Phase::kOver;
  ports_.over->open(error_);
}

void Coordinator::note_slots() const {
  if (ports_.activity != nullptr && planner_) ports_.activity->set_slots(planner_->activity());
}

void Coordinator::note_ranks() const {
  if (ports_.activity == nullptr) return;
  std::vector<trace::RankActivity> ranks;
  for (const Peer& peer : peers_) {
    const char* const state = peer.is_lost ? "lost" : peer.is_gone ? "ended" : peer.said_hello ? "ready" : "starting";
    ranks.push_back({.state = state, .resident = Bytes(peer.resident)});
  }
  ports_.activity->set_ranks(std::move(ranks));
}

Closing Coordinator::closing() const { return error_ ? Closing{true, to_wire(*error_)} : Closing{}; }

bool Coordinator::is_known(int32_t rank) {
  const bool is_known = rank >= 0 && rank < ports_.size && peers_[static_cast<size_t>(rank)].said_hello;
  if (!is_known) drop(fmt::format("a message of rank {}", rank));
  return is_known;
}

void Coordinator::drop(const std::string& found) { refused_->note(found); }

void Coordinator::quit() {
  close(Error{ErrorKind::kCancelled, "[actors] rank 0: the session was destroyed before its end; call finish first",
              /*origin_rank=*/0});
  self_->quit();
}

LocalCoordinator::behavior_type coordinator_actor(Coordinator::Self self, CoordinatorPorts ports) {
  self->state.start(self, std::move(ports));
  // A failed check, or a sink that throws, ends the session instead of the actor.
  const auto guarded = [self](const auto& action) {
    try {
      action(self->state);
    } catch (const std::exception& failure) {
      self->state.close(
          Error{ErrorKind::kInternal, fmt::format("[actors] coordinator: {}", failure.what()), /*origin_rank=*/0});
    }
  };
  drop_unexpected(self, [self](const std::string& found) { self->state.drop(found); });
  self->set_down_handler([=](caf::down_msg& m) { guarded([&](Coordinator& c) { c.down(m.source); }); });
  return {
      [=](hello_atom, int32_t rank, int32_t size, const ShardHandle& shard) {
        guarded([&](Coordinator& c) { c.hello(rank, size, shard); });
      },
      [=](done_atom, int32_t rank, const ScheduleDone& done) { guarded([&](Coordinator& c) { c.done(rank, done); }); },
      [=](failed_atom, int32_t, const WireError& error) {
        guarded([&](Coordinator& c) { c.close(from_wire(error)); });
      },
      [=](closed_atom, int32_t rank) { guarded([&](Coordinator& c) { c.closed(rank); }); },
      [=](begin_atom, const PlannerLimits& limits) { guarded([&](Coordinator& c) { c.begin(limits); }); },
      [=](submit_atom, const Submission& submission) { guarded([&](Coordinator& c) { c.submit(submission); }); },
      [=](stop_atom, int64_t request) { guarded([&](Coordinator& c) { c.stop(RequestId(request)); }); },
      [=](finish_atom) { guarded([&](Coordinator& c) { c.finish(); }); },
      [=](results_atom, const Released& results) { guarded([&](Coordinator& c) { c.take(results.steps); }); },
      [=](late_atom) { guarded([&](Coordinator& c) { c.late(); }); },
      [=](expire_atom, int64_t request) { guarded([&](Coordinator& c) { c.expire(RequestId(request)); }); },
      [=](quit_atom) { guarded([&](Coordinator& c) { c.quit(); }); },
  };
}

}  // namespace lockstep::actors
