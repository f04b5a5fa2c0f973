// How a server ends: by a signal, or because there is no engine any more.
//
//   signal ─► drain ─► every answer is out, or the time is over ─► the engine ends ─► the loop stops: 0 or 130
//   no engine ─► 503, time for clients to read their errors ─────────────────────────► the loop stops: the engine's
//   code
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "launcher/serve/door/drain.h"
#include "launcher/serve/door/parts.h"

namespace lockstep::serve {

/// On the loop's thread. Destroyed before the parts' loop.
class Shutdown {
 public:
  /// `finish_engine` asks the engine to end; `on_finished` follows.
  Shutdown(DoorParts& parts, std::function<void()> finish_engine)
      : parts_(parts), finish_engine_(std::move(finish_engine)), drain_(duration_of(parts.options.drain_s)) {}

  void on_signal();
  /// The engine is lost and will not be started again; `end_after_flush` follows, with a reason that says more.
  void on_lost(const Error& error);
  /// The engine that was asked to end has ended.
  void on_finished(const Result<void>& result) { end(result); }
  /// There is no server without it: clients get 503 for a moment, then it ends. The first reason counts.
  void end_after_flush(const Error& error);

  /// Why the loop has stopped.
  const Result<void>& result() const { return result_; }

 private:
  void look_whether_drained();
  void note_end(const Error& error);
  void end(Result<void> result);

  DoorParts& parts_;
  const std::function<void()> finish_engine_;
  Drain drain_;
  std::unique_ptr<Timer> draining_, ending_;
  bool is_flushing_ = false;  // clients read their errors
  Result<void> result_ = ok();
};

}  // namespace lockstep::serve
