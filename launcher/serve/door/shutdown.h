// How a server ends: by a signal, with its engine, or because it could not start.
//
//   signal ─► drain ─► every answer is out, or the time is over ─► the engine ends ─► the loop stops: 0 or 130
//   engine lost, silent or ended ─► 503, time for clients to read their errors ─────► the loop stops: the engine's code
#pragma once

#include <memory>
#include <optional>

#include "launcher/serve/door/drain.h"
#include "launcher/serve/door/parts.h"

namespace lockstep::serve {

/// On the loop's thread. Destroyed before the parts' loop.
class Shutdown {
 public:
  explicit Shutdown(DoorParts& parts) : parts_(parts), drain_(duration_of(parts.options.drain_s)) {}

  void on_signal();
  /// The connection to the engine is lost.
  void on_lost(const Error& error);
  /// The engine gives no answers.
  void on_silent();
  /// The engine's process has ended.
  void on_engine_end(const Result<void>& result);
  /// There is no server without it: clients get 503 for a moment, then it ends.
  void end_after_flush(const Error& error);

  /// Why the loop has stopped.
  const Result<void>& result() const { return result_; }

 private:
  void look_whether_drained();
  void finish_engine();
  void end(Result<void> result);

  DoorParts& parts_;
  Drain drain_;
  std::unique_ptr<Timer> draining_, ending_;
  bool is_finishing_ = false;     // the engine was asked to end
  bool is_flushing_ = false;      // clients read their errors; the first reason counts
  std::optional<Error> silence_;  // of an engine that is being killed
  Result<void> result_ = ok();
};

}  // namespace lockstep::serve
