// Keeps an engine behind the server: starts its processes, connects, and starts them again when they are lost.
//
//   start ─► process ─► connection ─► DoorParts::engine        lost ─► the rest is ended ─► start, or over (recovery.h)
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "launcher/serve/door/engine_process.h"
#include "launcher/serve/door/parts.h"
#include "launcher/serve/door/recovery.h"
#include "launcher/serve/engine/rpc_engine.h"

namespace lockstep::serve {

/// On the loop's thread. Destroyed before the parts.
class EngineKeeper {
 public:
  /// What happens to the engine; called on the loop's thread.
  struct Events {
    std::function<void()> on_serving;                       // requests are answered, for the first time or again
    std::function<void(const Error&, bool again)> on_lost;  // another start may follow, or `on_over` does
    std::function<void(const Error&)> on_over;              // there will be no engine any more
    std::function<void(const Result<void>&)> on_finished;   // after `finish`: how it has ended
  };

  /// `environment`: of the engine's command.
  EngineKeeper(DoorParts& parts, process::EnvironmentMap environment, Events events);

  /// Fails when no engine can be started here at all.
  Result<void> start();
  /// The engine has not answered for `DoorOptions::silence_s`.
  void note_silent();
  /// Ends the engine, unless it is not this server's.
  void finish();
  /// Waits until no process of the engine is left. @blocking
  void close();

 private:
  bool is_own() const { return !parts_.options.engine.empty(); }
  Result<EngineAddress> address() const;
  Result<void> start_process(EngineAddress& address);
  void on_connected(Result<std::unique_ptr<Engine>>& engine);
  void on_disconnected(const Error& error);
  void on_gone(const Result<void>& result);
  void lose(const Error& error);
  void start_again();
  void give_up(const Error& error);

  DoorParts& parts_;
  const process::EnvironmentMap environment_;
  const Events events_;
  Recovery recovery_;
  std::unique_ptr<EngineProcess> process_;  // null: the engine is not this server's
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Timer> timer_;
  std::optional<Error> loss_;  // of the present engine; the first reason
  bool is_silent_ = false;     // it is the reason
  bool is_finishing_ = false;  // it was asked to end
};

}  // namespace lockstep::serve
