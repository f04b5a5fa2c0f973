#include "launcher/serve/replicas/replica.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "launcher/process/launcher_words.h"
#include "launcher/process/secret_file.h"
#include "runtime/core/machine_memory.h"

namespace lockstep::serve {
namespace {

constexpr auto kEngineEnd = std::chrono::seconds(20);          // of an engine that was asked to end
constexpr Duration kLossEnd = std::chrono::seconds(5);         // of a lost one, by itself: it ends its ranks
constexpr Duration kHostEnd = std::chrono::milliseconds(500);  // of one that has lost a host
constexpr auto kGrow = std::chrono::minutes(1);                // of service with fewer ranks than wanted, and …
constexpr auto kLongestGrow = std::chrono::minutes(16);        // … twice as long after each trial, up to this
constexpr double kRoom = 1.2;                                  // of the present ranks' memory, for others beside them

TimePoint now() { return std::chrono::steady_clock::now(); }

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
      "with lockstep serve --tp N, or --launcher 'srun -n {ranks}'";
  return loss;
}

/// " on b, c"; nothing without hosts.
std::string words_on(const std::set<std::string>& hosts) {
  return hosts.empty() ? "" : fmt::format(" on {}", fmt::join(hosts, ", "));
}

/// Whether as much memory is free as the ranks of `activity` hold together.
bool has_room_for(const EngineActivity& activity, uint64_t free_bytes) {
  uint64_t bytes = 0;
  for (const EngineActivity::Rank& rank : activity.ranks) bytes += rank.resident_bytes;
  return bytes > 0 && static_cast<double>(bytes) * kRoom < static_cast<double>(free_bytes);
}

}  // namespace

Replica::Replica(const ReplicaParts& parts, size_t number, std::optional<EngineAddress> address, Events events)
    : parts_(parts),
      number_(number),
      address_(std::move(address)),
      events_(std::move(events)),
      recovery_({.policy = is_own() ? on_lost_rank(parts.options.on_lost_rank) : OnLostRank::kStop,
                 .max_restarts = parts.options.max_restarts}),
      degree_(parts.options.ranks),
      departures_(duration_of(parts.options.silence_s)),
      records_(is_own() && !of_another_launcher() ? records_of(parts.options, number) : std::filesystem::path()),
      growth_pause_(kGrow) {}

Replica::~Replica() { close(); }

/// In front of a line of log, where there are several.
std::string Replica::log_prefix() const {
  return parts_.options.replicas > 1 ? fmt::format("replica {}: ", number_) : std::string();
}

/// Where an engine serves that this program has not started.
Result<EngineAddress> Replica::address() const {
  if (address_) return *address_;
  const ReplicaOptions& options = parts_.options;
  EngineAddress address{
      .socket = options.engine_socket, .host = options.engine_host, .port = static_cast<uint16_t>(options.engine_port)};
  if (options.secret_file.empty()) return address;
  LOCKSTEP_TRY(address.secret, launcher::read_secret(options.secret_file));
  return address;
}

std::vector<int> Replica::hardware_threads() const {
  const auto& all = parts_.options.hardware_threads;
  return number_ < all.size() ? all[number_] : std::vector<int>();
}

Result<std::unique_ptr<Replica::Group>> Replica::begin(const Crew& crew) {
  const ReplicaOptions& options = parts_.options;
  auto group = std::make_unique<Group>();
  Group* const own = group.get();
  group->crew = crew;
  LOCKSTEP_TRY(EngineAddress where, address());
  if (is_own()) {
    std::vector<std::string> words = engine_command(options, crew);
    if (options.replicas > 1)
      words.insert(words.end(), {"--first-rank", std::to_string(static_cast<int>(number_) * crew.ranks)});
    group->records = records_.next();
    LOCKSTEP_TRY(
        group->process,
        EngineProcess::start({.words = std::move(words),
                              .environment = parts_.environment,
                              .ranks = own_ranks(options, crew.ranks),
                              .records = group->records ? group->records->folder() : records_of(options, number_),
                              .shares_records = of_another_launcher(),
                              .hardware_threads = hardware_threads()},
                             parts_.loop, [this, own](const Result<void>& result) { on_gone(own, result); }));
    where.socket = group->process->socket();
  }
  group->connection =
      connect(parts_.loop, {.address = where,
                            .limit = duration_of(options.start_deadline_s),
                            .done = [this, own](Result<std::unique_ptr<Engine>> engine) { on_connected(own, engine); },
                            .on_lost = [this, own](const Error& error) { on_disconnected(own, error); }});
  return group;
}

Result<void> Replica::start() {
  const Crew& crew = degree_.next();
  if (!crew.lost_hosts.empty() && !launcher::name_lost_hosts(parts_.options.launcher)) {
    parts_.log.warning(
        "{}--launcher may choose lost hosts again: found no word with {{lost_hosts}}, expected one such "
        "as --exclude={{lost_hosts}}",
        log_prefix());
  }
  LOCKSTEP_TRY(group_, begin(crew));
  return ok();
}

