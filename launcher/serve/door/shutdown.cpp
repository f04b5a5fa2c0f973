#include "launcher/serve/door/shutdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::serve {
namespace {

constexpr auto kDrainLook = std::chrono::milliseconds(50);
constexpr auto kFlush = std::chrono::milliseconds(500);  // for clients to read the last error
constexpr auto kEngineEnd = std::chrono::seconds(20);    // of an engine that was asked to end

}  // namespace

void Shutdown::on_signal() {
  switch (drain_.on_signal(parts_.health.state(), DoorParts::now())) {
    case Drain::SignalStep::kIgnore: return;
    case Drain::SignalStep::kStop:
      return end(Error{ErrorKind::kCancelled, "[serve] interrupted: open requests were cut"});
    case Drain::SignalStep::kDrain: break;
  }
  parts_.log.info("drains: no new requests, open ones have {:.0f} s", parts_.options.drain_s);
  parts_.health.note_draining();
  parts_.server->close_after_answers();
  look_whether_drained();
}

void Shutdown::look_whether_drained() {
  const size_t open = std::max(parts_.server->open_exchanges(), parts_.api->open_requests());
  switch (drain_.look(open, DoorParts::now())) {
    case Drain::DrainStep::kFinish: return finish_engine();
    case Drain::DrainStep::kCut:
      return end(Error{ErrorKind::kCancelled,
                       fmt::format("[serve] drained for {:.0f} s: found {} requests that have not ended, expected "
                                   "none; they were cut, --drain-s gives them more time",
                                   parts_.options.drain_s, open)});
    case Drain::DrainStep::kWait: break;
  }
  draining_ = parts_.loop->after(kDrainLook, [this] { look_whether_drained(); });
}

/// Every request has its answer: the engine may end, unless it was there before.
void Shutdown::finish_engine() {
  parts_.server->stop_accepting();
  if (parts_.process == nullptr) return end(ok());
  is_finishing_ = true;
  parts_.engine->finish();
  draining_ = parts_.loop->after(kEngineEnd, [this] { end(ok()); });
}

void Shutdown::on_lost(const Error& error) {
  if (is_finishing_ || silence_) return;
  parts_.note_loss(error);
  parts_.log.error("{}", error.message);
  if (parts_.process == nullptr) return end_after_flush(error);
  // The end of the process says more, and comes soon.
  draining_.reset();
  ending_ = parts_.loop->after(kEngineEnd, [this, error] { end(error); });
}

void Shutdown::on_silent() {
  silence_ = Error{ErrorKind::kPeerLost,
                   fmt::format("[serve] lost the engine: found no answer for {:.0f} s, expected one at once; rank 0 is "
                               "frozen, or its machine is",
                               parts_.options.silence_s),
                   /*origin_rank=*/0};
  parts_.note_loss(*silence_);
  parts_.log.error("{}", silence_->message);
  if (parts_.process == nullptr) return end_after_flush(*silence_);
  // Its requests get their errors when it is gone.
  parts_.process->stop();
  draining_.reset();
  ending_ = parts_.loop->after(kEngineEnd, [this] { end(*silence_); });
}

void Shutdown::on_engine_end(const Result<void>& result) {
  if (silence_) return end_after_flush(*silence_);
  if (is_finishing_) return end(result);
  end_after_flush(result.has_value() ? Error{ErrorKind::kPeerLost,
                                             "[serve] the engine has ended: found exit code 0, expected it to serve; "
                                             "it was asked to end by another client"}
                                     : result.error());
}

void Shutdown::end_after_flush(const Error& error) {
  parts_.note_loss(error);
  draining_.reset();
  ending_ = parts_.loop->after(kFlush, [this, error] { end(error); });
}

void Shutdown::end(Result<void> result) {
  result_ = std::move(result);
  parts_.loop->stop();
}

}  // namespace lockstep::serve
