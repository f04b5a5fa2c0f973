// The engine of another process, over Cap'n Proto RPC (engine/rpc/engine.capnp).
//
//   loop's thread ── requests ─► RPC thread ─► socket        an own thread, because Cap'n Proto has an own event loop
//                 ◄─ tokens ────
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launcher/serve/engine/engine.h"
#include "launcher/serve/http/event_loop.h"
#include "runtime/core/clock.h"

namespace lockstep::serve {

/// The wish for an engine that serves already, or will within `limit`.
struct Connecting {
  EngineAddress address;
  Duration limit;
  /// Called once on the loop's thread: the engine with its facts, or why there is none.
  std::function<void(Result<std::unique_ptr<Engine>>)> done;
  /// Called at most once on the loop's thread after `done`: the connection is lost. Open requests have failed before.
  std::function<void(const Error&)> on_lost;
};

/// Keeps an attempt and its callbacks alive; destroyed after the engine, or to give up without a call of `done`.
class Connection {
 public:
  virtual ~Connection() = default;
};

/// Connects, again and again until the limit: a socket appears when its engine is ready. The loop outlives the result
/// and the engine.
std::unique_ptr<Connection> connect(EventLoop& loop, Connecting connecting);

}  // namespace lockstep::serve
