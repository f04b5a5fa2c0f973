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
  /// `on_silent`: the engine has not answered for `DoorOptions::silence_s`. Called at most once for each `begin`.
  EngineWatch(DoorParts& parts, std::function<void()> on_silent);

  /// Begins, with an engine or with another one, and calls `first` once its first status is known.
  void begin(std::function<void()> first);
  /// There is no engine to look at until the next `begin`.
  void pause();

  /// Asks for the status and the activity now, and calls `done` once: with the answers, or after a second without.
  void read(std::function<void(const EngineActivity&)> done);

 private:
  void look();
  void look_again();
  void ask();
  void take(const Result<EngineStatus>& status);
  /// A function whose call number `calls` calls `answer`; after a second that happens anyway. An engine in trouble must
  /// not hold up answers.
  std::function<void()> within_limit(int calls, std::function<void()> answer);

  DoorParts& parts_;
  const std::function<void()> on_silent_;
  std::function<void()> first_;
  AnswerWatch answers_;
  std::unique_ptr<Timer> looking_;
};

}  // namespace lockstep::serve
