#include "launcher/serve/door/engine_watch.h"

#include <algorithm>
#include <utility>

namespace lockstep::serve {
namespace {

constexpr auto kLook = std::chrono::milliseconds(500);  // between two looks, while the engine works or owes an answer
constexpr auto kIdleLook = std::chrono::seconds(2);     // more, at most, while it is idle
constexpr auto kAnswer = std::chrono::seconds(1);       // of an engine, before an answer goes without it

/// A call that happens once, when nothing is missing any more.
struct LateCall {
  std::function<void()> call;
  int missing = 1;
  std::unique_ptr<Timer> timer = nullptr;  // after which it happens anyway

  void run() {
    timer.reset();
    if (call) std::exchange(call, nullptr)();
  }
};

}  // namespace

EngineWatch::EngineWatch(DoorParts& parts, Events events) : parts_(parts), events_(std::move(events)) {}

EngineWatch::Looks& EngineWatch::at(size_t replica) {
  return looks_.try_emplace(replica, duration_of(parts_.options.replicas.silence_s)).first->second;
}

void EngineWatch::begin(size_t replica, std::function<void()> first) {
  pause(replica);
  at(replica).first = std::move(first);
  look(replica);
}

void EngineWatch::pause(size_t replica) {
  Looks& own = at(replica);
  own.next.reset();
  own.first = nullptr;
  own.answers.note_answered();
}

void EngineWatch::look(size_t replica) {
  Looks& own = at(replica);
  if (own.answers.look(DoorParts::now())) return events_.on_silent(replica);
  if (!own.answers.is_waiting()) ask(replica);
  own.next = parts_.loop->after(kLook, [this, replica] { look_again(replica); });
}

/// An idle engine that has answered is left alone for a while, unless ranks are about to leave it.
void EngineWatch::look_again(size_t replica) {
  Looks& own = at(replica);
  const bool is_left =
      replica < parts_.statuses.size() && std::ranges::any_of(parts_.statuses[replica].presence, &RankPresence::leaves);
  if (own.answers.is_waiting() || parts_.is_working() || is_left) return look(replica);
  const Duration silence = duration_of(parts_.options.replicas.silence_s);  // shows a host's loss in its second half
  const Duration pause = silence > Duration::zero() ? std::min<Duration>(kIdleLook, silence / 4) : kIdleLook;
  own.next = parts_.loop->after(pause, [this, replica] { look(replica); });
}

void EngineWatch::ask(size_t replica) {
  at(replica).answers.note_asked(DoorParts::now());
  parts_.engine.status(replica, [this, replica](const Result<EngineStatus>& status) {
    Looks& own = at(replica);
    own.answers.note_answered();
    if (take(replica, status)) events_.on_status(replica, status.value());
    if (status.has_value() && own.first) std::exchange(own.first, nullptr)();
  });
}

/// Returns whether it is the status of an engine that serves.
bool EngineWatch::take(size_t replica, const Result<EngineStatus>& status) {
  if (!status.has_value() || parts_.losses.contains(replica)) return false;
  if (status.value().step_age_s) {
    parts_.health.note_progress(DoorParts::now() - duration_of(*status.value().step_age_s));
  }
  if (parts_.statuses.size() <= replica) parts_.statuses.resize(replica + 1);
  parts_.statuses[replica] = status.value();
  return true;
}

void EngineWatch::read(std::function<void(const EngineActivity&)> done) {
  const size_t replicas = parts_.engine.attached();
  if (replicas == 0) return done({});
  const auto activity = std::make_shared<EngineActivity>();  // shared with an answer that may come too late
  const auto arrived =
      within_limit(static_cast<int>(replicas) + 1, [activity, done = std::move(done)] { done(*activity); });
  for (size_t replica = 0, asked = 0; asked < replicas; ++replica) {
    if (!parts_.engine.is_attached(replica)) continue;
    ++asked;
    parts_.engine.status(replica, [this, replica, arrived](const Result<EngineStatus>& status) {
      take(replica, status);
      arrived();
    });
  }
  parts_.engine.activity([activity, arrived](const Result<EngineActivity>& got) {
    if (got.has_value()) *activity = got.value();
    arrived();
  });
}

std::function<void()> EngineWatch::within_limit(int calls, std::function<void()> answer) {
  const auto late = std::make_shared<LateCall>(LateCall{std::move(answer), calls});  // shared by answers and timer
  late->timer = parts_.loop->after(kAnswer, [weak = std::weak_ptr<LateCall>(late)] {
    if (const auto own = weak.lock()) own->run();
  });
  return [late] {
    if (--late->missing == 0) late->run();
  };
}

}  // namespace lockstep::serve
