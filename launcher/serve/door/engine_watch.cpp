#include "launcher/serve/door/engine_watch.h"

#include <utility>

namespace lockstep::serve {
namespace {

constexpr auto kLook = std::chrono::milliseconds(500);  // between two looks, while the engine works
constexpr auto kIdleLook = std::chrono::seconds(2);     // the same while it is idle
constexpr auto kAnswer = std::chrono::seconds(1);       // of an engine, before an answer goes without it

/// A call that happens once.
struct Once {
  std::function<void()> call;
  std::unique_ptr<Timer> timer = nullptr;  // after which it happens anyway

  void run() {
    timer.reset();
    if (call) std::exchange(call, nullptr)();
  }
};

}  // namespace

EngineWatch::EngineWatch(DoorParts& parts, std::function<void()> on_silent)
    : parts_(parts), on_silent_(std::move(on_silent)), answers_(DoorParts::from_seconds(parts.options.silence_s)) {}

void EngineWatch::look() {
  const TimePoint now = DoorParts::now();
  if (answers_.look(now)) return on_silent_();
  const bool is_late = answers_.is_waiting();
  if (!is_late) {
    answers_.note_asked(now);
    parts_.engine->status([this](const Result<EngineStatus>& status) {
      answers_.note_answered();
      take(status);
    });
  }
  looking_ = parts_.loop->after(is_late || parts_.is_working() ? kLook : kIdleLook, [this] { look(); });
}

void EngineWatch::take(const Result<EngineStatus>& status) {
  if (!status.has_value()) return;
  if (status.value().step_age_s) {
    parts_.health.note_progress(DoorParts::now() - DoorParts::from_seconds(*status.value().step_age_s));
  }
  parts_.status = status.value();
}

void EngineWatch::refresh(std::function<void()> done) {
  if (parts_.engine == nullptr) return done();
  parts_.engine->status([this, answer = within_limit(std::move(done))](const Result<EngineStatus>& status) {
    take(status);
    answer();
  });
}

void EngineWatch::activity(std::function<void(const EngineActivity&)> done) {
  if (parts_.engine == nullptr || parts_.health.state() == DoorState::kLost) return done({});
  const auto found = std::make_shared<EngineActivity>();  // shared with an answer that may come too late
  const auto answer = within_limit([found, done = std::move(done)] { done(*found); });
  parts_.engine->activity([found, answer](const Result<EngineActivity>& got) {
    if (got.has_value()) *found = got.value();
    answer();
  });
}

std::function<void()> EngineWatch::within_limit(std::function<void()> answer) {
  const auto once = std::make_shared<Once>(Once{std::move(answer)});  // shared by the engine's answer and the timer
  once->timer = parts_.loop->after(kAnswer, [weak = std::weak_ptr<Once>(once)] {
    if (const auto own = weak.lock()) own->run();
  });
  return [once] { once->run(); };
}

}  // namespace lockstep::serve
