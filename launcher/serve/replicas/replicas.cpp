#include "launcher/serve/replicas/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::serve {

Replicas::Replicas(const ReplicaParts& parts, Events events) : parts_(parts), events_(std::move(events)) {
  for (int i = 0; i < parts.options.replicas; ++i) add(std::nullopt);
}

void Replicas::add(std::optional<EngineAddress> address) {
  const size_t number = replicas_.size();
  replicas_.push_back(std::make_unique<Replica>(
      parts_, number, std::move(address),
      Replica::Events{.on_serving = [this, number] { on_serving(number); },
                      .on_lost = [this, number](const Error& error, bool again) { on_lost(number, error, again); },
                      .on_over = [this, number](const Error& error) { on_over(number, error); },
                      .on_finished = [this](const Result<void>& result) { on_finished(result); }}));
}

Result<void> Replicas::start() {
  for (const auto& replica : replicas_) LOCKSTEP_TRY_VOID(replica->start());
  return ok();
}

/// The other replicas of a launch are reached where the first one's engine says.
Result<void> Replicas::find_others() {
  const std::vector<EngineAddress> others = parts_.engine.facts().replicas;
  for (const EngineAddress& address : others) {
    add(address);
    LOCKSTEP_TRY_VOID(replicas_.back()->start());
  }
  return ok();
}

void Replicas::on_serving(size_t replica) {
  if (is_ready_) return events_.on_serving(replica);
  if (replicas_.size() == 1) {
    const Result<void> found = find_others();
    if (!found.has_value()) return on_over(replica, found.error());
  }
  is_ready_ = std::ranges::all_of(replicas_, [](const auto& one) { return one->serves(); });
  if (is_ready_) events_.on_ready();
}

void Replicas::on_lost(size_t replica, const Error& error, bool again) {
  const bool others =
      std::ranges::any_of(replicas_, [&](const auto& one) { return one != replicas_[replica] && !one->is_over(); });
  if (is_ready_) events_.on_lost(replica, error, again || others);
}

void Replicas::on_over(size_t replica, const Error& error) {
  const bool are_over = std::ranges::all_of(replicas_, [](const auto& one) { return one->is_over(); });
  if (is_ready_ && !are_over) {
    parts_.log.error("replica {} is over, the others go on: {}", replica, error.message);
    return;
  }
  parts_.engine.fail(error);
  events_.on_over(error);
}

Result<bool> Replicas::change_ranks(std::optional<int> ranks, Replica::OnChanged done) {
  if (change_) {
    return Error{ErrorKind::kFailedPrecondition,
                 "cannot change the number of ranks: found another change under way, expected none; ask again"};
  }
  for (const auto& replica : replicas_) {
    if (!replica->is_over()) LOCKSTEP_TRY_VOID(replica->check_change());
  }
  change_failure_.clear();
  change_ = Change{ranks, std::move(done)};
  change_next(0);
  return change_.has_value();
}

/// A degree that cannot work fails with the first replica, which keeps its own then.
void Replicas::change_next(size_t replica) {
  while (replica < replicas_.size() && replicas_[replica]->is_over()) ++replica;
  if (replica == replicas_.size()) return std::exchange(change_, std::nullopt)->done({});
  const auto end = [this](const std::string& failure) {
    change_failure_ = failure;
    std::exchange(change_, std::nullopt)->done(failure);
  };
  // The replicas before took their time: this one may have been lost, or have begun a change of its own.
  if (const auto may_change = replicas_[replica]->check_change(); !may_change.has_value()) {
    return end(may_change.error().message);
  }
  replicas_[replica]->change_ranks(change_->ranks, [this, replica, end](const std::string& failure) {
    failure.empty() ? change_next(replica + 1) : end(failure);
  });
}

void Replicas::finish() {
  unfinished_ = replicas_.size();
  for (const auto& replica : replicas_) replica->finish();
}

void Replicas::on_finished(const Result<void>& result) {
  if (result_.has_value()) result_ = result;
  if (--unfinished_ == 0) events_.on_finished(result_);
}

void Replicas::close() {
  for (const auto& replica : replicas_) replica->close();
}

Replicas::State Replicas::state() const {
  State state{.change_failure = change_failure_};
  if (change_) state.changing_to = change_->ranks;
  for (const auto& replica : replicas_) {
    state.restarts += replica->restarts();
    if (!state.changing_to) state.changing_to = replica->changing_to();
    const std::string_view unready = is_ready_ ? "recovering" : "starting";
    state.replicas.push_back(replica->serves() ? "serving" : replica->is_over() ? "over" : unready);
  }
  return state;
}

}  // namespace lockstep::serve
