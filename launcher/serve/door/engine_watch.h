// The server's look at its engine: the status now and then, and whether it answers at all.
#pragma once

#include <functional>
#include <memory>

#include "launcher/serve/door/answer_watch.h"
#include "launcher/serve/door/parts.h"

namespace lockstep::serve {

/// On the loop's thread. Destroyed before the parts' loop.
class EngineWatch {
 public:
  /// `on_silent`: the engine has not answered for `DoorOptions::silence_s`. Called at most once.
  EngineWatch(DoorParts& parts, std::function<void()> on_silent);

  /// Begins, with an engine.
  void begin() { look(); }

  /// Asks for the status now, and calls `done` once: with the answer, or after a second without one.
  void refresh(std::function<void()> done);
  /// The same for the activity; without an answer it is empty.
  void activity(std::function<void(const EngineActivity&)> done);

 private:
  void look();
  void take(const Result<EngineStatus>& status);
  /// Calls `answer` once: when it is called itself, or after a second. An engine in trouble must not hold up answers.
  std::function<void()> within_limit(std::function<void()> answer);

  DoorParts& parts_;
  const std::function<void()> on_silent_;
  AnswerWatch answers_;
  std::unique_ptr<Timer> looking_;
};

}  // namespace lockstep::serve
