#include "launcher/serve/door/engine_keeper.h"

#include <fmt/format.h>

#include <utility>

#include "launcher/process/secret_file.h"

namespace lockstep::serve {
namespace {

constexpr auto kEngineEnd = std::chrono::seconds(20);  // of an engine that was asked to end
constexpr auto kLossEnd = std::chrono::seconds(5);     // of a lost one, by itself: it ends its ranks

Error ended_by_another() {
  return {
      ErrorKind::kPeerLost,
      "[serve] the engine has ended: found exit code 0, expected it to serve; it was asked to end by another client"};
}

}  // namespace

EngineKeeper::EngineKeeper(DoorParts& parts, process::EnvironmentMap environment, Events events)
    : parts_(parts),
      environment_(std::move(environment)),
      events_(std::move(events)),
      recovery_({.policy = is_own() ? on_lost_rank(parts.options.on_lost_rank) : OnLostRank::kStop,
                 .max_restarts = parts.options.max_restarts}) {}

/// Where an engine serves that this server has not started.
Result<EngineAddress> EngineKeeper::address() const {
  const DoorOptions& options = parts_.options;
  EngineAddress address{
      .socket = options.engine_socket, .host = options.engine_host, .port = static_cast<uint16_t>(options.engine_port)};
  if (options.secret_file.empty()) return address;
  LOCKSTEP_TRY(address.secret, launcher::read_secret(options.secret_file));
  return address;
}

Result<void> EngineKeeper::start() {
  LOCKSTEP_TRY(EngineAddress where, address());
  if (is_own()) LOCKSTEP_TRY_VOID(start_process(where));
  connection_ = connect(*parts_.loop, {.address = where,
                                       .limit = duration_of(parts_.options.start_deadline_s),
                                       .done = [this](Result<std::unique_ptr<Engine>> engine) { on_connected(engine); },
                                       .on_lost = [this](const Error& error) { on_disconnected(error); }});
  return ok();
}

Result<void> EngineKeeper::start_process(EngineAddress& address) {
  const DoorOptions& options = parts_.options;
  LOCKSTEP_TRY(process_, EngineProcess::start({.words = options.engine,
                                               .environment = environment_,
                                               .ranks = options.engine_ranks,
                                               .records = options.engine_records},
                                              *parts_.loop, [this](const Result<void>& result) { on_gone(result); }));
  address.socket = process_->socket();
  return ok();
}

void EngineKeeper::on_connected(Result<std::unique_ptr<Engine>>& engine) {
  if (is_finishing_ || loss_) return;
  const Result<void> attached =
      engine.has_value() ? parts_.engine.attach(std::move(engine.value())) : Result<void>(engine.error());
  if (attached.has_value()) {
    recovery_.note_serving(DoorParts::now());
    return events_.on_serving();
  }
  if (!is_own()) return give_up(attached.error());
  loss_ = attached.error();  // the end of its process follows
  process_->stop();
}

void EngineKeeper::on_disconnected(const Error& error) {
  if (is_finishing_ || loss_) return;
  lose(error);
  if (!is_own()) return give_up(error);
  timer_ = parts_.loop->after(kLossEnd, [this] { process_->kill(); });
}

void EngineKeeper::note_silent() {
  if (is_finishing_ || loss_) return;
  is_silent_ = true;
  lose(Error{ErrorKind::kPeerLost,
             fmt::format("[serve] lost the engine: found no answer for {:.0f} s, expected one at once; rank 0 is "
                         "frozen, or its machine is",
                         parts_.options.silence_s),
             /*origin_rank=*/0});
  is_own() ? process_->kill() : give_up(*loss_);
}

/// Requests wait for another engine, or fail with the reason that the engine's end gives.
void EngineKeeper::lose(const Error& error) {
  loss_ = error;
  recovery_.note_lost();
  parts_.engine.detach();
  events_.on_lost(error, recovery_.may_recover());
}

void EngineKeeper::on_gone(const Result<void>& result) {
  timer_.reset();
  if (is_finishing_) return events_.on_finished(result);
  const bool says_more = !result.has_value() && !is_silent_;
  const Error reason = says_more ? result.error() : loss_.value_or(ended_by_another());
  if (!loss_) lose(reason);
  connection_.reset();
  process_.reset();
  const Recovery::Next next = recovery_.note_gone(reason, parts_.engine.tokens(), DoorParts::now());
  if (!next.again) return give_up(reason);
  parts_.restarts = recovery_.restarts();
  parts_.log.warning("{}", reason.message);
  parts_.log.warning("starts the ranks again: restart {}, {} of {} in a row without a token", recovery_.restarts(),
                     recovery_.stalled(), parts_.options.max_restarts);
  timer_ = parts_.loop->after(next.pause, [this] { start_again(); });
}

void EngineKeeper::start_again() {
  loss_.reset();
  is_silent_ = false;
  recovery_.note_starting();
  const Result<void> started = start();
  if (!started.has_value()) give_up(started.error());
}

void EngineKeeper::give_up(const Error& error) {
  loss_ = error;
  parts_.engine.fail(error);
  events_.on_over(error);
}

void EngineKeeper::finish() {
  is_finishing_ = true;
  timer_.reset();
  if (process_ == nullptr) return events_.on_finished(ok());
  if (!parts_.engine.is_attached()) return process_->stop();
  parts_.engine.finish();
  timer_ = parts_.loop->after(kEngineEnd, [this] { process_->stop(); });
}

void EngineKeeper::close() {
  timer_.reset();
  parts_.engine.detach();
  connection_.reset();
  process_.reset();
}

}  // namespace lockstep::serve
