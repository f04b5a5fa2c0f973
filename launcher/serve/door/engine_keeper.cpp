#include "launcher/serve/door/engine_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/process/secret_file.h"
#include "runtime/core/machine_memory.h"

namespace lockstep::serve {
namespace {

constexpr auto kEngineEnd = std::chrono::seconds(20);  // of an engine that was asked to end
constexpr auto kLossEnd = std::chrono::seconds(5);     // of a lost one, by itself: it ends its ranks
constexpr auto kGrow = std::chrono::minutes(1);        // of service with fewer ranks than wanted
constexpr double kRoom = 1.2;                          // of the present ranks' memory, for others beside them

Error ended_by_another() {
  return {
      ErrorKind::kPeerLost,
      "[serve] the engine has ended: found exit code 0, expected it to serve; it was asked to end by another client"};
}

Error no_change(std::string_view found, std::string_view expected) {
  return {ErrorKind::kFailedPrecondition,
          fmt::format("cannot change the number of ranks: found {}, expected {}", found, expected)};
}

/// The loss of a rank that only its launcher could start again, with the advice to let the server start the ranks.
Error with_advice(Error loss) {
  loss.message +=
      "; ranks of another launcher cannot be started again: a server that starts them itself goes on after a loss, "
      "with "
      "lockstep serve --tp N, or --launcher 'srun -n {ranks}'";
  return loss;
}

/// Whether as much memory is free as the ranks of `activity` hold together.
bool has_room_for(const EngineActivity& activity, uint64_t free_bytes) {
  uint64_t bytes = 0;
  for (const EngineActivity::Rank& rank : activity.ranks) bytes += rank.resident_bytes;
  return bytes > 0 && static_cast<double>(bytes) * kRoom < static_cast<double>(free_bytes);
}

}  // namespace

EngineKeeper::EngineKeeper(DoorParts& parts, process::EnvironmentMap environment, Events events)
    : parts_(parts),
      environment_(std::move(environment)),
      events_(std::move(events)),
      recovery_({.policy = is_own() ? on_lost_rank(parts.options.on_lost_rank) : OnLostRank::kStop,
                 .max_restarts = parts.options.max_restarts}),
      degree_(parts.options.ranks) {}

EngineKeeper::~EngineKeeper() { close(); }

/// Where an engine serves that this server has not started.
Result<EngineAddress> EngineKeeper::address() const {
  const DoorOptions& options = parts_.options;
  EngineAddress address{
      .socket = options.engine_socket, .host = options.engine_host, .port = static_cast<uint16_t>(options.engine_port)};
  if (options.secret_file.empty()) return address;
  LOCKSTEP_TRY(address.secret, launcher::read_secret(options.secret_file));
  return address;
}

Result<std::unique_ptr<EngineKeeper::Group>> EngineKeeper::begin(int ranks) {
  const DoorOptions& options = parts_.options;
  auto group = std::make_unique<Group>();
  Group* const own = group.get();
  group->ranks = ranks;
  LOCKSTEP_TRY(EngineAddress where, address());
  if (is_own()) {
    LOCKSTEP_TRY(group->process,
                 EngineProcess::start({.words = engine_command(options, ranks),
                                       .environment = environment_,
                                       .ranks = own_ranks(options, ranks),
                                       .records = options.engine_records},
                                      *parts_.loop, [this, own](const Result<void>& result) { on_gone(own, result); }));
    where.socket = group->process->socket();
  }
  group->connection =
      connect(*parts_.loop, {.address = where,
                             .limit = duration_of(options.start_deadline_s),
                             .done = [this, own](Result<std::unique_ptr<Engine>> engine) { on_connected(own, engine); },
                             .on_lost = [this, own](const Error& error) { on_disconnected(own, error); }});
  return group;
}

Result<void> EngineKeeper::start() {
  LOCKSTEP_TRY(group_, begin(degree_.next()));
  return ok();
}

void EngineKeeper::on_connected(Group* group, Result<std::unique_ptr<Engine>>& engine) {
  if (is_finishing_) return;
  if (group == next_.get()) return take_over(engine);
  if (group == group_.get() && !recovery_.is_lost()) serve_first(engine);
}

void EngineKeeper::serve_first(Result<std::unique_ptr<Engine>>& engine) {
  const Result<void> attached =
      engine.has_value() ? parts_.engine.attach(std::move(engine.value())) : Result<void>(engine.error());
  if (attached.has_value()) return note_serving();
  if (!is_own()) return give_up(attached.error());
  loss_ = attached.error();
  recovery_.note_lost();
  group_->process->stop();  // its end follows
}

void EngineKeeper::on_disconnected(const Group* group, const Error& error) {
  if (is_finishing_ || recovery_.is_lost() || group != group_.get()) return;
  lose(error);
  if (!is_own()) return give_up(error);
  timer_ = parts_.loop->after(kLossEnd, [this] { group_->process->kill(); });
}

void EngineKeeper::note_silent() {
  if (is_finishing_ || recovery_.is_lost()) return;
  is_silent_ = true;
  lose(Error{ErrorKind::kPeerLost,
             fmt::format("[serve] lost the engine: found no answer for {:.0f} s, expected one at once; rank 0 is "
                         "frozen, or its machine is",
                         parts_.options.silence_s),
             /*origin_rank=*/0});
  is_own() ? group_->process->kill() : give_up(*loss_);
}

/// Requests wait for another engine, or fail with the reason that the engine's end gives.
void EngineKeeper::lose(const Error& error) {
  loss_ = error;
  growing_.reset();
  recovery_.note_lost();
  parts_.engine.detach();
  events_.on_lost(error, recovery_.may_recover());
}

void EngineKeeper::on_gone(Group* group, const Result<void>& result) {
  const auto is_it = [group](const std::unique_ptr<Group>& other) { return other.get() == group; };
  if (std::erase_if(retired_, is_it) > 0) return;
  if (group == next_.get()) {
    next_.reset();
    return end_change(result.has_value() ? "its ranks have ended" : result.error().message);
  }
  if (group != group_.get()) return;
  timer_.reset();
  if (is_finishing_) return events_.on_finished(result);
  start_after(result);
}

void EngineKeeper::start_after(const Result<void>& result) {
  const bool says_more = !result.has_value() && !is_silent_ && !is_replaced_;
  const Error reason = says_more ? result.error() : loss_.value_or(ended_by_another());
  if (!recovery_.is_lost()) lose(reason);
  group_.reset();
  if (std::exchange(is_replaced_, false)) return start_again();
  if (parts_.change && next_ == nullptr) {  // the new ranks could not be started after the end of the others
    end_change(reason.message);
    return start_again();
  }
  const Recovery::Next next = recovery_.note_gone(reason, parts_.engine.tokens(), DoorParts::now());
  if (!next.again) return give_up(of_another_launcher() ? with_advice(reason) : reason);
  parts_.restarts = recovery_.restarts();
  if (next.shrinks) degree_.shrink();
  parts_.log.warning("{}", reason.message);
  parts_.log.warning("starts the ranks again: restart {}, {} of {} in a row without a token", recovery_.restarts(),
                     recovery_.stalled(), parts_.options.max_restarts);
  timer_ = parts_.loop->after(next.pause, [this] { start_again(); });
}

void EngineKeeper::start_again() {
  loss_.reset();
  is_silent_ = false;
  recovery_.note_starting();
  if (next_ != nullptr) {  // it loads already
    group_ = std::move(next_);
    return;
  }
  const Result<void> started = start();
  if (!started.has_value()) give_up(started.error());
}

void EngineKeeper::give_up(const Error& error) {
  recovery_.note_over();
  parts_.engine.fail(error);
  events_.on_over(error);
}

Result<void> EngineKeeper::change_ranks(int ranks) {
  if (!is_own() || of_another_launcher()) return no_change("ranks of another launcher", "ranks of this server");
  if (parts_.change || next_ != nullptr) return no_change("another change under way", "none; ask again");
  if (!parts_.engine.is_attached()) return no_change("ranks that start", "ranks that serve; ask again");
  degree_.want(ranks);
  growing_.reset();
  if (ranks != group_->ranks) prepare_change({.ranks = ranks});
  return ok();
}

void EngineKeeper::prepare_change(RankChange change) {
  growing_.reset();
  const int ranks = change.ranks;
  parts_.change = std::move(change);
  parts_.change_failure.clear();
  degree_.grow();
  parts_.engine.activity([this, ranks](const Result<EngineActivity>& activity) {
    const auto free = static_cast<uint64_t>(available_memory().value);
    begin_change(ranks, activity.has_value() && has_room_for(activity.value(), free));
  });
}

void EngineKeeper::begin_change(int ranks, bool has_room) {
  if (is_finishing_ || recovery_.is_lost()) return end_change("the ranks were lost meanwhile");
  parts_.log.info(
      "changes from {} to {} ranks, {}", group_->ranks, ranks,
      has_room ? "which load beside the others" : "which start after the others: memory for both is not free");
  if (has_room) {
    auto begun = begin(ranks);
    if (!begun.has_value()) return end_change(begun.error().message);
    next_ = std::move(begun.value());
    return;
  }
  is_replaced_ = true;
  lose({ErrorKind::kUnavailable, "[serve] the ranks end, and others start in their place"});
  group_->process->stop();
}

/// The ranks that loaded beside the others get all requests, also where those were lost meanwhile.
void EngineKeeper::take_over(Result<std::unique_ptr<Engine>>& engine) {
  std::unique_ptr<Engine> before = parts_.engine.detach();
  const Result<void> attached =
      engine.has_value() ? parts_.engine.attach(std::move(engine.value())) : Result<void>(engine.error());
  if (!attached.has_value()) {
    if (before != nullptr) static_cast<void>(parts_.engine.attach(std::move(before)));  // it goes on
    end_change(attached.error().message);
    return next_->process->stop();
  }
  timer_.reset();  // of a start, or of the end of lost ranks
  loss_.reset();
  is_silent_ = false;
  retire(std::exchange(group_, std::move(next_)));
  note_serving();
}

/// Ends what was replaced.
void EngineKeeper::retire(std::unique_ptr<Group> group) {
  if (group == nullptr) return;
  // Ranks of no launcher hold nothing that has to be left in order, and their cores are needed.
  own_ranks(parts_.options, group->ranks) > 0 ? group->process->kill() : group->process->stop();
  retired_.push_back(std::move(group));
}

void EngineKeeper::note_serving() {
  recovery_.note_serving(DoorParts::now());
  served_ranks_ = group_->ranks;
  end_change({});
  watch_size();
  events_.on_serving();
}

/// Where ranks are missing, they are tried again after a while.
void EngineKeeper::watch_size() {
  growing_.reset();
  if (!is_own() || degree_.wanted() <= served_ranks_) return;
  growing_ = parts_.loop->after(kGrow, [this] { prepare_change({.ranks = degree_.wanted(), .grows = true}); });
}

/// `failure`: why the ranks are as before; empty: they are the wanted ones.
void EngineKeeper::end_change(std::string failure) {
  if (!parts_.change) return;
  const RankChange change = *std::exchange(parts_.change, std::nullopt);
  for (const auto& call : change.on_end) call(failure);
  if (!failure.empty()) {
    parts_.log.error("cannot serve with {} ranks: {}", change.ranks, failure);
    change.grows ? degree_.settle(served_ranks_) : degree_.want(served_ranks_);
    watch_size();
  }
  parts_.change_failure = std::move(failure);
}

void EngineKeeper::finish() {
  is_finishing_ = true;
  timer_.reset();
  growing_.reset();
  if (next_ != nullptr) next_->process->stop();
  if (group_ == nullptr || !is_own()) return events_.on_finished(ok());
  if (!parts_.engine.is_attached()) return group_->process->stop();
  parts_.engine.finish();
  timer_ = parts_.loop->after(kEngineEnd, [this] { group_->process->stop(); });
}

void EngineKeeper::close() {
  timer_.reset();
  growing_.reset();
  parts_.engine.detach();
  next_.reset();
  group_.reset();
  retired_.clear();
}

}  // namespace lockstep::serve