void Replica::on_connected(Group* group, Result<std::unique_ptr<Engine>>& engine) {
  if (is_finishing_) return;
  if (group == next_.get()) return take_over(engine);
  if (group == group_.get() && !recovery_.is_lost()) serve_first(engine);
}

void Replica::serve_first(Result<std::unique_ptr<Engine>>& engine) {
  const Result<void> attached =
      engine.has_value() ? parts_.engine.attach(std::move(engine.value()), number_) : Result<void>(engine.error());
  if (attached.has_value()) return note_serving();
  if (!is_own()) return give_up(attached.error());
  loss_ = attached.error();
  recovery_.note_lost();
  group_->process->stop();  // its end follows
}

void Replica::on_disconnected(const Group* group, const Error& error) {
  if (group != group_.get()) return;
  if (is_finishing_) return of_own_launch() ? end_finish() : void();
  if (recovery_.is_lost()) return;
  lose(error);
  if (!is_own()) return give_up(error);
  // A launcher waits for the processes of a host that is gone.
  timer_ = parts_.loop.after(departures_.gone() ? kHostEnd : kLossEnd, [this] { group_->process->kill(); });
}

/// Ranks that will have to end are done without before they do.
void Replica::note_presence(const std::vector<RankPresence>& ranks) {
  departures_.note(ranks);
  const std::optional<Departure> leaving = departures_.leaving();
  const bool may_change = check_change().has_value() && serves() && recovery_.may_recover() && !is_finishing_;
  if (!leaving || leaving == leaving_ || !may_change) return;
  leaving_ = leaving;
  parts_.log.warning("{}{} of {} ranks are to leave{}", log_prefix(), leaving->ranks, group_->crew.ranks,
                     words_on(leaving->hosts));
  degree_.shrink(*leaving);
  prepare_change(Change{});
}

