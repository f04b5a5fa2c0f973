#include "launcher/serve/door/engine_watch.h"

#include <utility>

namespace lockstep::serve {
namespace {

constexpr auto kLook = std::chrono::milliseconds(500);  // between two looks, while the engine works or owes an answer
constexpr auto kIdleLook = std::chrono::seconds(2);     // more, while it is idle
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

EngineWatch::EngineWatch(DoorParts& parts, std::function<void()> on_silent)
    : parts_(parts), on_silent_(std::move(on_silent)), answers_(duration_of(parts.options.silence_s)) {}

void EngineWatch::begin(std::function<void()> first) {
  pause();
  first_ = std::move(first);
  look();
}

void EngineWatch::pause() {
  looking_.reset();
  first_ = nullptr;
  answers_.note_answered();
}

void EngineWatch::look() {
  if (answers_.look(DoorParts::now())) return on_silent_();
  if (!answers_.is_waiting()) ask();
  looking_ = parts_.loop->after(kLook, [this] { look_again(); });
}

/// An idle engine that has answered is left alone for a while.
void EngineWatch::look_again() {
  if (answers_.is_waiting() || parts_.is_working()) return look();
  looking_ = parts_.loop->after(kIdleLook, [this] { look(); });
}

void EngineWatch::ask() {
  answers_.note_asked(DoorParts::now());
  parts_.engine.status([this](const Result<EngineStatus>& status) {
    answers_.note_answered();
    take(status);
    if (status.has_value() && first_) std::exchange(first_, nullptr)();
  });
}

void EngineWatch::take(const Result<EngineStatus>& status) {
  if (!status.has_value() || parts_.loss) return;
  if (status.value().step_age_s) {
    parts_.health.note_progress(DoorParts::now() - duration_of(*status.value().step_age_s));
  }
  parts_.status = status.value();
}

void EngineWatch::read(std::function<void(const EngineActivity&)> done) {
  if (!parts_.engine.is_attached()) return done({});
  const auto activity = std::make_shared<EngineActivity>();  // shared with an answer that may come too late
  const auto arrived = within_limit(2, [activity, done = std::move(done)] { done(*activity); });
  parts_.engine.status([this, arrived](const Result<EngineStatus>& status) {
    take(status);
    arrived();
  });
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
