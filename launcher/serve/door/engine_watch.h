// The server's look at the engines of its replicas: the status now and then, and whether they answer at all.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "launcher/serve/door/answer_watch.h"
#include "launcher/serve/door/parts.h"

namespace lockstep::serve {

/// On the loop's thread. Destroyed before the parts' loop.
class EngineWatch {
 public:
  struct Events {
    /// A replica has answered a look so. Looks are apart in time, however often `read` is called.
    std::function<void(size_t replica, const EngineStatus&)> on_status;
    /// It has not answered for `ReplicaOptions::silence_s`. Called at most once for each `begin`.
    std::function<void(size_t replica)> on_silent;
  };
  EngineWatch(DoorParts& parts, Events events);

  /// Begins, with a replica's engine or with another one, and calls `first` once its first status is known.
  void begin(size_t replica, std::function<void()> first);
  /// There is no engine to look at until the next `begin`.
  void pause(size_t replica);

  /// Asks for the status and the activity now, and calls `done` once: with the answers, or after a second without.
  void read(std::function<void(const EngineActivity&)> done);

 private:
  /// The looks at one replica.
  struct Looks {
    explicit Looks(Duration silence) : answers(silence) {}

    AnswerWatch answers;
    std::function<void()> first;
    std::unique_ptr<Timer> next;
  };

  Looks& at(size_t replica);
  void look(size_t replica);
  void look_again(size_t replica);
  void ask(size_t replica);
  bool take(size_t replica, const Result<EngineStatus>& status);
  /// A function whose call number `calls` calls `answer`; after a second that happens anyway. An engine in trouble must
  /// not hold up answers.
  std::function<void()> within_limit(int calls, std::function<void()> answer);

  DoorParts& parts_;
  const Events events_;
  std::map<size_t, Looks> looks_;  // by replica
};

}  // namespace lockstep::serve