void Replica::note_silent() {
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
void Replica::lose(const Error& error) {
  loss_ = error;
  growing_.reset();
  recovery_.note_lost();
  parts_.engine.detach(number_);
  events_.on_lost(error, recovery_.may_recover());
}

void Replica::on_gone(Group* group, const Result<void>& result) {
  const auto is_it = [group](const std::unique_ptr<Group>& other) { return other.get() == group; };
  if (std::erase_if(retired_, is_it) > 0) return;
  if (group == next_.get()) {
    next_.reset();
    const bool lacks_memory = !result.has_value() && result.error().kind == ErrorKind::kResourceExhausted;
    if (lacks_memory && change_ && serves()) {
      parts_.log.warning("{}no memory for both: {} ranks start after the others", log_prefix(), degree_.next().ranks);
      return replace();
    }
    return end_change(result.has_value() ? "its ranks have ended" : result.error().message);
  }
  if (group != group_.get()) return;
  if (group_->records != nullptr) group_->records->publish();
  timer_.reset();
  if (is_finishing_) return events_.on_finished(result);
  start_after(result);
}

void Replica::start_after(const Result<void>& result) {
  const bool says_more = !result.has_value() && !is_silent_ && !is_replaced_;
  const Error reason = says_more ? result.error() : loss_.value_or(ended_by_another());
  if (!recovery_.is_lost()) lose(reason);
  group_.reset();
  if (std::exchange(is_replaced_, false)) return start_again();
  if (change_ && next_ == nullptr) {  // the new ranks could not be started after the end of the others
    end_change(reason.message);
    return start_again();
  }
  if (next_ != nullptr && change_ && change_->grows) {  // on hosts that may still be lost: they may never come
    retire(std::move(next_));
    end_change("the others were lost meanwhile");
  }
  const Recovery::Next next = recovery_.note_gone(reason, parts_.engine.tokens(number_), now());
  if (!next.again) return give_up(of_another_launcher() ? with_advice(reason) : reason);
  parts_.log.warning("{}{}", log_prefix(), reason.message);
  if (next_ == nullptr) shrink_after_loss(next.shrinks);
  departures_.forget();
  parts_.log.warning("{}starts the ranks again: restart {}, {} of {} in a row without a token", log_prefix(),
                     recovery_.restarts(), recovery_.stalled(), parts_.options.max_restarts);
  timer_ = parts_.loop.after(next.pause, [this] { start_again(); });
}

/// Lost hosts are done without; `shrinks`: otherwise a rank is.
void Replica::shrink_after_loss(bool shrinks) {
  if (const std::optional<Departure> gone = departures_.gone()) {
    parts_.log.warning("{}all ranks{} are lost", log_prefix(), words_on(gone->hosts));
    degree_.shrink(*gone);
  } else if (shrinks) {
    degree_.shrink();
  }
}

void Replica::start_again() {
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

void Replica::give_up(const Error& error) {
  recovery_.note_over();
  events_.on_over(error);
}

Result<void> Replica::check_change() const {
  if (!is_own() || of_another_launcher()) return no_change("ranks of another launcher", "ranks of this server");
  if (change_ || next_ != nullptr) return no_change("another change under way", "none; ask again");
  if (!parts_.engine.is_attached(number_)) return no_change("ranks that start", "ranks that serve; ask again");
  return ok();
}

void Replica::change_ranks(std::optional<int> ranks, OnChanged done) {
  degree_.want(ranks.value_or(degree_.wanted()));
  growing_.reset();
  growth_pause_ = kGrow;
  if (ranks == group_->crew.ranks) return done({});
  prepare_change({.done = std::move(done)});
}

void Replica::prepare_change(Change change) {
  growing_.reset();
  change_ = std::move(change);
  parts_.engine.activity(number_, [this](const Result<EngineActivity>& activity) {
    const auto free = static_cast<uint64_t>(available_memory().value);
    begin_change(activity.has_value() && has_room_for(activity.value(), free));
  });
}

void Replica::begin_change(bool has_room) {
  if (is_finishing_ || recovery_.is_lost()) return end_change("the ranks were lost meanwhile");
  const Crew& crew = degree_.next();
  parts_.log.info("{}{} ranks take the place of {}{}: they {}", log_prefix(), crew.ranks, group_->crew.ranks,
                  crew.lost_hosts.empty() ? "" : ", not" + words_on(crew.lost_hosts),
                  has_room ? "load beside those" : "start after those, since memory for both is not free");
  if (!has_room) return replace();
  auto begun = begin(crew);
  if (!begun.has_value()) return end_change(begun.error().message);
  next_ = std::move(begun.value());
}

/// Other ranks start after the end of the present ones.
void Replica::replace() {
  is_replaced_ = true;
  lose({ErrorKind::kUnavailable, "[serve] the ranks end, and others start in their place"});
  group_->process->stop();
}

/// The ranks that loaded beside the others get their requests, also where those were lost meanwhile.
void Replica::take_over(Result<std::unique_ptr<Engine>>& engine) {
  const Result<void> attached =
      engine.has_value() ? parts_.engine.attach(std::move(engine.value()), number_) : Result<void>(engine.error());
  if (!attached.has_value()) {
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
void Replica::retire(std::unique_ptr<Group> group) {
  if (group == nullptr) return;
  // Ranks of no launcher hold nothing that has to be left in order, and their cores are needed.
  own_ranks(parts_.options, group->crew.ranks) > 0 ? group->process->kill() : group->process->stop();
  retired_.push_back(std::move(group));
}

void Replica::note_serving() {
  recovery_.note_serving(now());
  served_ = group_->crew;
  departures_.forget();
  leaving_.reset();
  end_change({});
  watch_size();
  events_.on_serving();
}

/// Where ranks are missing, they are tried again after a while.
void Replica::watch_size() {
  growing_.reset();
  if (!is_own()) return;
  if (degree_.wanted() <= served_.ranks) {
    growth_pause_ = kGrow;
    return;
  }
  growing_ = parts_.loop.after(growth_pause_, [this] {
    growth_pause_ = std::min<Duration>(2 * growth_pause_, kLongestGrow);
    degree_.grow();
    prepare_change({.grows = true});
  });
}

/// `failure`: why the ranks are as before; empty: they are the wanted ones.
void Replica::end_change(const std::string& failure) {
  if (!change_) return;
  const Change change = *std::exchange(change_, std::nullopt);
  if (!failure.empty()) {
    parts_.log.error("{}cannot serve with {} ranks: {}", log_prefix(), degree_.next().ranks, failure);
    if (change.done) degree_.want(served_.ranks);
    degree_.settle(served_);
    watch_size();
  }
  if (change.done) change.done(failure);
}

void Replica::finish() {
  is_finishing_ = true;
  timer_.reset();
  growing_.reset();
  if (next_ != nullptr) next_->process->stop();
  const bool serves_still = parts_.engine.is_attached(number_);
  const bool may_end = is_own() ? group_ != nullptr : of_own_launch() && serves_still;
  if (!may_end) return events_.on_finished(ok());
  if (!serves_still) return group_->process->stop();
  parts_.engine.finish(number_);
  timer_ = parts_.loop.after(kEngineEnd, [this] { is_own() ? group_->process->stop() : end_finish(); });
}

/// Of a replica whose processes a launcher ends.
void Replica::end_finish() {
  if (std::exchange(timer_, nullptr) != nullptr) events_.on_finished(ok());
}

void Replica::close() {
  timer_.reset();
  growing_.reset();
  parts_.engine.detach(number_);
  next_.reset();
  if (group_ != nullptr) {
    group_->connection.reset();
    group_->process.reset();
    if (group_->records != nullptr) group_->records->publish();
  }
  group_.reset();
  retired_.clear();
}

}  // namespace lockstep::serve
